// Package client calls the API of a server. Operations stand by subject in the fields of Client
// (Events, Resources, Nodes …); every error has the class that the server gave it. The package also
// reads and writes the context file, which holds the address of the server, its CA and the session.
//
// It has no locks and no goroutine. Start reading at client.go, then http_requests.go and context_files.go.
package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/version"
)

// Client calls the API of one server. Its fields (such as Events and Nodes) group the operations by subject. It is
// safe for concurrent use, except that Access.Login changes its token.
type Client struct {
	Events        Events
	Problems      Problems
	Resources     Resources
	Nodes         Nodes
	Enrolment     Enrolment
	Access        Access
	Notifications Notifications
	Reports       Reports
	Rollouts      Rollouts
	c             *connection
}

// connection has the address of one Muster server, the trusted CA, and the token for each request.
type connection struct {
	base    *url.URL
	http    *http.Client
	token   string
	trusted string // fingerprint of the CA, for messages; empty: the CAs of the system
	now     func() time.Time
}

// newClient returns a Client that uses the given connection for all operations.
func newClient(c *connection) *Client {
	return &Client{Events{c}, Problems{c}, Resources{c}, Nodes{c}, Enrolment{c}, Access{c}, Notifications{c}, Reports{c}, Rollouts{c}, c}
}

// New returns a client of the server in the given context (saved address and login). It does not connect yet.
func New(c Context) (*Client, error) {
	if c.Server == "" {
		return nil, model.Errorf(model.Invalid, "no server is configured").
			WithHint("start one: muster up, or log in to one: muster login https://HOST:8443")
	}
	server := c.Server
	if !strings.Contains(server, "://") {
		server = "https://" + server
	}
	base, err := url.Parse(server)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, model.Errorf(model.Invalid, "server %q is not an address such as https://monitor.example:4242", c.Server).
			WithHint("write https://HOST:8443")
	}
	if base.Scheme == "http" && !isLoopback(base.Hostname()) {
		return nil, model.Errorf(model.Invalid, "server %q: http would send the token unencrypted", c.Server).
			WithHint("write https://%s", base.Host)
	}
	base.Path = strings.TrimRight(base.Path, "/")
	roots, trusted, err := c.loadRoots()
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
	return newClient(&connection{base: base, http: &http.Client{Transport: transport}, token: c.Token, trusted: trusted, now: time.Now}), nil
}

// isLoopback reports whether a host is a loopback address of the local machine.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// loadRoots returns the CA certificates that the context trusts, and the fingerprint of the first certificate.
// Nil means the system's CAs.
func (c Context) loadRoots() (*x509.CertPool, string, error) {
	pem := []byte(c.CA)
	if len(pem) == 0 && c.CAFile != "" {
		var err error
		if pem, err = os.ReadFile(c.CAFile); err != nil {
			return nil, "", model.Errorf(model.Invalid, "read the CA file: %w", err).WithHint("check MUSTER_CA or --ca")
		}
	}
	if len(pem) == 0 {
		return nil, "", nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, "", model.Errorf(model.Invalid, "the CA file has no PEM certificate").WithHint("check MUSTER_CA or --ca")
	}
	return pool, pki.SumOfPEM(pem), nil
}

// Server returns the address (URL) of the server that the client calls.
func (c *Client) Server() string { return c.c.base.String() }

// Status returns the status of the server and its nodes. An empty namespace means all namespaces.
func (c *Client) Status(ctx context.Context, namespace string) (v1.Status, error) {
	return getJSON[v1.Status](ctx, c.c, "/status", buildQuery("namespace", namespace))
}

// Version returns the version and commit of the server
func (c *Client) Version(ctx context.Context) (version.Info, error) {
	return getJSON[version.Info](ctx, c.c, "/version", nil)
}

// Queues returns the state of the bounded queues of the server.
func (c *Client) Queues(ctx context.Context, narrow ...v1.RowFilter) (v1.QueueList, error) {
	return getJSON[v1.QueueList](ctx, c.c, "/queues", buildQuery(narrow))
}

// Run runs a check or command on nodes, and calls fn with each line of the streamed answer. The summary comes
// last. When ctx ends, the server cancels the runs that have not ended.
func (c *Client) Run(ctx context.Context, r v1.RunRequest, fn func(v1.RunLine) error) error {
	complete, err := readStream(ctx, c.c, http.MethodPost, "/runs", nil, r, nil, func(l v1.RunLine) (last bool, err error) {
		return l.Type == v1.RunSummary, fn(l)
	})
	if complete || err == nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && !isStreamReadError(err) {
		return err
	}
	reason := "the server closed the connection: it is stopping, or the token was revoked"
	if err != nil {
		reason = err.Error()
	}
	return model.Errorf(model.Unavailable, "the server ended the run early (%s)", reason).
		WithHint("the server cancels unfinished runs. List runs: muster audit run")
}

