package handler

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/handler/body"
	"github.com/muster-fleet/muster/internal/model"
)

// request is an HTTP request as a kind makes it.
type request struct {
	kind   string // whose rules judge the answer
	method string // empty: POST
	url    string
	header [][2]string // besides Content-Type and Idempotency-Key
	body   []byte
	typ    string // of the body; empty: application/json
	key    string // idempotency key
	ca     string // PEM file; empty: the system's
	// refused says why an answer that looks as if the message were taken means that it was
	// not; nil: none does.
	refused func(answer string) error
	hidden  bool     // everything behind the host in url is a secret
	strict  bool     // ignores the kind's own rules of answers
	then    *request // follows once this one was taken; nil: nothing does
}

// mostAnswer is how much of an answer is read, in bytes.
const mostAnswer = 64 << 10

// post sends a request and its followers, until a service refuses one.
func (o *Out) post(ctx context.Context, m *Message, r *request) (Receipt, error) {
	receipt, err := o.sendOne(ctx, m, r)
	if err != nil || r.then == nil {
		return receipt, err
	}
	then, err := o.post(ctx, m, r.then)
	receipt.Sent += "\n" + then.Sent
	receipt.Answer += "\n" + then.Answer
	return receipt, err
}

// sendOne sends one request and judges the answer.
func (o *Out) sendOne(ctx context.Context, m *Message, r *request) (Receipt, error) {
	receipt := Receipt{Sent: r.String()}
	client, err := o.client(r.ca)
	if err != nil {
		return receipt, err
	}
	req, err := http.NewRequestWithContext(ctx, r.verb(), r.url, bytes.NewReader(r.body))
	if err != nil {
		return receipt, FinalError(fmt.Errorf("%s: %w", r.kind, withoutURL(err)))
	}
	req.Header.Set("Content-Type", r.contentType())
	req.Header.Set("User-Agent", "muster")
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	for _, h := range r.header {
		req.Header.Set(h[0], h[1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return receipt, fmt.Errorf("%s at %s: %w", r.kind, req.URL.Host, withoutURL(err))
	}
	defer resp.Body.Close()
	said := &capture{most: 512, hider: m.hider.NewText()}
	_, _ = io.Copy(said, io.LimitReader(resp.Body, mostAnswer))
	answer := strings.TrimSpace(body.Clean(said.String()))
	receipt.Answer = strings.TrimSpace(resp.Status + "\n" + answer)
	kind := r.kind
	if r.strict {
		kind = ""
	}
	failed := fmt.Errorf("%s answered %s: %s", r.kind, resp.Status, answer)
	switch judge(kind, resp.StatusCode) {
	case taken:
		if r.refused != nil {
			return receipt, r.refused(answer)
		}
		return receipt, nil
	case retried:
		return receipt, &Failure{Err: failed, After: retryAfter(resp.Header.Get("Retry-After"), o.opts.Now())}
	}
	return receipt, FinalError(failed)
}

func (r *request) verb() string { return cmp.Or(r.method, http.MethodPost) }

func (r *request) contentType() string { return cmp.Or(r.typ, "application/json") }

// String is the request for people; secrets in it are hidden later.
func (r *request) String() string {
	var b strings.Builder
	address := r.url
	if r.hidden {
		address = model.RedactURL(address)
	}
	fmt.Fprintf(&b, "%s %s\nContent-Type: %s\n", r.verb(), address, r.contentType())
	if r.key != "" {
		fmt.Fprintf(&b, "Idempotency-Key: %s\n", r.key)
	}
	for _, h := range r.header {
		value := h[1]
		if scheme, _, ok := strings.Cut(value, " "); h[0] == "Authorization" && ok {
			value = scheme + " " + model.RedactedText
		}
		fmt.Fprintf(&b, "%s: %s\n", h[0], value)
	}
	b.WriteByte('\n')
	var pretty bytes.Buffer
	if json.Indent(&pretty, r.body, "", "  ") == nil {
		b.Write(pretty.Bytes())
	} else {
		b.Write(r.body)
	}
	b.WriteByte('\n')
	return b.String()
}

// encode is a body as JSON that people can read too.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("BUG: a body that is no JSON: " + err.Error())
	}
	return bytes.TrimSpace(b.Bytes())
}

// object is a JSON object whose fields keep their order. A field whose name ends with ? is left out where its text or list is
// empty.
type object []field

type field struct {
	name  string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for _, f := range o {
		name, optional := strings.CutSuffix(f.name, "?")
		if optional && reflect.ValueOf(f.value).Len() == 0 {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, encode(name)...), ':'), encode(f.value)...)
	}
	return append(b, '}'), nil
}

