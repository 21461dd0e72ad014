package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// maxAnswer bounds what is read of one answer, in bytes.
const maxAnswer = 256 << 20

// Client calls one server. Safe for concurrent use.
type Client struct {
	base    *url.URL
	http    *http.Client
	token   string
	trusted string // the CA, for messages; empty: those of the system
	now     func() time.Time
}

// New makes a client; it does not connect yet.
func New(c Context) (*Client, error) {
	if c.Server == "" {
		return nil, model.Errorf(model.Invalid, "no server is known").
			WithHint("start one with: muster up, or name one with: muster login https://HOST:8443")
	}
	server := c.Server
	if !strings.Contains(server, "://") {
		server = "https://" + server
	}
	base, err := url.Parse(server)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, model.Errorf(model.Invalid, "server %q is not an address", c.Server).
			WithHint("write it as https://HOST:8443")
	}
	if base.Scheme == "http" && !loopback(base.Hostname()) {
		return nil, model.Errorf(model.Invalid, "server %q: without TLS the token could be read on the way", c.Server).
			WithHint("write https://%s", base.Host)
	}
	base.Path = strings.TrimRight(base.Path, "/")
	roots, trusted, err := c.roots()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSClientConfig:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   10 * time.Second,
		ForceAttemptHTTP2:     true,
		ResponseHeaderTimeout: 60 * time.Second,
		IdleConnTimeout:       60 * time.Second,
	}
	return &Client{base: base, http: &http.Client{Transport: transport}, token: c.Token, trusted: trusted, now: time.Now}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// roots are the authorities to trust, and the name of the first; nil: the system's.
func (c Context) roots() (*x509.CertPool, string, error) {
	pem := []byte(c.CA)
	if len(pem) == 0 && c.CAFile != "" {
		var err error
		if pem, err = os.ReadFile(c.CAFile); err != nil {
			return nil, "", model.Errorf(model.Invalid, "read CA file: %w", err).WithHint("check MUSTER_CA or --ca")
		}
	}
	if len(pem) == 0 {
		return nil, "", nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, "", model.Errorf(model.Invalid, "the CA holds no certificate in PEM").WithHint("check MUSTER_CA or --ca")
	}
	return pool, pki.SumOfPEM(pem), nil
}

// Server is the address that this client calls.
func (c *Client) Server() string { return c.base.String() }

// call is one request and its answer as JSON. header may be nil; out may be nil.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, header http.Header, in, out any) (http.Header, error) {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(data)
	}
	answer, err := c.send(ctx, method, path, query, header, body)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if out == nil {
		return answer.Header, nil
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(out); err != nil {
		return nil, model.Errorf(model.Unavailable, "read the answer of %s: %w", c.base.Host, err)
	}
	return answer.Header, nil
}

// ask is one request whose answer is a T.
func ask[T any](ctx context.Context, c *Client, method, path string, query url.Values, in any) (out T, err error) {
	_, err = c.call(ctx, method, path, query, nil, in, &out)
	return out, err
}

func get[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	return ask[T](ctx, c, http.MethodGet, path, query, nil)
}

func post[T any](ctx context.Context, c *Client, path string, in any) (T, error) {
	return ask[T](ctx, c, http.MethodPost, path, nil, in)
}

// queryOf has these names and values, without those that are empty.
func queryOf(pairs ...string) url.Values {
	query := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		set(query, pairs[i], pairs[i+1])
	}
	return query
}

func set(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}

// flag is true, or nothing.
func flag(yes bool) string {
	if yes {
		return "true"
	}
	return ""
}

// most is a limit, or nothing.
func most(n int) string {
	if n > 0 {
		return strconv.Itoa(n)
	}
	return ""
}

// at is a time, or nothing.
func at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

// send makes one request; an answer above 299 becomes an error.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, header http.Header, body io.Reader) (*http.Response, error) {
	target := *c.base
	target.Path += path
	target.RawPath = "" // path is unescaped: url.URL escapes it
	target.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, method, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	for name, values := range header {
		request.Header[name] = values
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	if answer.StatusCode < 300 {
		return answer, nil
	}
	defer answer.Body.Close()
	return nil, c.refused(answer)
}

// refused makes an error of an answer.
func (c *Client) refused(answer *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	said := v1.Error{Status: answer.StatusCode}
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "application/problem+json") && json.Unmarshal(data, &said) == nil && said.Detail != "" {
		e := said.AsModel()
		if e.Class == model.Unauthenticated && e.Hint == "" {
			e.Hint = "type: muster login " + c.base.String()
		}
		return e
	}
	return model.Errorf(model.ClassOfHTTP(answer.StatusCode), "%s answered %s, which is not Muster's way to say no", c.base.Host, answer.Status).
		WithHint("%s", c.whoIsThere(answer.StatusCode))
}

// whoIsThere guesses what answers like that.
func (c *Client) whoIsThere(status int) string {
	if c.base.Scheme == "http" && status == http.StatusBadRequest {
		return "Muster speaks TLS there: write https://" + c.base.Host
	}
	return "is this address a Muster server? see: muster version"
}

// explain says in words why no answer came.
func (c *Client) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	shown := pki.Shown{Server: c.base.Host, Trusted: c.trusted, Now: c.now()}
	if e := shown.ForPeople(err); e != nil {
		return e
	}
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return model.Errorf(model.Unavailable, "cannot find the host %s", c.base.Hostname()).
			WithHint("is the name right? This machine looks it up with: getent hosts %s", c.base.Hostname())
	}
	var wrapped *url.Error // with method and address, which stand below
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	switch {
	case strings.Contains(err.Error(), "Proxy Authentication Required"):
		return model.Errorf(model.Unavailable, "the proxy in HTTPS_PROXY asks for another user or password (407)").
			WithHint("set HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT (write @ in a password as %%40), or go without it: NO_PROXY=%s", c.base.Hostname())
	case c.base.Scheme == "http" && errors.Is(err, io.EOF):
		return model.Errorf(model.Unavailable, "%s does not answer without TLS", c.base.Host).WithHint("write https://%s", c.base.Host)
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return model.Errorf(model.Unavailable, "%s answers without TLS", c.base.Host).
			WithHint("that is no Muster server, or its admin listener; the API is at https://HOST:8443")
	}
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		return model.Errorf(model.Unavailable, "no answer from %s: %w", c.base.Host, err).
			WithHint("something listens there: is it still starting, or is its disk full? the server's log says so; on its machine: muster doctor")
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		err = op.Err
	}
	unreached := model.Errorf(model.Unavailable, "cannot reach the server at %s: %w", c.base.Host, err)
	if c.base.Port() == "" {
		return unreached.WithHint("without a port that is %s's own; servers usually listen at %s://%s", c.base.Scheme, c.base.Scheme, net.JoinHostPort(c.base.Hostname(), "8443"))
	}
	return unreached.WithHint("is it running? On its machine: systemctl status muster, or start one: muster up; or name another with --server")
}
