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
	"github.com/muster-fleet/muster/internal/source/muster"
	"github.com/muster-fleet/muster/internal/tries"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// offer is what the headers of an agent's handshake say.
type offer struct {
	path  string
	host  string // by which the agent reaches us
	said  http.Header
	user  access.Program
	proto bool
	proof
}

// maxHeaders bounds the headers that are kept of one handshake.
const maxHeaders = 64

// partWithin is how long a peer that is sent away may take to read why.
const partWithin = 2 * time.Second

// serve shakes hands with one agent and begins its session, which goes on by itself.
func (s *Server) serve(ctx context.Context, nc net.Conn) {
	defer context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })()
	o := offer{said: http.Header{}}
	up := ws.Upgrader{
		ReadBufferSize: 8192, WriteBufferSize: 512,
		OnRequest: func(uri []byte) error { o.path = string(uri); return nil },
		OnHost:    func(host []byte) error { o.host = string(host); return nil },
		OnHeader: func(key, value []byte) error {
			if len(o.said) < maxHeaders {
				o.said.Add(string(key), string(value))
			}
			return nil
		},
		OnBeforeUpgrade: func() (ws.HandshakeHeader, error) {
			if o.fetches() {
				return nil, ws.RejectConnectionError()
			}
			header, err := s.admit(ctx, nc, &o)
			if err != nil {
				return nil, s.reject(err, &o, nc)
			}
			return ws.HandshakeHeaderHTTP(header), nil
		},
	}
	if _, err := up.Upgrade(&asker{wsconn.Handshake{Conn: nc}, &o}); err != nil {
		if errors.Is(err, wsconn.ErrHandshakeSize) {
			s.metrics.logins.WithLabelValues("too_large").Inc()
			refuse(nc, http.StatusRequestHeaderFieldsTooLarge, err)
			wsconn.Part(nc, partWithin)
			return
		}
		if o.fetches() && !errors.Is(err, io.EOF) {
			s.fetch(nc, &o)
			return
		}
		if rejected := (*ws.ConnectionRejectedError)(nil); !errors.As(err, &rejected) {
			s.metrics.logins.WithLabelValues("websocket").Inc()
		}
		wsconn.Part(nc, partWithin) // what is wrong stands in the answer
		return
	}
	muster.Prove(nc)
	_ = nc.SetDeadline(time.Time{})
	s.open(nc, &o)
}

// reject answers with the status that Sensu's backend has for it; agents try again, ever
// more rarely.
func (s *Server) reject(err error, o *offer, nc net.Conn) error {
	class := model.ClassOf(err)
	s.metrics.logins.WithLabelValues(class.Label()).Inc()
	text := err.Error()
	s.told.Do(func() {
		s.cfg.Log.Warn("a Sensu agent is refused; of others within a minute only the metrics tell", "entity", o.said.Get("Sensu-Agentname"),
			"namespace", o.said.Get("Sensu-Namespace"), "from", nc.RemoteAddr().String(), "why", text)
	})
	return ws.RejectConnectionError(ws.RejectionStatus(class.HTTP()), ws.RejectionReason(text))
}