// retryAfter reads the header: seconds, or a time (RFC 9110, 10.2.3). Zero: it says nothing.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(max(0, min(seconds, 86400))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// withoutURL returns the cause of an error without the address, whose path may be a secret: people read the error in the
// log.
func withoutURL(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// client is kept, so that a storm of messages does not shake hands for each; where the CA's
// file changed, there is a new one.
func (o *Out) client(ca string) (*http.Client, error) {
	key := ca
	if ca != "" {
		info, err := os.Stat(ca)
		if err != nil {
			return nil, fmt.Errorf("read CA: %w", err)
		}
		key += "\x00" + info.ModTime().String()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.clients[key]; c != nil {
		return c, nil
	}
	roots, err := pool(ca)
	if err != nil {
		return nil, err
	}
	c := &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: roots, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: 4, MaxIdleConns: 100, IdleConnTimeout: 30 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for old, client := range o.clients { // of the same file before it changed
		if path, _, _ := strings.Cut(old, "\x00"); path == ca {
			client.CloseIdleConnections()
			delete(o.clients, old)
		}
	}
	o.clients[key] = c
	return c, nil
}

// pool returns the TLS settings that trust the CAs in a file; nil: the system's CAs.
func pool(ca string) (*tls.Config, error) {
	if ca == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("read CA: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate", ca)
	}
	return &tls.Config{RootCAs: roots}, nil
}

// outcome is the effect of an answer on a message.
type outcome int

const (
	taken   outcome = iota
	retried         // with back-off, no sooner than Retry-After says
	final           // a dead letter at once: another attempt would be answered alike
)

func (o outcome) String() string { return [...]string{"taken", "tried again", "given up"}[o] }

// rule maps the answers of a service to an outcome. The first rule that fits applies; a kind's own rules come first.
type rule struct {
	kind     string // empty: of every kind that speaks HTTP
	from, to int    // status
	outcome  outcome
	why      string
}

// rules are all there are: docs/handlers.md shows this table.
func rules() []rule {
	return []rule{
		{"pagerduty", 400, 400, final, "PagerDuty refuses the event: a wrong routing key or field"},
		{"pagerduty", 429, 429, retried, "too many events for this routing key"},
		{"opsgenie", 404, 404, taken, "the alert to acknowledge, raise or close no longer exists (if the alert cannot be created: given up)"},
		{"opsgenie", 401, 403, final, "the key is wrong, or its integration is disabled or read-only"},
		{"opsgenie", 422, 422, final, "a field is wrong"},
		{"slack", 403, 404, final, "the webhook, its app or its channel was deleted or is read-only"},
		{"slack", 410, 410, final, "the channel was archived"},
		{"teams", 401, 404, final, "the workflow was deleted or disabled, or its address is wrong"},
		{"teams", 413, 413, final, "the card is too large for Teams (Muster shortens it first)"},
		{"ntfy", 401, 403, final, "the token may not write to this topic"},
		{"ntfy", 429, 429, retried, "more messages than the server allows"},
		{"alertmanager", 400, 400, final, "a label is wrong"},
		{"", 200, 299, taken, ""},
		{"", 408, 408, retried, "the request took too long"},
		{"", 425, 425, retried, "too early"},
		{"", 429, 429, retried, "too many requests"},
		{"", 500, 599, retried, "the service failed or is overloaded"},
		{"", 300, 499, final, "any other answer: a redirect, a wrong address, no permission"},
	}
}

// judge finds the rule for an answer.
func judge(kind string, status int) outcome {
	for _, r := range rules() {
		if (r.kind == "" || r.kind == kind) && r.from <= status && status <= r.to {
			return r.outcome
		}
	}
	return final
}

// AnswersPage is the table of docs/handlers.md.
func AnswersPage() string {
	var b strings.Builder
	b.WriteString("| handler | answer | the message is | because |\n|---|---|---|---|\n")
	for _, r := range rules() {
		kind, status := r.kind, fmt.Sprint(r.from)
		if kind == "" {
			kind = "all HTTP services"
		}
		if r.to != r.from {
			status += fmt.Sprintf("–%d", r.to)
		} else if text := http.StatusText(r.from); text != "" {
			status += " " + text
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", kind, status, r.outcome, r.why)
	}
	for _, r := range [][3]string{
		{"email", "4xx of SMTP", "tried again; for one of several recipients: the others get the mail at once"},
		{"email", "5xx of SMTP", "given up; for one of several recipients: the others get the mail, `muster why` names that one"},
		{"tcp, stream", "the connection accepted the line", "taken"}, {"udp", "the datagram was sent", "taken"},
		{"command", "exit code 0", "taken"}, {"command", "any other exit", "tried again"},
		{"all", "no connection, no answer in time, an untrusted certificate", "tried again"},
		{"all", "an unreadable secret, a missing property or handler", "tried again"},
	} {
		fmt.Fprintf(&b, "| %s | %s | %s | |\n", r[0], r[1], r[2])
	}
	return b.String()
}

// webhook posts the notification, or the output of the handler's template, and signs it if there is a secret.
func (o *Out) webhook(ctx context.Context, hook *model.Webhook, m *Message) (Receipt, error) {
	r := &request{kind: "webhook", hidden: true, url: hook.URL, typ: hook.ContentType, key: m.Key, ca: hook.CA, body: m.Payload}
	if hook.Template != "" {
		made, err := body.Render(hook.Template, m.Payload)
		if err != nil {
			return Receipt{}, FinalError(fmt.Errorf("webhook: %w", err))
		}
		r.body = made
	}
	if hook.Secret.Text != "" {
		r.header = signature(hook.Secret.Text, strconv.FormatInt(o.opts.Now().Unix(), 10), r.body)
	}
	if hook.Token.Text != "" {
		r.header = append(r.header, [2]string{"Authorization", "Bearer " + hook.Token.Text})
	}
	for _, name := range slices.Sorted(maps.Keys(hook.Headers)) {
		r.header = append(r.header, [2]string{name, hook.Headers[name]})
	}
	return o.post(ctx, m, r)
}

// signature returns headers that prove the sender and the body of a request and let the receiver refuse a replay: it
// computes the HMAC of time stamp, dot and body, and refuses an old time stamp.
func signature(secret, timestamp string, body []byte) [][2]string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return [][2]string{{"Muster-Timestamp", timestamp}, {"Muster-Signature", "v1=" + hex.EncodeToString(mac.Sum(nil))}}
}
