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

// request is an HTTP request to a handler's service, with an optional following request. The field next is a
// second request that follows it.
type request struct {
	kind        string // kind of handler, whose rules judge the answer
	method      string // empty: POST
	url         string
	header      [][2]string // additional headers, without Content-Type and Idempotency-Key
	body        []byte
	contentType string // empty: application/json
	key         string // idempotency key
	ca          string // PEM file with trusted CAs; empty: the CAs of the system
	// refused returns an error if an answer with a status of success refuses the message; nil: no such answer exists.
	refused     func(answer string) error
	secretURL   bool     // everything in url behind the host is a secret
	commonRules bool     // the answer is judged only by the rules of all kinds
	next        *request // request to send after this one was accepted; nil: none
}

// maxAnswer is the most bytes of an answer that are read.
const maxAnswer = 64 << 10

// postRequests sends a request and its following requests in order, until the service refuses one.
func (o *Sender) postRequests(ctx context.Context, m *Message, r *request) (Receipt, error) {
	receipt, err := o.sendRequest(ctx, m, r)
	if err != nil || r.next == nil {
		return receipt, err
	}
	next, err := o.postRequests(ctx, m, r.next)
	receipt.Sent += "\n" + next.Sent
	receipt.Answer += "\n" + next.Answer
	return receipt, err
}

// sendRequest sends one HTTP request and converts the answer of the service to an outcome.
func (o *Sender) sendRequest(ctx context.Context, m *Message, r *request) (Receipt, error) {
	r.method, r.contentType = cmp.Or(r.method, http.MethodPost), cmp.Or(r.contentType, "application/json")
	receipt := Receipt{Sent: r.String()}
	client, err := o.client(r.ca)
	if err != nil {
		return receipt, err
	}
	req, err := http.NewRequestWithContext(ctx, r.method, r.url, bytes.NewReader(r.body))
	if err != nil {
		return receipt, FinalError(fmt.Errorf("%s: %w", r.kind, removeURL(err)))
	}
	req.Header.Set("Content-Type", r.contentType)
	req.Header.Set("User-Agent", "muster")
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	for _, h := range r.header {
		req.Header.Set(h[0], h[1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return receipt, fmt.Errorf("send %s request to %s: %w", r.kind, req.URL.Host, removeURL(err))
	}
	defer resp.Body.Close()
	text := &outputCapture{limit: 512, hider: m.hider.NewText()}
	_, _ = io.Copy(text, io.LimitReader(resp.Body, maxAnswer))
	answer := strings.TrimSpace(body.Clean(text.String()))
	receipt.Answer = strings.TrimSpace(resp.Status + "\n" + answer)
	kind := r.kind
	if r.commonRules {
		kind = ""
	}
	failed := fmt.Errorf("handler service %s answered %s: %s", r.kind, resp.Status, answer)
	switch outcomeOfStatus(kind, resp.StatusCode) {
	case taken:
		if r.refused != nil {
			return receipt, r.refused(answer)
		}
		return receipt, nil
	case retried:
		return receipt, &Failure{Err: failed, After: retryAfterOf(resp.Header.Get("Retry-After"), o.opts.Now())}
	}
	return receipt, FinalError(failed)
}

// String formats the HTTP request as text for a receipt, which people read. The caller redacts secrets.
func (r *request) String() string {
	var b strings.Builder
	address := r.url
	if r.secretURL {
		address = model.RedactURL(address)
	}
	fmt.Fprintf(&b, "%s %s\nContent-Type: %s\n", r.method, address, r.contentType)
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

// encodeJSON encodes a value as JSON without escapes for HTML.
func encodeJSON(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("BUG: a body that is no JSON: " + err.Error())
	}
	return bytes.TrimSpace(b.Bytes())
}

// jsonObject is a JSON object that is encoded with its fields in a fixed order. A field whose name ends with
// "?" is left out if its text or list is empty.
type jsonObject []jsonField

// jsonField is one field of a JSON object.
type jsonField struct {
	name  string
	value any
}

// MarshalJSON encodes the fields in their fixed order.
func (o jsonObject) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for _, f := range o {
		name, optional := strings.CutSuffix(f.name, "?")
		if optional && reflect.ValueOf(f.value).Len() == 0 {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, encodeJSON(name)...), ':'), encodeJSON(f.value)...)
	}
	return append(b, '}'), nil
}

