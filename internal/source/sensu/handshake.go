package sensu

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gobwas/ws"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/source/admission"
	"github.com/muster-fleet/muster/internal/tries"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// offer is an agent's handshake request.
type offer struct {
	path     string
	host     string // by which the agent reaches the server
	header   http.Header
	user     access.Program
	protobuf bool
	proof
}

// maxHeaders bounds the headers of one handshake that are kept.
const maxHeaders = 64

// serve makes the handshake with one agent and starts its session, which goes on by itself.
func (s *Server) serve(ctx context.Context, nc net.Conn) {
	defer context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })()
	o := offer{header: http.Header{}}
	up := ws.Upgrader{
		ReadBufferSize: 8192, WriteBufferSize: 512,
		OnRequest: func(uri []byte) error { o.path = string(uri); return nil },
		OnHost:    func(host []byte) error { o.host = string(host); return nil },
		OnHeader: func(key, value []byte) error {
			if len(o.header) < maxHeaders {
				o.header.Add(string(key), string(value))
			}
			return nil
		},
		OnBeforeUpgrade: func() (ws.HandshakeHeader, error) {
			if o.isFetch() {
				return nil, ws.RejectConnectionError()
			}
			header, err := s.admit(ctx, nc, &o)
			if err != nil {
				return nil, s.reject(err, &o, nc)
			}
			return ws.HandshakeHeaderHTTP(header), nil
		},
	}
	if _, err := up.Upgrade(&handshakeConn{wsconn.Handshake{Conn: nc}, &o}); err != nil {
		rejected := (*ws.ConnectionRejectedError)(nil)
		switch {
		case errors.Is(err, wsconn.ErrHandshakeSize):
			s.metrics.Handshakes.WithLabelValues("too_large").Inc()
			refuseHTTP(nc, http.StatusRequestHeaderFieldsTooLarge, err)
		case o.isFetch() && !errors.Is(err, io.EOF):
			s.serveArchive(nc, &o)
			return
		case !errors.As(err, &rejected):
			s.metrics.Handshakes.WithLabelValues("websocket").Inc()
		}
		wsconn.CloseGracefully(nc, admission.LingerTime) // the answer has the reason
		return
	}
	admission.Prove(nc)
	_ = nc.SetDeadline(time.Time{})
	s.open(nc, &o)
}

// reject answers with the status that Sensu's backend uses. Agents retry at growing intervals.
func (s *Server) reject(err error, o *offer, nc net.Conn) error {
	class := model.ClassOf(err)
	s.metrics.Handshakes.WithLabelValues(class.Label()).Inc()
	s.logRefusal.Do(func() {
		s.cfg.Log.Warn("refused a Sensu agent; at most one line a minute, see muster_sensu_logins_total", "entity", o.header.Get("Sensu-Agentname"),
			"namespace", o.header.Get("Sensu-Namespace"), "from", nc.RemoteAddr().String(), "err", err)
	})
	return ws.RejectConnectionError(ws.RejectionStatus(class.HTTP()), ws.RejectionReason(err.Error()))
}