// admit says who an agent is, and whether it may come: what it costs is a look into memory,
// and for a password that was not seen before its hash. Who is refused is refused here, where
// it can be: an agent whose handshake succeeds comes back at once, a thousand times a second,
// and only one that is refused in it waits ever longer.
func (s *Server) admit(ctx context.Context, nc net.Conn, o *offer) (http.Header, error) {
	if o.path != "/" {
		return nil, model.Errorf(model.NotFound, "only / is here, for Sensu's agents").WithHint("backend-url: wss://HOST:8081")
	}
	name, namespace := o.said.Get("Sensu-Agentname"), o.said.Get("Sensu-Namespace")
	if name == "" || namespace == "" || len(name)+len(namespace) > 1024 {
		return nil, model.Errorf(model.Invalid, "headers Sensu-AgentName and Sensu-Namespace: want one of each")
	}
	if s.stopping.Load() {
		return nil, model.Errorf(model.Unavailable, "the server is stopping")
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Limits.Handshake)
	defer cancel()
	if err := s.login(ctx, nc, o); err != nil {
		return nil, err
	}
	if !o.user.May(namespace) {
		return nil, model.Errorf(model.Forbidden, "agents of the user %s may not be in namespace %q", o.user.Name, namespace).
			WithHint("they may be in: %s", strings.Join(o.user.Namespaces, ", "))
	}
	if err := s.cfg.Intent.CheckNamespace(namespace); err != nil {
		return nil, err
	}
	m := &intent.ExternalAgent{System: system, Namespace: namespace, Name: name}
	if err := s.mayBe(m); err != nil {
		return nil, err
	}
	if err := s.alone(ctx, m, nc, o.proven); err != nil {
		return nil, err
	}
	if s.connections.Load() >= int64(s.cfg.Limits.Sessions) {
		return nil, model.Errorf(model.Unavailable, "this server has its %d sessions of Sensu's agents", s.cfg.Limits.Sessions)
	}
	header := http.Header{"Backend-Id": {"muster"}, "Accept": {sensuwire.MediaJSON}, "Content-Type": {sensuwire.MediaJSON}}
	if o.proto = o.said.Get("Accept") == sensuwire.MediaProto; o.proto {
		header["Accept"] = []string{sensuwire.MediaProto, sensuwire.MediaJSON} // two lines: agents look for one that is exactly theirs
		header["Content-Type"] = []string{sensuwire.MediaProto}
	}
	return header, nil
}

// login finds the user: that of a certificate, or that whose password it is.
func (s *Server) login(ctx context.Context, nc net.Conn, o *offer) (err error) {
	if conn, ok := nc.(*tls.Conn); ok {
		if state := conn.ConnectionState(); len(state.VerifiedChains) > 0 { // whatever else is said
			return s.certified(&state, o)
		}
	}
	o.why = byPassword
	user, password, ok := (&http.Request{Header: o.said}).BasicAuth()
	if !ok {
		return model.Errorf(model.Unauthenticated, "missing credentials").WithHint("user and password of the agent are those of a user here: muster auth user create NAME --role agent; " +
			"an agent with cert-file shows that only where an authority of --sensu-client-ca made it")
	}
	o.user, err = s.cfg.Access.LoginProgram(ctx, access.Agent, user, password, func(ctx context.Context) (func(bool), error) { return s.beginTry(ctx, hostOf(nc)) })
	return err
}

// beginTry lets a password be looked at that was not seen before, if its network has tries left. What
// is known to be right is never held back, whoever guesses behind the same address.
func (s *Server) beginTry(ctx context.Context, from string) (end func(wrong bool), err error) {
	end, first, err := s.tries.Acquire(ctx, from)
	if first {
		s.metrics.guessing.Inc()
		s.cfg.Log.Warn("too many wrong passwords of Sensu's agents from one address: new ones are refused there, until it has been quiet for half a minute; passwords that were right go on working",
			"from", from)
	}
	if errors.Is(err, tries.ErrExhausted) {
		err = model.Errorf(model.Limited, "too many wrong passwords from %s", from).WithHint("wait half a minute; passwords that were right since the server started go on working")
	}
	return end, err
}

// mayBe refuses a machine whose node came to an end, or has an agent of ours. One that was
// forgotten may come again.
func (s *Server) mayBe(m *intent.ExternalAgent) error {
	uid := m.UID()
	if node, ok := s.cfg.Intent.LookupNode(uid); ok && node.Key != "" {
		return model.Errorf(model.Conflict, "node %s has Muster's own agent", node.Name).WithHint("stop sensu-agent on that machine")
	}
	if gone, ok := s.cfg.Intent.Tombstone(uid); ok && gone.Why != intent.ReasonForgotten {
		return model.Errorf(model.Forbidden, "%s", gone.Sentence())
	}
	return nil
}
