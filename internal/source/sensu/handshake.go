package sensu

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gobwas/ws"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/authlimit"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/source/admission"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// handshakeRequest is the HTTP request that opens an agent's connection, with the result of its authentication.
type handshakeRequest struct {
	path     string
	host     string // by which the agent reaches the server
	header   http.Header
	user     access.Program
	protobuf bool
	identityProof
}

// maxHeaders bounds the headers of one handshake that are kept.
const maxHeaders = 64

// serve handles an agent's handshake and starts its session.
func (s *Server) serve(ctx context.Context, nc net.Conn) {
	defer context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })()
	o := handshakeRequest{header: http.Header{}}
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
			if o.isArchiveRequest() {
				return nil, ws.RejectConnectionError()
			}
			header, err := s.admitAgent(ctx, nc, &o)
			if err != nil {
				return nil, s.rejectHandshake(err, &o, nc)
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
		case o.isArchiveRequest() && !errors.Is(err, io.EOF):
			s.serveArchive(nc, &o)
			return
		case !errors.As(err, &rejected):
			s.metrics.Handshakes.WithLabelValues("websocket").Inc()
		}
		wsconn.CloseGracefully(nc, admission.LingerTime) // the answer has the reason
		return
	}
	admission.MarkAuthenticated(nc)
	_ = nc.SetDeadline(time.Time{})
	s.openSession(nc, &o)
}

// rejectHandshake answers a refused handshake with the HTTP status that Sensu's backend would use. Agents retry at
// growing intervals.
func (s *Server) rejectHandshake(err error, o *handshakeRequest, nc net.Conn) error {
	class := model.ClassOf(err)
	s.metrics.Handshakes.WithLabelValues(class.Label()).Inc()
	s.logRefusal.Do(func() {
		s.cfg.Log.Warn("refused a Sensu agent; at most one line a minute, see muster_sensu_logins_total", "entity", o.header.Get("Sensu-Agentname"),
			"namespace", o.header.Get("Sensu-Namespace"), "from", nc.RemoteAddr().String(), "err", err)
	})
	return ws.RejectConnectionError(ws.RejectionStatus(class.HTTP()), ws.RejectionReason(err.Error()))
}

// admitAgent authenticates an agent and checks whether the agent may connect. It costs a look-up in memory, and the
// hash of a password that is new. Refusals belong here if possible: an agent whose handshake succeeded reconnects at
// once, a thousand times a second; after a refused handshake it waits longer each time.
func (s *Server) admitAgent(ctx context.Context, nc net.Conn, o *handshakeRequest) (http.Header, error) {
	if o.path != "/" {
		return nil, model.Errorf(model.NotFound, "unknown path: Sensu agents connect to the path /").WithHint("backend-url: wss://HOST:8081")
	}
	name, namespace := o.header.Get("Sensu-Agentname"), o.header.Get("Sensu-Namespace")
	if name == "" || namespace == "" || len(name)+len(namespace) > 1024 {
		return nil, model.Errorf(model.Invalid, "the headers Sensu-AgentName and Sensu-Namespace are invalid: expected exactly one of each")
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
			WithHint("allowed: %s", strings.Join(o.user.Namespaces, ", "))
	}
	if err := s.cfg.Intent.CheckNamespace(namespace); err != nil {
		return nil, err
	}
	m := &intent.ExternalAgent{System: agentSystem, Namespace: namespace, Name: name}
	if err := s.checkNodeEligible(m); err != nil {
		return nil, err
	}
	if err := s.checkUnique(ctx, m, nc, o.proven); err != nil {
		return nil, err
	}
	if s.connections.Load() >= int64(s.cfg.Limits.Sessions) {
		return nil, model.Errorf(model.Unavailable, "this server is at its limit of %d sessions of Sensu agents", s.cfg.Limits.Sessions)
	}
	header := http.Header{"Backend-Id": {"muster"}, "Accept": {sensuwire.MediaJSON}, "Content-Type": {sensuwire.MediaJSON}}
	if o.protobuf = o.header.Get("Accept") == sensuwire.MediaProto; o.protobuf {
		header["Accept"] = []string{sensuwire.MediaProto, sensuwire.MediaJSON} // two lines, because agents compare one line exactly
		header["Content-Type"] = []string{sensuwire.MediaProto}
	}
	return header, nil
}