// admit authenticates an agent and checks that it may connect. It costs a look-up in memory, and the hash of a password
// that is new. Refusals belong here if possible: an agent whose handshake succeeded reconnects at once, a thousand times a
// second; after a refused handshake it waits longer each time.
func (s *Server) admit(ctx context.Context, nc net.Conn, o *offer) (http.Header, error) {
	if o.path != "/" {
		return nil, model.Errorf(model.NotFound, "want the path /, for Sensu's agents").WithHint("backend-url: wss://HOST:8081")
	}
	name, namespace := o.header.Get("Sensu-Agentname"), o.header.Get("Sensu-Namespace")
	if name == "" || namespace == "" || len(name)+len(namespace) > 1024 {
		return nil, model.Errorf(model.Invalid, "headers Sensu-AgentName and Sensu-Namespace: want one of each")
	}
	if s.life.Stopping() {
		return nil, model.Errorf(model.Unavailable, "the server is stopping")
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Limits.Handshake)
	defer cancel()
	if err := s.login(ctx, nc, o); err != nil {
		return nil, err
	}
	if !o.user.May(namespace) {
		return nil, model.Errorf(model.Forbidden, "agents of the user %s may not connect to namespace %q", o.user.Name, namespace).
			WithHint("they may connect to: %s", strings.Join(o.user.Namespaces, ", "))
	}
	if err := s.cfg.Intent.CheckNamespace(namespace); err != nil {
		return nil, err
	}
	m := &intent.ExternalAgent{System: system, Namespace: namespace, Name: name}
	if err := s.checkEligible(m); err != nil {
		return nil, err
	}
	if err := s.checkUnique(ctx, m, nc, o.proven); err != nil {
		return nil, err
	}
	if s.connections.Load() >= int64(s.cfg.Limits.Sessions) {
		return nil, model.Errorf(model.Unavailable, "this server is at its limit of %d sessions of Sensu's agents", s.cfg.Limits.Sessions)
	}
	header := http.Header{"Backend-Id": {"muster"}, "Accept": {sensuwire.MediaJSON}, "Content-Type": {sensuwire.MediaJSON}}
	if o.protobuf = o.header.Get("Accept") == sensuwire.MediaProto; o.protobuf {
		header["Accept"] = []string{sensuwire.MediaProto, sensuwire.MediaJSON} // two lines, because agents compare one line exactly
		header["Content-Type"] = []string{sensuwire.MediaProto}
	}
	return header, nil
}

// login finds the user of an agent by its certificate, or else by its password.
func (s *Server) login(ctx context.Context, nc net.Conn, o *offer) (err error) {
	if conn, ok := nc.(*tls.Conn); ok {
		if state := conn.ConnectionState(); len(state.VerifiedChains) > 0 { // a certificate wins over a password
			return s.checkCertificate(&state, o)
		}
	}
	o.unproven = sharedPassword
	user, password, ok := (&http.Request{Header: o.header}).BasicAuth()
	if !ok {
		return model.Errorf(model.Unauthenticated, "missing credentials").WithHint("user and password of the agent are those of a user here: muster auth user create NAME --role agent; " +
			"an agent with cert-file shows that only where an authority of --sensu-client-ca made it")
	}
	o.user, err = s.cfg.Access.LoginProgram(ctx, access.Agent, user, password, func(ctx context.Context) (func(bool), error) {
		return s.acquireTry(ctx, model.HostOf(nc.RemoteAddr().String()))
	})
	return err
}

// acquireTry admits the check of a new password, if its network has tries left. Passwords that were right before are never
// limited, even if somebody guesses behind the same address.
func (s *Server) acquireTry(ctx context.Context, from string) (release func(wrong bool), err error) {
	release, first, err := s.passwords.Acquire(ctx, from)
	if first {
		s.metrics.passwordLocks.Inc()
		s.cfg.Log.Warn("too many wrong passwords of Sensu agents from one address: new passwords are refused there until it is quiet for half a minute; passwords that were right before still work",
			"from", from)
	}
	if errors.Is(err, tries.ErrExhausted) {
		err = model.Errorf(model.Limited, "too many wrong passwords from %s", from).WithHint("wait half a minute; passwords that were right since the server started still work")
	}
	return release, err
}

// checkEligible refuses a machine whose node has muster-agent, or was retired or deleted. A forgotten one may return.
func (s *Server) checkEligible(m *intent.ExternalAgent) error {
	uid := m.UID()
	if node, ok := s.cfg.Intent.LookupNode(uid); ok && node.Key != "" {
		return model.Errorf(model.Conflict, "node %s has Muster's own agent", node.Name).WithHint("stop sensu-agent on that machine")
	}
	if gone, ok := s.cfg.Intent.Tombstone(uid); ok && gone.Why != intent.ReasonForgotten {
		return model.Errorf(model.Forbidden, "%s", gone.Sentence())
	}
	return nil
}
