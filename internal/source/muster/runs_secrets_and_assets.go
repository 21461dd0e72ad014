package muster

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/admission"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// sessionRequests has a session's open requests, ad-hoc runs for the agent and secrets requested by the agent.
// They are ad-hoc runs for the agent, and secrets for which the agent asked. The session's Mu guards them.
type sessionRequests struct {
	runs      []wire.Run           // not sent to the agent yet
	turns     []wire.RoundRobinRun // not sent to the agent yet
	pending   map[uint64]*core.PendingRun
	answers   []wire.Exchange // not sent to the agent yet
	exchanges int             // number of the agent's requests that are not answered
}

// takeUnsent removes and returns the requests that the server has not sent to the agent yet.
func (r *sessionRequests) takeUnsent() (runs []wire.Run, turns []wire.RoundRobinRun, answers []wire.Exchange) {
	runs, turns, answers = r.runs, r.turns, r.answers
	r.runs, r.turns, r.answers = nil, nil, nil
	return runs, turns, answers
}

// NewRuns returns a new, empty collection for the ad-hoc runs of one caller. The caller closes them.
func (s *Server) NewRuns() *core.Runs { return s.runOutput.NewRuns() }

// RequestRun sends a node's agent the request to run a check or command once (an ad-hoc run). It fails if the node has no
// session here, or the agent announced that it refuses.
func (s *Server) RequestRun(runs *core.Runs, node model.NodeID, run wire.Run) error {
	x := s.registry.Get(node)
	if x == nil || x.maxOutput.Load() == 0 { // none, or not welcomed yet
		return core.ErrNoSession()
	}
	if reason := x.hello.refusesRun(&run); reason != "" {
		return model.Errorf(model.Forbidden, "%s", reason)
	}
	return runs.Start(node, &run, x.cancelRun, func(p *core.PendingRun) error { return x.submitRun(p, run) })
}

// RequestInventory asks a node's agent to collect its inventory now. It returns false if the node has no session here.
func (s *Server) RequestInventory(node model.NodeID) bool {
	x := s.registry.Get(node)
	if x == nil || s.cfg.Inventories == nil {
		return false
	}
	x.Mu.Lock()
	defer x.Mu.Unlock()
	q := &x.requests
	if x.EndedLocked() || len(q.runs) >= core.MaxRuns {
		return false
	}
	if !slices.ContainsFunc(q.runs, func(r wire.Run) bool { return r.Inventory }) {
		q.runs = append(q.runs, wire.Run{Inventory: true})
		s.pushes.AddLocked(x, dueRequests)
	}
	return true
}

// submitRun queues the request for an ad-hoc run, unless the agent has too many pending runs.
func (x *session) submitRun(p *core.PendingRun, run wire.Run) error {
	x.Mu.Lock()
	defer x.Mu.Unlock()
	q := &x.requests
	switch {
	case x.EndedLocked():
		return core.ErrNoSession()
	case len(q.runs) >= core.MaxRuns || len(q.pending) >= core.MaxRuns:
		return core.ErrTooManyRuns()
	case q.pending == nil:
		q.pending = map[uint64]*core.PendingRun{}
	}
	q.pending[p.ID] = p
	q.runs = append(q.runs, run)
	x.srv.pushes.AddLocked(x, dueRequests)
	return nil
}

// cancelRun cancels a pending ad-hoc run, and tells the agent if the request was already sent. The agent gets a
// message if the request was already sent.
func (x *session) cancelRun(id uint64) {
	x.Mu.Lock()
	defer x.Mu.Unlock()
	q := &x.requests
	_, running := q.pending[id]
	delete(q.pending, id)
	if i := slices.IndexFunc(q.runs, func(r wire.Run) bool { return r.ID == id }); i >= 0 {
		q.runs, running = slices.Delete(q.runs, i, i+1), false // not sent to the agent yet
	}
	if running && !x.EndedLocked() {
		q.runs = append(q.runs, wire.Run{ID: id, Cancel: true})
		x.srv.pushes.AddLocked(x, dueRequests)
	}
}

// handleRunOutput passes output of an ad-hoc run to its caller. An answer with an unknown id is dropped.
func (x *session) handleRunOutput(body []byte) frameOutcome {
	var m wire.RunOutput
	if err := m.Decode(body); err != nil {
		return x.endForViolation(frameMalformed, err.Error())
	}
	x.Mu.Lock()
	p := x.requests.pending[m.ID]
	if m.Last {
		delete(x.requests.pending, m.ID)
	}
	x.Mu.Unlock()
	if p == nil {
		return answerUnrequested
	}
	p.Answer(&m)
	return runAnswered
}

// RequestRoundRobinRun sends a node's agent the order to run a round-robin check now. It returns false if the node has no
// session, was not sent this definition yet, or is about to leave. Give does not block.
func (s *Server) RequestRoundRobinRun(node model.NodeID, g wire.RoundRobinRun) bool {
	x := s.registry.Get(node)
	if x == nil {
		return false
	}
	x.Mu.Lock()
	defer x.Mu.Unlock()
	sent := x.assignment.sent
	ok := !x.EndedLocked() && !x.closing.clean && sent != nil && len(x.requests.turns) < wire.MaxRoundRobinRuns
	if ok {
		var i int
		i, ok = definitionIndex(sent.Definitions, g.Definition)
		if ok && g.Node != 0 {
			_, ok = sent.ProxyNode(sent.Definitions[i].Unit, g.Node)
		}
	}
	if ok {
		x.requests.turns = append(x.requests.turns, g)
		s.pushes.AddLocked(x, dueRequests)
	}
	return ok
}

// maxExchanges bounds the unanswered requests of one agent.
const maxExchanges = 64

