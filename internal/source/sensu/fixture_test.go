package sensu

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/source/admission"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// decodedSignal is a result or keepalive that the test has decoded from its journal.
type decodedSignal struct {
	wire.Signal
	wire.Result
}

// decodeSignal decodes a result or keepalive from the test's journal.
func decodeSignal(t testing.TB, s wire.Signal) decodedSignal {
	if s.Kind != wire.SignalResult {
		return decodedSignal{Signal: s}
	}
	r, err := s.Result()
	if err != nil {
		t.Error(err)
	}
	return decodedSignal{s, r}
}

// testServer is a Server for Sensu agents with fakes in memory. They stand for journal, intent, assignments and event
// states.
type testServer struct {
	journal.Journal // nil: sessions only append

	t       testing.TB
	server  *Server
	metrics *prometheus.Registry
	addr    string

	mu           sync.Mutex
	nodes        map[uuid.UUID]intent.NodeInfo
	reports      map[uuid.UUID]intent.AgentReport
	tombstones   map[uuid.UUID]intent.Tombstone
	definitions  []*model.CheckDefinition
	pipelines    []string // of every keepalive
	deleted      map[uuid.UUID]bool
	records      []wire.Record
	signals      []decodedSignal // of batches, in order
	proxyResults []wire.Record   // of results about proxy nodes
	proxied      *directory.ProxyTargets
	numbers      map[wire.StreamKey]uint64
	clones       []core.Clone
	lifecycles   map[uuid.UUID]*model.Lifecycle
	notify       func(directory.Change)
	blocked      chan struct{}
	users        map[string][]string // namespaces of the users with the role agent
	forbidden    string              // text that no journal entry may contain

	passives   map[string]directory.PassiveCheck
	created    []model.Resource
	limits     model.Limits
	events     map[eventKey]bool
	applyError error                   // error of Apply; nil: it succeeds
	declared   *directory.PassiveCheck // an operator declares it just before the next Apply
}

// newTestServer starts a test server that accepts agents without TLS.
func newTestServer(t testing.TB, change func(*Config)) *testServer {
	t.Helper()
	return newTestServerTLS(t, nil, change)
}