// retryAfterOf parses a Retry-After header (seconds or a date, RFC 9110, 10.2.3) and returns the delay. Zero: the
// header has neither.
func retryAfterOf(text string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(max(0, min(seconds, 86400))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// removeURL removes the address, which may be a secret, from the error of a failed request. The address may
// contain a secret.
func removeURL(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// client returns an HTTP client that trusts the CAs in a PEM file. It keeps the client for later messages, so
// that thousands of messages need few TLS handshakes, and replaces the client when the file changes.
func (o *Sender) client(ca string) (*http.Client, error) {
	key := ca
	if ca != "" {
		info, err := os.Stat(ca)
		if err != nil {
			return nil, fmt.Errorf("read the CA file: %w", err)
		}
		key += "\x00" + info.ModTime().String()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.clients[key]; c != nil {
		return c, nil
	}
	roots, err := trustConfig(ca)
	if err != nil {
		return nil, err
	}
	c := &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: o.opts.Dialer.DialContext, TLSClientConfig: roots, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: 4, MaxIdleConns: 100, IdleConnTimeout: 30 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for old, client := range o.clients { // removes the client for the former content of the file
		if path, _, _ := strings.Cut(old, "\x00"); path == ca {
			client.CloseIdleConnections()
			delete(o.clients, old)
		}
	}
	o.clients[key] = c
	return c, nil
}

// trustConfig returns a TLS configuration that trusts the CAs in a PEM file. For an empty file name it returns
// nil, for the system's CAs.
func trustConfig(ca string) (*tls.Config, error) {
	if ca == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("read the CA file: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("CA file %s has no PEM certificate", ca)
	}
	return &tls.Config{RootCAs: roots}, nil
}

// outcome says whether a message, after a service's answer, is delivered, to be retried, or given up. The
// message is delivered, retried or given up.
type outcome int

const (
	taken   outcome = iota
	retried         // the message is sent again with back-off, but not before Retry-After
	final           // the message becomes a dead letter: another attempt would get the same answer
)

// String returns the name of the outcome, such as delivered.
func (o outcome) String() string { return [...]string{"taken", "tried again", "given up"}[o] }

// answerRule maps a range of HTTP statuses of one service to the outcome for the message. The first matching
// rule applies; rules of a single kind come first.
type answerRule struct {
	kind     string // kind of handler; empty: every kind with HTTP requests
	from, to int    // range of HTTP statuses, both included
	outcome  outcome
	meaning  string
}

// answerRules returns the table of HTTP statuses with their outcomes (delivered, retried or given up). The
// outcome is delivered, retried or given up. docs/deliveries.md has them as a table.
func answerRules() []answerRule {
	return []answerRule{
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

// outcomeOfStatus returns, for an HTTP status, whether a message is delivered, retried or given up. The outcome
// is delivered, retried or given up.
func outcomeOfStatus(kind string, status int) outcome {
	for _, r := range answerRules() {
		if (r.kind == "" || r.kind == kind) && r.from <= status && status <= r.to {
			return r.outcome
		}
	}
	return final
}

// postWebhook sends a notification, or the handler's filled template, by POST. It signs the request if the handler has a
// secret.
func (o *Sender) postWebhook(ctx context.Context, hook *model.Webhook, m *Message) (Receipt, error) {
	r := &request{kind: "webhook", secretURL: true, url: hook.URL, contentType: hook.ContentType, key: m.Key, ca: hook.CA, body: m.Payload}
	if hook.Template != "" {
		made, err := body.Render(ctx, hook.Template, m.Payload)
		if err != nil {
			return Receipt{}, FinalError(fmt.Errorf("render the webhook's body template: %w", err))
		}
		r.body = made
	}
	if hook.Secret.Text != "" {
		r.header = signatureHeaders(hook.Secret.Text, strconv.FormatInt(o.opts.Now().Unix(), 10), r.body)
	}
	if hook.Token.Text != "" {
		r.header = append(r.header, [2]string{"Authorization", "Bearer " + hook.Token.Text})
	}
	for _, name := range slices.Sorted(maps.Keys(hook.Headers)) {
		r.header = append(r.header, [2]string{name, hook.Headers[name]})
	}
	return o.postRequests(ctx, m, r)
}

// signatureHeaders returns the HTTP headers with a signature, by which a webhook's receiver verifies the
// sender. The HMAC covers the time stamp and the body. A receiver can refuse an old time stamp, and so a
// replayed request.
func signatureHeaders(secret, timestamp string, body []byte) [][2]string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return [][2]string{{"Muster-Timestamp", timestamp}, {"Muster-Signature", "v1=" + hex.EncodeToString(mac.Sum(nil))}}
}