// offersSecrets reports whether the agent may request secrets. It may over mutual TLS only.
func (x *session) offersSecrets() bool { return x.srv.cfg.Secret != nil && x.proven.Load() }

// offeredFeatures returns the optional protocol features that the server's Welcome message offers to the agent.
func (x *session) offeredFeatures() (features []string) {
	if x.offersSecrets() {
		features = append(features, wire.FeatureSecrets)
	}
	if x.srv.cfg.Inventories != nil {
		features = append(features, wire.FeatureInventory)
	}
	return features
}

// acceptSecretRequest checks the agent's request for secret values and starts the answer. A goroutine of its own
// answers it.
func (x *session) acceptSecretRequest(body []byte) frameOutcome {
	var m wire.Exchange
	if err := m.Decode(body); err != nil {
		return x.endForViolation(frameMalformed, err.Error())
	}
	switch {
	case m.SecretsRequest == nil:
		return unknownKind
	case !x.offersSecrets():
		return answerUnrequested // Welcome did not offer it
	}
	x.Mu.Lock()
	ok := !x.EndedLocked() && x.requests.exchanges < maxExchanges
	if ok {
		x.requests.exchanges++
	}
	x.Mu.Unlock()
	if !ok {
		return requestTooSoon
	}
	go x.answerSecrets(m.ID, m.SecretsRequest.Names)
	return secretsRequested
}

// answerSecrets reads the requested secrets that the node's assignment names, and queues the answer.
func (x *session) answerSecrets(id uint64, names []string) {
	given := make([]wire.SecretValue, len(names))
	var named []string
	var index []int
	for i, name := range names {
		given[i].Name = name
		if core.UsesSecret(x.srv.cfg.Assignments, x.Node.ID, name) {
			named, index = append(named, name), append(index, i)
			continue
		}
		given[i].Error = "the node's assignment does not contain the secret"
		x.srv.metrics.secrets.WithLabelValues("refused").Inc()
		x.srv.logSecretRefusal.Do(func() {
			x.srv.cfg.Log.Warn("refused a secret that is not in the node's assignment; at most one line a minute, see muster_secrets_total", "node", x.Node.Name, "secret", name)
		})
	}
	values, errs := x.srv.cfg.Secret.Resolve(x.srv.life.Base, named)
	for k, i := range index {
		g := &given[i]
		if errs[k] != nil {
			g.Error = model.Shorten(errs[k].Error())
			x.srv.metrics.secrets.WithLabelValues("failed").Inc()
			continue
		}
		g.Value, g.LeaseMs = []byte(values[k].Text), uint32(min(values[k].Lease.Milliseconds(), 1<<31))
		x.srv.metrics.secrets.WithLabelValues("given").Inc()
	}
	x.Mu.Lock()
	defer x.Mu.Unlock()
	x.requests.exchanges--
	if !x.EndedLocked() {
		x.requests.answers = append(x.requests.answers, wire.Exchange{ID: id, SecretsReply: &wire.SecretsReply{Values: given}})
		x.srv.pushes.AddLocked(x, dueRequests)
	}
}

// assetConn is a TLS connection on which an agent downloads asset archives. It hides TLS from http.Server,
// which would look for a handler of the ALPN protocol.
type assetConn struct {
	net.Conn
	proof Proof
}

// NetConn returns the TCP connection below TLS, for the connection limits of package admission.
func (c *assetConn) NetConn() net.Conn { return c.Conn.(*tls.Conn).NetConn() }

// assetConnKey is the context key under which a request finds its connection for archives.
type assetConnKey struct{}

// assetServer returns the HTTP server of asset archives for agents.
func (s *Server) assetServer() *http.Server {
	return &http.Server{
		Handler: http.HandlerFunc(s.serveAsset), ReadHeaderTimeout: 10 * time.Second, WriteTimeout: core.FetchTimeout, IdleTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, nc net.Conn) context.Context {
			return context.WithValue(ctx, assetConnKey{}, nc)
		},
	}
}

// serveAsset answers an agent's HTTP request for an asset archive of its assignment. The request may have an offset.
func (s *Server) serveAsset(w http.ResponseWriter, r *http.Request) {
	outcome, err := s.sendAsset(w, r)
	s.metrics.Archives.WithLabelValues(outcome).Inc()
	if err == nil {
		return
	}
	public := s.archives.PublicError(err, r.URL.Path)
	if public.Class == model.Unavailable {
		w.Header().Set("Retry-After", "5")
	}
	http.Error(w, public.Error(), public.Class.HTTP())
}

// sendAsset answers an agent's request for an asset archive, and returns the outcome for metrics.
func (s *Server) sendAsset(w http.ResponseWriter, r *http.Request) (outcome string, err error) {
	text, ok := strings.CutPrefix(r.URL.Path, wire.AssetPath)
	sum, bad := model.ParseAssetSum(text)
	if r.Method != http.MethodGet || !ok || bad != nil || s.cfg.Assets == nil {
		return "unknown", model.Errorf(model.NotFound, "this connection serves asset archives only: request GET %sSHA512 with the SHA-512 of the archive", wire.AssetPath)
	}
	conn := r.Context().Value(assetConnKey{}).(*assetConn)
	node, known := s.cfg.Nodes.Lookup(conn.proof.Node)
	if !known || node.Key != conn.proof.Key {
		return "unknown_node", model.Errorf(model.Forbidden, "the server has no node with the identity of this machine")
	}
	admission.MarkAuthenticated(conn)
	f, done, outcome, err := s.archives.Open(r.Context(), node.ID, sum)
	if err != nil {
		return outcome, err
	}
	defer done()
	w.Header().Set("ETag", `"`+text+`"`)
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, f)
	return outcome, nil
}
