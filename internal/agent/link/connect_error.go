package link

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// untrusted reports a server whose certificate is not accepted.
type untrusted struct {
	pki.RefusedCertificate
	err error
}

func (u *untrusted) Error() string { return u.err.Error() }
func (u *untrusted) Unwrap() error { return u.err }

// explainConnect returns an error with a hint where opening a session failed.
func explainConnect(addr string, err error) error {
	var u *untrusted
	if errors.As(err, &u) {
		u.Server = addr
		if explained := u.ForAgents(u.err); explained != nil {
			return explained
		}
	}
	switch text := err.Error(); {
	case strings.Contains(text, "tls: no application protocol"):
		return model.Errorf(model.Unavailable, "%s does not serve agents", addr).
			WithHint("it is the address of the API, or of another program: name the address for agents with --server (on the server: --listen-agents)")
	case strings.Contains(text, "first record does not look like a TLS handshake"):
		return model.Errorf(model.Unavailable, "%s does not speak TLS: that is no Muster server, or its admin listener", addr).
			WithHint("agents connect to --listen or --listen-agents of the server: --server HOST:8443")
	}
	if explained := explainDial(addr, err); explained != nil {
		return explained
	}
	return fmt.Errorf("open session at server %s: %w", addr, err)
}

// explainDial returns the error of a server that cannot be reached; nil: it was reached.
func explainDial(addr string, err error) error {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "dial" {
		return nil
	}
	host, port, _ := net.SplitHostPort(addr)
	return model.Errorf(model.Unavailable, "no server answers at %s: %w", addr, op.Err).
		WithHint("is it running, and may this machine reach it? here: nc -vz %s %s; on the server: muster status", host, port)
}

// explainEnd returns an error with a hint where the connection ended without Bye.
func explainEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		lost := &model.Error{Class: model.Unavailable, Message: "the connection broke off", Cause: err}
		return lost.WithHint("the server stopped, or a proxy or firewall closed the connection; results stay in the spool, the agent connects again")
	}
	return err
}
