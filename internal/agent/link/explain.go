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

// untrusted is a server whose certificate is not accepted, and what is to be said of it.
type untrusted struct {
	pki.Shown
	err error
}

func (u *untrusted) Error() string { return u.err.Error() }
func (u *untrusted) Unwrap() error { return u.err }

// explain says in words why no session was opened at a server that was reached.
func explain(addr string, err error) error {
	var u *untrusted
	if errors.As(err, &u) {
		u.Server = addr
		if said := u.ForAgents(u.err); said != nil {
			return said
		}
	}
	switch text := err.Error(); {
	case strings.Contains(text, "tls: no application protocol"):
		return model.Errorf(model.Unavailable, "%s does not serve agents", addr).
			WithHint("it is the address for people, or another program's: name that for agents with --server (on the server: --listen-agents)")
	case strings.Contains(text, "first record does not look like a TLS handshake"):
		return model.Errorf(model.Unavailable, "%s does not speak TLS: that is no Muster server, or its admin listener", addr).
			WithHint("agents connect to --listen or --listen-agents of the server: --server HOST:8443")
	}
	if said := noAnswer(addr, err); said != nil {
		return said
	}
	return fmt.Errorf("open session at server %s: %w", addr, err)
}

// noAnswer is a server that could not be reached at all; nil: it could.
func noAnswer(addr string, err error) error {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "dial" {
		return nil
	}
	host, port, _ := net.SplitHostPort(addr)
	return model.Errorf(model.Unavailable, "no server answers at %s: %w", addr, op.Err).
		WithHint("is it running, and may this machine reach it? here: nc -vz %s %s; on the server: muster status", host, port)
}

// ended says in words how a session ended that the other side did not end with a Bye.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		said := &model.Error{Class: model.Unavailable, Message: "the connection ended without a word", Cause: err}
		return said.WithHint("the server stopped, or something between cut it; results are kept in the spool, and it is tried again")
	}
	return err
}