// login authenticates an agent by its certificate or its password and returns the user.
func (s *Server) login(ctx context.Context, nc net.Conn, o *handshakeRequest) (err error) {
	if conn, ok := nc.(*tls.Conn); ok {
		if state := conn.ConnectionState(); len(state.VerifiedChains) > 0 { // a certificate wins over a password
			return s.checkCertificate(&state, o)
		}
	}
	o.unproven = sharedPassword
	user, password, ok := (&http.Request{Header: o.header}).BasicAuth()
	if !ok {
		return model.Errorf(model.Unauthenticated, "the agent sent neither an accepted certificate nor a user and password").WithHint("the agent needs user and password of a user with the role agent: muster auth user create NAME --role agent; " +
			"an agent presents its cert-file only if an authority in --sensu-client-ca issued it")
	}
	o.user, err = s.cfg.Access.LoginProgram(ctx, access.Agent, user, password, func(ctx context.Context) (func(bool), error) {
		return s.acquirePasswordTry(ctx, model.HostOf(nc.RemoteAddr().String()))
	})
	return err
}

// acquirePasswordTry permits one login attempt from an address, unless the address has sent too many wrong passwords.
// It returns an error after too many failed attempts. A password that was right before is never limited, even if
// somebody at the same address guesses passwords.
func (s *Server) acquirePasswordTry(ctx context.Context, from string) (release func(wrong bool), err error) {
	release, first, err := s.passwords.Acquire(ctx, from)
	if first {
		s.metrics.passwordLocks.Inc()
		s.cfg.Log.Warn("too many wrong passwords of Sensu agents from one address: refusing new passwords there until half a minute passes without one; passwords that were right before still work",
			"from", from)
	}
	if errors.Is(err, authlimit.ErrExhausted) {
		err = model.Errorf(model.Limited, "too many wrong passwords from %s", from).WithHint("wait half a minute; passwords that were right since the server started still work")
	}
	return release, err
}

// checkNodeEligible refuses an agent whose node belongs to muster-agent, or was retired or deleted. A forgotten one
// may return.
func (s *Server) checkNodeEligible(m *intent.ExternalAgent) error {
	uid := m.UID()
	if node, ok := s.cfg.Intent.LookupNode(uid); ok && node.Key != "" {
		return model.Errorf(model.Conflict, "node %s belongs to a machine with muster-agent, so its sensu-agent is refused", node.Name).WithHint("stop sensu-agent on that machine")
	}
	if gone, ok := s.cfg.Intent.Tombstone(uid); ok && gone.Cause != intent.ReasonForgotten {
		return model.Errorf(model.Forbidden, "%s", gone.Sentence())
	}
	return nil
}

// identityProof records whether the certificate of an agent proves the identity of its machine. It says whether
// the agent's certificate proves the machine's identity, and why not.
type identityProof struct {
	proven   bool                          // the connection comes from the machine and namespace that it names
	unproven string                        // reason why the identity is not proven
	expires  time.Time                     // expiry of the machine's certificate; zero: it has none
	roots    [][32]byte                    // authorities of the certificate
	serials  []admission.CertificateSerial // certificates of the chain, to look up in revocation lists
}

const (
	// sharedPassword is the reason why a password proves no identity.
	sharedPassword = "several machines share the agent's password, which proves no identity"
	// sharedCertificate and anyNamespace are the reasons why a certificate proves no identity.
	sharedCertificate = "several machines share the agent's certificate, which names no machine"
	anyNamespace      = "the agent's certificate names no namespace, and agents of the user %s may connect to several"
	// defaultUser is the user of a machine whose certificate names the machine in its common name, as in Sensu's backend.
	defaultUser = "agent"
)

