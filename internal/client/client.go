package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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

// Client calls one server; its fields are the operations by subject. It is safe for concurrent use,
// except that Access.Login changes its token.
type Client struct {
	Events        Events
	Problems      Problems
	Resources     Resources
	Nodes         Nodes
	Enrolment     Enrolment
	Access        Access
	Notifications Notifications
	Reports       Reports
	c             *connection
}

// connection is the address of a server, with the trust and the token to call it.
type connection struct {
	base    *url.URL
	http    *http.Client
	token   string
	trusted string // fingerprint of the CA, for messages; empty: the CAs of the system
	now     func() time.Time
}

func newClient(c *connection) *Client {
	return &Client{Events{c}, Problems{c}, Resources{c}, Nodes{c}, Enrolment{c}, Access{c}, Notifications{c}, Reports{c}, c}
}

// New makes a client of the context's server. It does not connect yet.
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
		return nil, model.Errorf(model.Invalid, "server %q is not an address", c.Server).
			WithHint("write https://HOST:8443")
	}
	if base.Scheme == "http" && !isLoopback(base.Hostname()) {
		return nil, model.Errorf(model.Invalid, "server %q: http would send the token unencrypted", c.Server).
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
	return newClient(&connection{base: base, http: &http.Client{Transport: transport}, token: c.Token, trusted: trusted, now: time.Now}), nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// roots returns the CAs to trust and the fingerprint of the first; nil means the CAs of the system.
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
		return nil, "", model.Errorf(model.Invalid, "the CA file has no PEM certificate").WithHint("check MUSTER_CA or --ca")
	}
	return pool, pki.SumOfPEM(pem), nil
}

// Server returns the address of the server.
func (c *Client) Server() string { return c.c.base.String() }

// Status returns the state of the server and its fleet; namespace empty: of all namespaces.
func (c *Client) Status(ctx context.Context, namespace string) (v1.Status, error) {
	return get[v1.Status](ctx, c.c, "/status", queryOf("namespace", namespace))
}

// Version returns the build of the server.
func (c *Client) Version(ctx context.Context) (version.Info, error) {
	return get[version.Info](ctx, c.c, "/version", nil)
}

// Queues returns the bounded queues of the server.
func (c *Client) Queues(ctx context.Context, narrow ...v1.Narrow) (v1.QueueList, error) {
	return get[v1.QueueList](ctx, c.c, "/queues", narrowed(nil, narrow))
}

// Run runs a check or command on nodes and calls fn with each line, the summary last. When ctx
// ends, the server cancels the runs that have not ended.
func (c *Client) Run(ctx context.Context, r v1.RunRequest, fn func(v1.RunLine) error) error {
	complete, err := stream(ctx, c.c, http.MethodPost, "/runs", nil, r, nil, func(l v1.RunLine) (last bool, err error) {
		return l.Type == v1.RunSummary, fn(l)
	})
	if complete || err == nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && !isBroken(err) {
		return err
	}
	reason := "it closed the connection: it is stopping, or the token was revoked"
	if err != nil {
		reason = err.Error()
	}
	return model.Errorf(model.Unavailable, "the server ended the run early (%s)", reason).
		WithHint("the server cancels unfinished runs. See which were ordered: muster audit run")
}
