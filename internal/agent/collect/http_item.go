package collect

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/outbound"
)

// httpCollector returns the collector of an item whose value is the answer to an HTTP request. values has the values of
// the macros in it, named the secrets.
func (w *Scheduler) httpCollector(r *model.HTTPRequest, values *model.MacroValues, named []model.DefinitionSecret) collector {
	measure := func(ctx context.Context, values *model.MacroValues) (item.Value, error) {
		expanded, err := r.ExpandTexts(values.Expand)
		if err != nil {
			return item.Value{}, err
		}
		text, err := requestText(ctx, expanded)
		if err != nil {
			return item.Value{}, err
		}
		return item.FromText(text), nil
	}
	if len(named) > 0 {
		return w.withSecrets(collector{}, values, named, func(ctx context.Context, _ *machine, _ *Key, values *model.MacroValues, _ map[string]string) (item.Value, error) {
			return measure(ctx, values)
		})
	}
	return collector{waits: true, measure: func(ctx context.Context, _ *machine, _ *Key) (item.Value, error) { return measure(ctx, values) }}
}

// requestText sends an HTTP request and returns the part of the answer that the request asks for.
func requestText(ctx context.Context, r *model.HTTPRequest) (string, error) {
	request, err := newRequest(ctx, r)
	if err != nil {
		return "", err
	}
	var elsewhere atomic.Bool // a redirect led to another server
	dialer := &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error { return checkDial(address, elsewhere.Load()) }}
	transport := &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{InsecureSkipVerify: r.Insecure}}
	client := &http.Client{Transport: transport, CheckRedirect: func(next *http.Request, before []*http.Request) error {
		switch first := before[0].URL; {
		case r.NoRedirects:
			return http.ErrUseLastResponse
		case len(before) >= maxRedirects:
			return fmt.Errorf("more than %d redirects", maxRedirects)
		case next.URL.Host != first.Host || next.URL.Scheme != first.Scheme && first.Scheme == "https": // another server gets no secrets
			elsewhere.Store(true)
			next.Header = http.Header{"User-Agent": {userAgent}}
			if next.Body != nil && next.Body != http.NoBody {
				return errors.New("the redirect of a request with a body to another server is not followed")
			}
		}
		return nil
	}}
	answer, err := client.Do(request)
	if err != nil {
		if failed := (*url.Error)(nil); errors.As(err, &failed) {
			err = failed.Err // the address may have secrets, and escapes them
		}
		return "", fmt.Errorf("HTTP: %w", err)
	}
	defer answer.Body.Close()
	if good, err := model.IsStatusAccepted(strings.Split(cmp.Or(r.Status, "200"), ","), answer.StatusCode); !good {
		return "", cmp.Or(err, fmt.Errorf("HTTP: status %s, expected %s", answer.Status, cmp.Or(r.Status, "200")))
	}
	var body []byte
	if r.Retrieve != "headers" {
		if body, err = io.ReadAll(io.LimitReader(answer.Body, maxMaster+1)); err != nil {
			return "", fmt.Errorf("HTTP: read the answer: %w", err)
		}
		if len(body) > maxMaster {
			return "", errLongAnswer
		}
	}
	text, err := formatAnswer(r, answer, body)
	if text = strings.ToValidUTF8(text, "\uFFFD"); err == nil && len(text) > maxMaster {
		return "", errLongAnswer // cut JSON would be no JSON
	}
	return text, err
}

// errLongAnswer is the error of an answer that no signal has room for, also with its headers and escapes.
var errLongAnswer = fmt.Errorf("HTTP: the answer has over %d KiB", maxMaster>>10)

// checkDial returns an error if a redirect of a server leads to the metadata service of a cloud. The service would answer with
// credentials of the machine, which readers of values may not see.
func checkDial(address string, redirected bool) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !redirected {
		return err
	}
	if kind := outbound.MetadataAddress(to.Addr()); kind != "" {
		return fmt.Errorf("the redirect leads to %s, %s: write it as the URL of an item, if you want its answer", to.Addr(), kind)
	}
	return nil
}

// Bounds of a request, and how it names its sender.
const (
	maxRedirects = 10
	userAgent    = "muster-agent"
)

// newRequest makes the HTTP request of an item whose macros have been replaced.
func newRequest(ctx context.Context, r *model.HTTPRequest) (*http.Request, error) {
	text := r.URL
	if !strings.Contains(text, "://") { // a macro may have the address without it
		text = "http://" + text
	}
	address, err := url.Parse(text)
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return nil, errors.New("HTTP: the URL is not valid; write http://HOST/PATH or https://HOST/PATH")
	}
	if len(r.Query) > 0 {
		fields := url.Values{}
		for name, value := range r.Query {
			fields.Set(name, value)
		}
		address.RawQuery = strings.TrimPrefix(address.RawQuery+"&"+fields.Encode(), "&")
	}
	request, err := http.NewRequestWithContext(ctx, cmp.Or(r.Method, http.MethodGet), address.String(), strings.NewReader(r.Body))
	if err != nil {
		return nil, errors.New("HTTP: the URL or the method is not valid")
	}
	request.Header.Set("User-Agent", userAgent)
	for name, value := range r.Headers {
		if strings.EqualFold(name, "Host") {
			request.Host = value
		}
		request.Header.Set(name, value)
	}
	if r.User != "" || r.Password != "" {
		request.SetBasicAuth(r.User, r.Password)
	}
	return request, nil
}

// formatAnswer returns body, headers or both of an HTTP answer, as the item asks. The form is text or JSON.
func formatAnswer(r *model.HTTPRequest, answer *http.Response, body []byte) (string, error) {
	if r.AsJSON {
		return formatAnswerAsJSON(r, answer, body)
	}
	if r.Retrieve != "headers" && r.Retrieve != "both" {
		return string(body), nil
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s\r\n", answer.Proto, answer.Status)
	if err := answer.Header.Write(&b); err != nil {
		return "", err
	}
	b.WriteString("\r\n")
	b.Write(body)
	return b.String(), nil
}

// formatAnswerAsJSON returns an HTTP answer as a JSON object with the members header and body. A body that is JSON by its
// type is a value in it, another one a text.
func formatAnswerAsJSON(r *model.HTTPRequest, answer *http.Response, body []byte) (string, error) {
	out := struct {
		Header map[string]string `json:"header,omitempty"`
		Body   any               `json:"body,omitempty"`
	}{}
	if r.Retrieve == "headers" || r.Retrieve == "both" {
		out.Header = map[string]string{}
		for name, values := range answer.Header {
			out.Header[name] = strings.Join(values, ", ")
		}
	}
	if r.Retrieve != "headers" {
		out.Body = string(body)
		if typ, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); typ == "application/json" {
			if !json.Valid(body) {
				return "", errors.New("HTTP: the body is not valid JSON, which its type says")
			}
			out.Body = json.RawMessage(body)
		}
	}
	text, err := json.Marshal(out)
	return string(text), err
}

// requestTimeout returns how long the answer to a request may take, at most a minute.
func requestTimeout(r *model.HTTPRequest) time.Duration {
	return min(cmp.Or(time.Duration(r.Timeout), itemTimeout), time.Minute)
}