// checkCertificate finds the user of a client certificate. It also returns whether the certificate proves the
// machine's identity. As in Sensu's backend, its common name is a user, and its DNS names are the machine's. Or its
// common name is the machine and its organization the namespace; both are required, so that a certificate that
// machines share does not become one machine's when its user is deleted.
func (s *Server) checkCertificate(state *tls.ConnectionState, o *handshakeRequest) error {
	leaf := state.VerifiedChains[0][0]
	common, in, machines := leaf.Subject.CommonName, leaf.Subject.Organization, s.machineNames(leaf)
	name, namespace := o.header.Get("Sensu-Agentname"), o.header.Get("Sensu-Namespace")
	o.serials = admission.SerialsOf(state.VerifiedChains)
	if since, ok := s.cfg.Authorities.RevokedSince(o.serials); ok {
		return model.Errorf(model.Forbidden, "the certificate of %q was revoked at %s", leaf.Subject.String(), since.UTC().Format(time.RFC3339)).
			WithHint("issue another certificate if the machine is still trusted")
	}
	user, err := s.cfg.Access.AgentProgram(common)
	if err != nil {
		if !isMachineName(common) || common != name || !slices.Contains(in, namespace) || len(machines) > 0 && !slices.Contains(machines, name) {
			return model.Errorf(model.Unauthenticated, "the common name in the certificate of %q is no user with the role agent, and the certificate does not identify, in namespace %s, the machine %s",
				leaf.Subject.String(), namespace, name).WithHint("see the commands: docs/sensu-certificates.md")
		}
		if user, err = s.cfg.Access.AgentProgram(defaultUser); err != nil {
			return model.Errorf(model.Unauthenticated, "the certificate names a machine instead of a user, but the default user %s for machines does not exist", defaultUser).
				WithHint("muster auth user create %s --role agent", defaultUser)
		}
		machines = []string{name}
	}
	o.user, o.expires, o.roots = user, lastExpiry(state.VerifiedChains), admission.AuthorityKeysOf(state.VerifiedChains)
	namesNamespace := slices.Contains(in, namespace)
	switch {
	case !namesNamespace && s.containsNamespace(in):
		return model.Errorf(model.Forbidden, "the certificate is for namespace %s, but the agent connects to namespace %s", in[0], namespace).
			WithHint("namespace: %s in its agent.yml, or another certificate", in[0])
	case len(machines) == 0:
		o.unproven = sharedCertificate
	case !slices.Contains(machines, name):
		return model.Errorf(model.Forbidden, "the certificate is for the machine %s, but the agent has the name %s", strings.Join(machines[:min(len(machines), 3)], ", "), name).
			WithHint("give the agent a certificate of its own, or name: %s in its agent.yml", machines[0])
	case !namesNamespace && (len(user.Namespaces) != 1 || user.Namespaces[0] != namespace):
		o.unproven = fmt.Sprintf(anyNamespace, user.Name)
	default:
		o.proven = true
	}
	return nil
}

// containsNamespace reports whether any organization in an agent's certificate is the name of a namespace.
func (s *Server) containsNamespace(organizations []string) bool {
	return slices.ContainsFunc(organizations, func(org string) bool { return s.cfg.Intent.CheckNamespace(org) == nil })
}

// machineNames returns the names in a certificate that name a machine, not a user. A user's name is no machine,
// because all machines of the user could have it.
func (s *Server) machineNames(leaf *x509.Certificate) (names []string) {
	for _, name := range leaf.DNSNames {
		if !isMachineName(name) {
			continue
		}
		if _, err := s.cfg.Access.AgentProgram(name); err != nil {
			names = append(names, name)
		}
	}
	return names
}

// isMachineName reports whether a name in a certificate is of one machine, not a wildcard.
func isMachineName(name string) bool { return name != "" && !strings.Contains(name, "*") }

// lastExpiry returns the expiry time of the verified certificate chain that expires last.
func lastExpiry(chains [][]*x509.Certificate) (expiry time.Time) {
	for _, chain := range chains {
		end := chain[0].NotAfter
		for _, c := range chain[1:] {
			if c.NotAfter.Before(end) {
				end = c.NotAfter
			}
		}
		if end.After(expiry) {
			expiry = end
		}
	}
	return expiry
}