// newTestServerTLS starts a test server for agents with a TLS configuration. Nil means without TLS.
func newTestServerTLS(t testing.TB, config *tls.Config, change func(*Config)) *testServer {
	t.Helper()
	w := &testServer{users: map[string][]string{"agent": {"default", "other"}, "only": {"default"}}, t: t, metrics: prometheus.NewRegistry(), nodes: map[uuid.UUID]intent.NodeInfo{}, reports: map[uuid.UUID]intent.AgentReport{},
		tombstones: map[uuid.UUID]intent.Tombstone{}, deleted: map[uuid.UUID]bool{}, lifecycles: map[uuid.UUID]*model.Lifecycle{}, passives: map[string]directory.PassiveCheck{}, events: map[eventKey]bool{}, numbers: map[wire.StreamKey]uint64{}}
	limiter := &core.Limiter{LimiterConfig: core.LimiterConfig{
		Namespace: func(model.NamespaceID) core.NamespaceLimits { return core.NamespaceLimits{Namespace: "default"} },
		Defaults:  core.NamespaceLimits{NodeResultsPerSec: 1000, OutputBytes: model.MaxOutputBytes}, Burst: 10 * time.Second,
		Monotonic: func() int64 { return time.Now().UnixNano() }, Now: time.Now,
		LimitReached: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "met", Help: "met"}, []string{"namespace", "limit"}),
	}}
	handshakes := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "handshakes", Help: "handshakes"}, []string{"outcome"})
	cfg := Config{Limiter: limiter, Admission: admission.New(0, nil, handshakes, prometheus.NewRegistry(), slog.New(slog.DiscardHandler)), Archives: core.NewArchives(openTestArchive, w, nil, slog.New(slog.DiscardHandler)),
		Config: core.Config{Journal: w, Assignments: w, Registerer: w.metrics}, Access: w, Intent: w, View: w, Checks: w, Handler: w.handler, HasPipeline: isRegistrationSet}
	cfg.OnClone = func(c core.Clone) { w.update(func() { w.clones = append(w.clones, c) }) }
	cfg.Limits.RefusalDelay = 50 * time.Millisecond
	cfg.Limits.FirstWithin = 100 * time.Millisecond
	if change != nil {
		change(&cfg)
	}
	w.server = testenv.Value(New(cfg))(t)
	l := testenv.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	w.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = w.server.Listen(ctx, l, config) })
	running.Go(func() { _ = w.server.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return w
}

// update calls fn under the test server's lock, so that fn can change the test data.
func (w *testServer) update(fn func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn()
}

// wait waits until the given condition function returns true.
func (w *testServer) wait(what string, ok func() bool) {
	w.t.Helper()
	there := false
	defer func() {
		if !there {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.t.Logf("%d signals, %d records", len(w.signals), len(w.records))
		}
	}()
	testenv.Until(w.t, what, func() bool { // many conditions are counters, which have no channel
		w.mu.Lock()
		defer w.mu.Unlock()
		there = ok()
		return there
	})
}

// count returns, from the metrics, how many messages were handled with a given outcome.
func (w *testServer) count(out messageOutcome) int {
	return int(testutil.ToFloat64(w.server.metrics.messages[out]))
}

// The journal.

// Append stores entries, or blocks while the test wants a full journal.
func (w *testServer) Append(ctx context.Context, entries ...journal.Entry) error {
	w.mu.Lock()
	full, never := w.blocked, w.forbidden
	w.mu.Unlock()
	if full != nil {
		select {
		case <-full:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, e := range entries {
		if never != "" && bytes.Contains(e.Data, []byte(never)) {
			w.t.Errorf("the journal is given %q", e.Data)
		}
		var r wire.Record
		if err := r.Decode(slices.Clone(e.Data)); err != nil {
			w.t.Error(err)
		}
		w.update(func() {
			w.records = append(w.records, r)
			if r.Kind == wire.RecordProxyResult {
				w.proxyResults = append(w.proxyResults, r)
			}
			if r.Kind == wire.RecordBatch {
				var b wire.Batch
				if err := b.Decode(r.Batch); err != nil {
					w.t.Error(err)
				}
				if b.First != w.numbers[b.StreamKey]+1 {
					w.t.Errorf("number %d after %d", b.First, w.numbers[b.StreamKey])
				}
				w.numbers[b.StreamKey] = b.First + uint64(len(b.Signals)) - 1
				for _, s := range b.Signals {
					w.signals = append(w.signals, decodeSignal(w.t, s))
				}
			}
		})
		if e.Waiter != nil {
			e.Waiter.Committed(e.Token, journal.Position{}, nil)
		}
	}
	return nil
}

// Intent.

// LoginProgram accepts any user with the password "secret".
func (w *testServer) LoginProgram(ctx context.Context, _, name, password string, begin access.PasswordThrottle) (access.Program, error) {
	if password != "secret" {
		end, err := begin(ctx)
		if err != nil {
			return access.Program{}, err
		}
		end(true)
		return access.Program{}, model.Errorf(model.Unauthenticated, "wrong")
	}
	return access.Program{Name: name, Namespaces: []string{"default", "other"}}, nil
}

// AgentProgram returns the user that the test has created with the name in a certificate.
func (w *testServer) AgentProgram(name string) (access.Program, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	namespaces, ok := w.users[name]
	if !ok {
		return access.Program{}, model.Errorf(model.Unauthenticated, "no user %s", name)
	}
	return access.Program{Name: name, Namespaces: namespaces}, nil
}

// Current reports every login as still valid.
func (w *testServer) Current(*access.Program) bool { return true }

// CheckNamespace accepts the namespaces default, secret and prod.
func (w *testServer) CheckNamespace(name string) error {
	if name != "default" && name != "secret" && name != "prod" {
		return model.Errorf(model.NotFound, "no namespace %s", name)
	}
	return nil
}

// LookupNode returns a node by its uid.
func (w *testServer) LookupNode(uid uuid.UUID) (intent.NodeInfo, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, ok := w.nodes[uid]
	return n, ok
}

// Tombstone returns the record of a node's deletion that the test has set, if any.
func (w *testServer) Tombstone(uid uuid.UUID) (intent.Tombstone, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t, ok := w.tombstones[uid]
	return t, ok
}

// RegisterExternal registers an agent as a node.
func (w *testServer) RegisterExternal(_ context.Context, _ intent.Actor, m *intent.ExternalAgent) (intent.NodeInfo, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, ok := w.nodes[m.UID()]
	if !ok {
		if strings.HasPrefix(m.Name, "refused") {
			return n, model.Errorf(model.Forbidden, "not that one")
		}
		n = intent.NodeInfo{ID: model.NodeID(100 + len(w.nodes)), UID: m.UID(), Name: m.Name, Namespace: m.Namespace, NamespaceID: model.DefaultNamespace, ForgetAfter: m.Lifecycle.ForgetDelay()}
		w.nodes[n.UID], w.lifecycles[n.UID] = n, m.Lifecycle
	}
	return n, nil
}

// RecordReport keeps an agent's report about its machine for the test.
func (w *testServer) RecordReport(info intent.NodeInfo, said intent.AgentReport) (limit, reason string) {
	w.update(func() { w.reports[info.UID] = said })
	return "", ""
}

// handler returns the spec of one of two test handlers, cmdb and pager.
func (w *testServer) handler(namespace, name string) (*model.HandlerSpec, bool) {
	spec, ok := map[string]*model.HandlerSpec{"default/cmdb": {}, "default/pager": {PagerDuty: &model.PagerDuty{}}}[namespace+"/"+name]
	return spec, ok
}

// isRegistrationSet reports whether a pipeline is the one made for the Sensu handler set "registration".
func isRegistrationSet(name route.Name) bool { return name.String() == "default/sensu-registration" }

// The view and the planner.

// Admit refuses each event of the test's check named "many", and accepts all other events.
func (w *testServer) Admit(_ model.NodeID, c *model.CheckDefinition) (code, reason string) {
	if c.Name == "many" {
		return "node_limit", "no room"
	}
	return "", ""
}

// HasEvent reports whether the test has declared that a node has an event of a check.
func (w *testServer) HasEvent(node model.NodeID, check model.CheckID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events[eventKey{node, check}]
}

// LimitsFor returns the namespace limits that the test has set, the same for every namespace.
func (w *testServer) LimitsFor(string) model.Limits { return w.limits }

// Get finds only the pipelines sensu-tofile and alerts, the only resources of the test server.
func (w *testServer) Get(_ context.Context, key intent.Key) (*model.Resource, error) {
	if key == (intent.Key{Kind: "Pipeline", Namespace: "default", Name: "sensu-tofile"}) || key == (intent.Key{Kind: "Pipeline", Namespace: "default", Name: "alerts"}) {
		return &model.Resource{}, nil
	}
	return nil, model.Errorf(model.NotFound, "no %s", key)
}

// Apply creates passive checks in the test's memory.
func (w *testServer) Apply(_ context.Context, _ intent.Actor, resources []model.Resource, o intent.ApplyOptions) (intent.ApplyResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.applyError != nil {
		return intent.ApplyResult{}, w.applyError
	}
	for i := range resources {
		r := &resources[i]
		if expect, ok := o.Expect[intent.KeyOf(r)]; !ok || expect != 0 {
			w.t.Errorf("%s %s would be overwritten", r.Kind, r.Metadata.Name)
		}
		if w.declared != nil { // an operator declares it first
			w.passives[r.Metadata.Name], w.declared = *w.declared, nil
			return intent.ApplyResult{}, model.Errorf(model.Conflict, "it is there")
		}
		if err := kind.All().Validate(r); err != nil {
			w.t.Errorf("made %s %s: %v", r.Kind, r.Metadata.Name, err)
		}
		w.created = append(w.created, *r)
		c := newCheck(model.DefinitionID(200+len(w.passives)), r.Metadata.Name, "", func(c *model.CheckDefinition) { c.Command, c.Interval = nil, 0 })
		w.passives[r.Metadata.Name] = directory.PassiveCheck{Definition: c, Source: r.Metadata.Labels[model.SourceLabel]}
	}
	return intent.ApplyResult{}, nil
}

// CatchUp returns at once, because the test makes created checks visible immediately.
func (w *testServer) CatchUp(context.Context) error { return nil }

// Keepalive returns the keepalive check with the pipelines that the test has set.
func (w *testServer) Keepalive(model.NodeID) *model.CheckDefinition {
	w.mu.Lock()
	defer w.mu.Unlock()
	return &model.CheckDefinition{Pipelines: w.pipelines}
}

// PassiveCheck returns the passive check of a name that the test has set.
func (w *testServer) PassiveCheck(_, name string) (directory.PassiveCheck, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := w.passives[name]
	return p, ok
}

// FilterContext returns the same fixed test labels, annotations and groups for every check.
func (w *testServer) FilterContext(_, _ model.NodeID, _ model.CheckID) directory.FilterContext {
	return directory.FilterContext{Check: &directory.Unit{Labels: map[string]string{"owner": "ann"}, Annotations: map[string]string{"sensu.io/plugins/x": "z"}}, Groups: []string{"web"}}
}

// PassiveChecks returns the ids of the passive checks that the test has set.
func (w *testServer) PassiveChecks(_, source string) (ids []model.CheckID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.passives {
		if p.Definition != nil && (source == "" || p.Source == source) {
			ids = append(ids, p.Definition.Unit)
		}
	}
	return ids
}

// AssignmentOf returns the assignment (checks and Templates) of a test node.
func (w *testServer) AssignmentOf(node model.NodeID) *directory.Assignment {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, n := range w.nodes {
		if n.ID == node && !w.deleted[uid] {
			return &directory.Assignment{Node: node, UID: uid, Definitions: compileDefinitions(w.definitions), Proxied: w.proxied, Generation: wire.Generation{Revision: 7},
				Properties: []wire.Property{{Name: "word", Value: []byte(`"it's"`)}}}
		}
	}
	return nil
}

// Definition returns nil, because the test has no compiled checks.
func (w *testServer) Definition(model.DefinitionID) *model.Definition { return nil }

// Subscribe stores the function that the test calls after a change of assignments.
func (w *testServer) Subscribe(fn func(directory.Change)) { w.notify = fn } // the server subscribes last

// compileDefinitions compiles and encodes test checks for an assignment.
func compileDefinitions(checks []*model.CheckDefinition) (definitions []*model.Definition) {
	for _, c := range checks {
		definitions = append(definitions, c.ToDefinition())
	}
	return definitions
}

// assign assigns new checks to all nodes, in place of the former checks.
func (w *testServer) assign(definitions ...*model.CheckDefinition) {
	w.mu.Lock()
	w.definitions = definitions
	var all []model.NodeID
	for _, n := range w.nodes {
		all = append(all, n.ID)
	}
	w.mu.Unlock()
	w.notify(directory.Change{Assignments: all})
}

// newCheck returns a check that runs a shell command each second.
func newCheck(id model.DefinitionID, name, command string, change func(*model.CheckDefinition)) *model.CheckDefinition {
	c := &model.CheckDefinition{Definition: model.Definition{ID: id, Unit: model.FirstCheck + model.CheckID(id), Namespace: model.DefaultNamespace, Name: name},
		Command: &model.Command{Shell: command}, Interval: time.Second, FailAfter: 1, RecoverAfter: 1}
	if change != nil {
		change(c)
	}
	return c
}

// archiveContent is the content of every archive.
var archiveContent = bytes.Repeat([]byte("archive "), 1<<17)

// openArchive is an asset archive in memory, open for reading.
type openArchive struct{ *bytes.Reader }

// Close does nothing, because an archive in memory holds no file.
func (openArchive) Close() error { return nil }

// openTestArchive opens an asset archive with the content archiveContent.
func openTestArchive([64]byte) (io.ReadSeekCloser, error) {
	return openArchive{bytes.NewReader(archiveContent)}, nil
}

// testAgent is the agent's side of a test session.
type testAgent struct {
	t        testing.TB
	conn     *wsconn.Conn
	codec    sensuwire.Codec
	entity   sensuwire.Entity
	requests chan sensuwire.ReceivedRequest
	ended    chan error
}

// inBothCodecs runs a test with Protobuf agents and with JSON agents.
func inBothCodecs(t *testing.T, run func(t *testing.T, json bool)) {
	for _, json := range []bool{false, true} {
		t.Run(fmt.Sprint("json ", json), func(t *testing.T) { run(t, json) })
	}
}

// mustDial connects an agent with a password and fails the test on a refusal.
func (w *testServer) mustDial(name string, json bool) *testAgent {
	w.t.Helper()
	return w.mustHandshake(testenv.Value(net.Dial("tcp", w.addr))(w.t), name, rightPassword, json)
}

// mustHandshake sends an agent's handshake and fails the test on a refusal.
func (w *testServer) mustHandshake(nc net.Conn, name, authorization string, json bool) *testAgent {
	w.t.Helper()
	a, status := w.handshake(nc, name, "default", authorization, json)
	if a == nil {
		w.t.Fatalf("the handshake of agent %s is refused with %d", name, status)
	}
	return a
}

// dial connects an agent with a password. It returns nil and the status if the server refused the handshake.
func (w *testServer) dial(name, namespace, password string, json bool) (*testAgent, int) {
	w.t.Helper()
	nc := testenv.Value(net.Dial("tcp", w.addr))(w.t)
	return w.handshake(nc, name, namespace, "Basic "+base64.StdEncoding.EncodeToString([]byte("agent:"+password)), json)
}

// handshake sends an agent's handshake on a connection. It returns nil and the status if the server refused the
// handshake.
func (w *testServer) handshake(nc net.Conn, name, namespace, authorization string, json bool) (*testAgent, int) {
	w.t.Helper()
	accept := sensuwire.MediaProto
	if json {
		accept = sensuwire.MediaJSON
	}
	a := &testAgent{t: w.t, codec: sensuwire.JSON, entity: sensuwire.Entity{Name: name, Namespace: namespace, Subscriptions: []string{"Web", "entity:" + name}, Labels: map[string]string{"env": "test", "bad label": "x"}},
		requests: make(chan sensuwire.ReceivedRequest, 100), ended: make(chan error, 1)}
	d := ws.Dialer{Header: ws.HandshakeHeaderHTTP(http.Header{"Accept": {accept}, "Authorization": {authorization},
		"Sensu-AgentName": {name}, "Sensu-Namespace": {namespace}, "Sensu-Subscriptions": {"web"}}),
		OnHeader: func(key, value []byte) error {
			if strings.EqualFold(string(key), "Accept") && string(value) == sensuwire.MediaProto {
				a.codec = sensuwire.Protobuf
			}
			return nil
		}}
	br, _, err := d.Upgrade(nc, &url.URL{Scheme: "ws", Host: w.addr, Path: "/"})
	if err != nil {
		nc.Close()
		var status ws.StatusError
		if !errors.As(err, &status) {
			w.t.Fatal(err)
		}
		return nil, int(status)
	}
	if a.conn, err = wsconn.NewClientConn(nc, br, wsconn.Options{Timeout: 10 * time.Second, Buffers: new(wsconn.Buffers)}); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { nc.Close() })
	op, message, err := a.conn.Read(1 << 20)
	if err != nil || op != wsconn.Binary {
		w.t.Fatalf("%v, %v", op, err)
	}
	kind, body, err := sensuwire.Parse(message)
	c, err2 := a.codec.ParseConfig(body)
	if err != nil || err2 != nil || string(kind) != sensuwire.TypeEntityConfig || c.Name != sensuwire.UnknownEntity {
		w.t.Fatalf("%q %v %v %+v", kind, err, err2, c)
	}
	return a, 101
}

// read receives check requests until the connection ends.
func (a *testAgent) read() {
	for {
		op, message, err := a.conn.Read(1 << 20)
		if err != nil {
			a.ended <- err
			return
		}
		if op != wsconn.Binary {
			continue
		}
		_, body, err := sensuwire.Parse(message)
		r, err2 := a.codec.ParseRequest(body)
		if err != nil || err2 != nil {
			a.t.Errorf("%v %v", err, err2)
		}
		r.Check = slices.Clone(r.Check)
		a.requests <- r
	}
}

// connectAgent connects an agent that answers pings and opens its session.
func (w *testServer) connectAgent(name string, json bool) *testAgent {
	w.t.Helper()
	return w.openSession(w.mustDial(name, json))
}

// openSession sends an agent's first keepalive and waits until the server has opened the session.
func (w *testServer) openSession(a *testAgent) *testAgent {
	w.t.Helper()
	go a.read()
	a.sendKeepalive()
	w.wait("the session of "+a.entity.Name, func() bool { return w.server.registry.Get(w.nodes[a.uid()].ID) != nil })
	return a
}

// session returns the server's session of the agent with a given name.
func (w *testServer) session(name string) *session {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.server.registry.Get(w.nodes[(&intent.ExternalAgent{System: agentSystem, Namespace: "default", Name: name}).UID()].ID)
	if x == nil {
		w.t.Fatalf("%s has no session", name)
	}
	return x
}

// uid returns the agent's uid, derived from namespace and name.
func (a *testAgent) uid() uuid.UUID {
	return (&intent.ExternalAgent{System: agentSystem, Namespace: a.entity.Namespace, Name: a.entity.Name}).UID()
}

// sendKeepalive sends a keepalive with an interval of 5 s and a warning after 30 s.
func (a *testAgent) sendKeepalive() {
	a.send(sensuwire.TypeKeepalive, &sensuwire.Event{Timestamp: 1, Entity: &a.entity, Interval: 5, Warning: 30})
}

// send sends an event to the server.
func (a *testAgent) send(kind string, e *sensuwire.Event) {
	a.t.Helper()
	if err := a.conn.Write(a.codec.AppendEvent(sensuwire.NewMessage(kind), e)); err != nil {
		a.t.Error(err)
	}
}

// sendResult sends the event that answers a check request.
func (a *testAgent) sendResult(r *sensuwire.ReceivedRequest, status uint32, output string) {
	a.send(sensuwire.TypeEvent, &sensuwire.Event{Timestamp: 1, Entity: &a.entity, Check: r.Check, Issued: r.Issued, Executed: r.Issued, Duration: 0.25, Status: status, Output: output})
}

// waitEnd waits for the end of the session and returns its error.
func (a *testAgent) waitEnd() error {
	a.t.Helper()
	select {
	case err := <-a.ended:
		return err
	case <-time.After(20 * time.Second):
		a.t.Fatal("the session did not end within 20 s")
	}
	return nil
}

// nextRequest waits for the next check request of the server.
func (a *testAgent) nextRequest() *sensuwire.ReceivedRequest {
	a.t.Helper()
	select {
	case r := <-a.requests:
		return &r
	case err := <-a.ended:
		a.t.Fatalf("the session ended: %v", err)
	case <-time.After(20 * time.Second):
		a.t.Fatal("no request within 20 s")
	}
	return nil
}