// InProcess returns a client that calls an API in the same process without a network. The API admits, limits and
// counts each call as a request from that address with that token.
func InProcess(api http.Handler, from, token string) *Client {
	return newClient(&connection{base: &url.URL{Scheme: "https", Host: "muster"}, http: &http.Client{Transport: inProcessTransport{api, from}}, token: token, now: time.Now})
}

// inProcessTransport is an http.RoundTripper that passes requests to an http.Handler in the same process. `from` is
// the caller's address.
type inProcessTransport struct {
	api  http.Handler
	from string
}

// RoundTrip passes a request to the handler and returns its answer
func (t inProcessTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	request := r.Clone(r.Context())
	request.RemoteAddr, request.RequestURI = t.from, r.URL.RequestURI()
	if request.Body == nil {
		request.Body = http.NoBody
	}
	w := &responseRecorder{header: http.Header{}}
	t.api.ServeHTTP(w, request)
	w.status = cmp.Or(w.status, http.StatusOK)
	return &http.Response{
		StatusCode: w.status, Status: http.StatusText(w.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// responseRecorder is an http.ResponseWriter that records the answer in memory.
type responseRecorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header returns the header of the recorded answer
func (w *responseRecorder) Header() http.Header { return w.header }

// WriteHeader records the HTTP status of the answer. Only the first final status counts.
func (w *responseRecorder) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
}

// Write appends bytes to the recorded body
func (w *responseRecorder) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// refusalError converts an HTTP answer with a status of 300 or more to an error. The error has the class and hint of
// the answer.
func (c *connection) refusalError(answer *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	problem := v1.Error{Status: answer.StatusCode}
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "application/problem+json") && json.Unmarshal(data, &problem) == nil && problem.Detail != "" {
		e := problem.AsModel()
		if e.Class == model.Unauthenticated && e.Hint == "" {
			e.Hint = "log in: muster login " + c.base.String()
		}
		return e
	}
	var prom struct{ ErrorType, Error string } // an answer of Prometheus' API
	if json.Unmarshal(data, &prom) == nil && prom.ErrorType != "" {
		class := model.ClassOfHTTP(answer.StatusCode)
		if answer.StatusCode == http.StatusBadRequest {
			class = model.Invalid
		}
		return model.Errorf(class, "%s", prom.Error)
	}
	hint := "check that the address is a Muster server: muster version"
	if c.base.Scheme == "http" && answer.StatusCode == http.StatusBadRequest {
		hint = "the server speaks TLS: write https://" + c.base.Host
	}
	return model.Errorf(model.ClassOfHTTP(answer.StatusCode), "%s answered %s: the answer is not from a Muster server", c.base.Host, answer.Status).WithHint("%s", hint)
}

// unreachableError adds a hint about the cause to the error of a failed connection to the server.
func (c *connection) unreachableError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	host, name := c.base.Host, c.base.Hostname()
	shown := pki.RefusedCertificate{Server: host, Trusted: c.trusted, Now: c.now()}
	if e := shown.ForPeople(err); e != nil {
		return e
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return model.Errorf(model.Unavailable, "cannot find the host %s", name).
			WithHint("check the name; look it up: getent hosts %s", name)
	}
	var wrapped *url.Error // url.Error repeats method and address, which the message has already
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	switch {
	case strings.Contains(err.Error(), "Proxy Authentication Required"):
		return model.Errorf(model.Unavailable, "the proxy in the variable HTTPS_PROXY refuses its user or password (HTTP 407)").
			WithHint("set HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT (write @ in a password as %%40), or bypass it: NO_PROXY=%s", name)
	case c.base.Scheme == "http" && errors.Is(err, io.EOF):
		return model.Errorf(model.Unavailable, "%s does not answer to http:// (without TLS)", host).WithHint("write https://%s", host)
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return model.Errorf(model.Unavailable, "%s answers without TLS, but its address begins with https://", host).
			WithHint("the address is not the API: it is the admin listener or another program. Write https://HOST:8443")
	}
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		return model.Errorf(model.Unavailable, "no answer from %s: %w", host, err).
			WithHint("the port is open, the server is starting or its disk is full. On its machine: muster doctor")
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		err = op.Err
	}
	e := model.Errorf(model.Unavailable, "cannot reach the server at %s: %w", host, err)
	if c.base.Port() == "" {
		return e.WithHint("the address has no port: tried the default of %s. Servers listen at %s://%s", c.base.Scheme, c.base.Scheme, net.JoinHostPort(name, "8443"))
	}
	return e.WithHint("check that it runs: systemctl status muster. Start one: muster up. Use another one: --server URL")
}
