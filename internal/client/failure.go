package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// refusal turns an answer with a status of 300 or more into an error.
func (c *connection) refusal(answer *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	problem := v1.Error{Status: answer.StatusCode}
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "application/problem+json") && json.Unmarshal(data, &problem) == nil && problem.Detail != "" {
		e := problem.AsModel()
		if e.Class == model.Unauthenticated && e.Hint == "" {
			e.Hint = "log in: muster login " + c.base.String()
		}
		return e
	}
	hint := "check that the address is a Muster server: muster version"
	if c.base.Scheme == "http" && answer.StatusCode == http.StatusBadRequest {
		hint = "the server speaks TLS: write https://" + c.base.Host
	}
	return model.Errorf(model.ClassOfHTTP(answer.StatusCode), "%s answered %s, but not as a Muster server does", c.base.Host, answer.Status).WithHint("%s", hint)
}

// unreachable turns the reason why no answer came into an error with a hint.
func (c *connection) unreachable(ctx context.Context, err error) error {
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
	var wrapped *url.Error // repeats method and address
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	switch {
	case strings.Contains(err.Error(), "Proxy Authentication Required"):
		return model.Errorf(model.Unavailable, "the proxy of HTTPS_PROXY refuses user or password (407)").
			WithHint("set HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT (write @ in a password as %%40), or bypass it: NO_PROXY=%s", name)
	case c.base.Scheme == "http" && errors.Is(err, io.EOF):
		return model.Errorf(model.Unavailable, "%s does not answer without TLS", host).WithHint("write https://%s", host)
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return model.Errorf(model.Unavailable, "%s answers without TLS", host).
			WithHint("this is not the API: the admin listener or another program. Write https://HOST:8443")
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
		return e.WithHint("the address has no port, so %s's default was tried. Servers listen at %s://%s", c.base.Scheme, c.base.Scheme, net.JoinHostPort(name, "8443"))
	}
	return e.WithHint("check that it runs: systemctl status muster. Start one: muster up. Use another one: --server URL")
}
