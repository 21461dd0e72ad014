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
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/source/admission"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// decoded is a signal with what its body says; of a keepalive nothing.
type decoded struct {
	wire.Signal
	wire.Result
}

func decode(t testing.TB, s wire.Signal) decoded {
	if s.Kind != wire.SignalResult {
		return decoded{Signal: s}
	}
	r, err := s.Result()
	if err != nil {
		t.Error(err)
	}
	return decoded{s, r}
}

// world is a bridge with everything around it in memory.
type world struct {
	journal.Journal // nil: sessions only append

	t       testing.TB
	server  *Server
	metrics *prometheus.Registry
	addr    string

	mu      sync.Mutex
	nodes   map[uuid.UUID]intent.NodeInfo
	said    map[uuid.UUID]intent.AgentReport
	gone    map[uuid.UUID]intent.Tombstone
	chunks  []*model.CheckChunk
	deleted map[uuid.UUID]bool
	records []wire.Record
	signals []decoded     // of batches, in order
	proxies []wire.Record // of results about proxy nodes
	proxied *directory.ProxyTargets
	numbers map[wire.StreamKey]uint64
	clones  []core.Clone
	lives   map[uuid.UUID]*model.Lifecycle
	told    func(directory.Change)
	stuck   bool // the journal takes nothing
	full    chan struct{}
	users   map[string][]string // with the role agent, and where theirs may be
	never   string              // stands in nothing that the journal is given

	passives map[string]directory.PassiveCheck
	made     []model.Resource
	limits   model.Limits
	knows    map[place]bool
	refuses  error                   // what Apply says
	declared *directory.PassiveCheck // what somebody declares before the next change
}

func newWorld(t testing.TB, change func(*Config)) *world {
	t.Helper()
	return newWorldBehind(t, nil, change)
}

// newWorldBehind is one whose agents come by TLS.
func newWorldBehind(t testing.TB, config *tls.Config, change func(*Config)) *world {
	t.Helper()
	w := &world{users: map[string][]string{"agent": {"default", "other"}, "only": {"default"}}, t: t, metrics: prometheus.NewRegistry(), nodes: map[uuid.UUID]intent.NodeInfo{}, said: map[uuid.UUID]intent.AgentReport{},
		gone: map[uuid.UUID]intent.Tombstone{}, deleted: map[uuid.UUID]bool{}, lives: map[uuid.UUID]*model.Lifecycle{}, passives: map[string]directory.PassiveCheck{}, knows: map[place]bool{}, numbers: map[wire.StreamKey]uint64{}}
	limiter := &core.Limiter{LimiterConfig: core.LimiterConfig{
		Namespace: func(model.NamespaceID) core.NamespaceLimits { return core.NamespaceLimits{Namespace: "default"} },
		Defaults:  core.NamespaceLimits{NodeResultsPerSec: 1000, OutputBytes: model.MaxOutputBytes}, Burst: 10 * time.Second,
		Monotonic: func() int64 { return time.Now().UnixNano() }, Now: time.Now,
		Met: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "met", Help: "met"}, []string{"namespace", "limit"}),
	}}
	handshakes := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "handshakes", Help: "handshakes"}, []string{"outcome"})
	cfg := Config{Limiter: limiter, Admission: admission.New(0, nil, handshakes, prometheus.NewRegistry()), Archives: core.NewArchives(anArchive, w, nil, slog.New(slog.DiscardHandler)),
		Config: core.Config{Journal: w, Assignments: w, Registerer: w.metrics}, Access: w, Intent: w, View: w, Checks: w, Handler: w.handler}
	cfg.OnClone = func(c core.Clone) { w.set(func() { w.clones = append(w.clones, c) }) }
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

func (w *world) set(fn func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn()
}

// wait waits until ok, which is asked with the lock held.
func (w *world) wait(what string, ok func() bool) {
	w.t.Helper()
	there := false
	defer func() {
		if !there {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.t.Logf("%d signals, %d records", len(w.signals), len(w.records))
		}
	}()
	testenv.Until(w.t, what, func() bool { // many of the conditions are counters, of which nobody is told
		w.mu.Lock()
		defer w.mu.Unlock()
		there = ok()
		return there
	})
}

func (w *world) count(out outcome) int {
	return int(testutil.ToFloat64(w.server.metrics.messages[out]))
}

// The journal.

func (w *world) Append(ctx context.Context, entries ...journal.Entry) error {
	w.mu.Lock()
	full, never := w.full, w.never
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
		w.set(func() {
			w.records = append(w.records, r)
			if r.Kind == wire.RecordProxyResult {
				w.proxies = append(w.proxies, r)
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
					w.signals = append(w.signals, decode(w.t, s))
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

func (w *world) LoginProgram(ctx context.Context, _, name, password string, begin access.Admit) (access.Program, error) {
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
func (w *world) AgentProgram(name string) (access.Program, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	namespaces, ok := w.users[name]
	if !ok {
		return access.Program{}, model.Errorf(model.Unauthenticated, "no user %s", name)
	}
	return access.Program{Name: name, Namespaces: namespaces}, nil
}
func (w *world) Current(*access.Program) bool { return true }
func (w *world) CheckNamespace(name string) error {
	if name != "default" && name != "secret" && name != "prod" {
		return model.Errorf(model.NotFound, "no namespace %s", name)
	}
	return nil
}
func (w *world) LookupNode(uid uuid.UUID) (intent.NodeInfo, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, ok := w.nodes[uid]
	return n, ok
}
func (w *world) Tombstone(uid uuid.UUID) (intent.Tombstone, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t, ok := w.gone[uid]
	return t, ok
}
func (w *world) RegisterExternal(_ context.Context, _ intent.Actor, m *intent.ExternalAgent) (intent.NodeInfo, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, ok := w.nodes[m.UID()]
	if !ok {
		if strings.HasPrefix(m.Name, "refused") {
			return n, model.Errorf(model.Forbidden, "not that one")
		}
		n = intent.NodeInfo{ID: model.NodeID(100 + len(w.nodes)), UID: m.UID(), Name: m.Name, Namespace: m.Namespace, NamespaceID: model.DefaultNamespace, ForgetAfter: m.Lifecycle.ForgetDelay()}
		w.nodes[n.UID], w.lives[n.UID] = n, m.Lifecycle
	}
	return n, nil
}
func (w *world) RecordReport(info intent.NodeInfo, said intent.AgentReport) (limit, reason string) {
	w.set(func() { w.said[info.UID] = said })
	return "", ""
}

func (w *world) handler(namespace, name string) (*model.HandlerSpec, bool) {
	spec, ok := map[string]*model.HandlerSpec{"default/cmdb": {}, "default/pager": {PagerDuty: &model.PagerDuty{}}}[namespace+"/"+name]
	return spec, ok
}

// The view and the planner.

func (w *world) Admit(_ model.NodeID, c *model.CheckChunk) (code, reason string) {
	if c.Name == "many" {
		return "node_limit", "no room"
	}
	return "", ""
}
func (w *world) HasEvent(node model.NodeID, check model.CheckID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.knows[place{node, check}]
}
func (w *world) LimitsFor(string) model.Limits { return w.limits }
func (w *world) Get(_ context.Context, key intent.Key) (*model.Resource, error) {
	if key == (intent.Key{Kind: "Pipeline", Namespace: "default", Name: "sensu-tofile"}) || key == (intent.Key{Kind: "Pipeline", Namespace: "default", Name: "alerts"}) {
		return &model.Resource{}, nil
	}
	return nil, model.Errorf(model.NotFound, "no %s", key)
}
func (w *world) Apply(_ context.Context, _ intent.Actor, resources []model.Resource, o intent.ApplyOptions) (intent.ApplyResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuses != nil {
		return intent.ApplyResult{}, w.refuses
	}
	for i := range resources {
		r := &resources[i]
		if expect, ok := o.Expect[intent.KeyOf(r)]; !ok || expect != 0 {
			w.t.Errorf("%s %s would be written over", r.Kind, r.Metadata.Name)
		}
		if w.declared != nil { // an operator is faster
			w.passives[r.Metadata.Name], w.declared = *w.declared, nil
			return intent.ApplyResult{}, model.Errorf(model.Conflict, "it is there")
		}
		if err := kind.All().Validate(r); err != nil {
			w.t.Errorf("made %s %s: %v", r.Kind, r.Metadata.Name, err)
		}
		w.made = append(w.made, *r)
		c := check(model.ChunkID(200+len(w.passives)), r.Metadata.Name, "", func(c *model.CheckChunk) { c.Command, c.Interval = nil, 0 })
		w.passives[r.Metadata.Name] = directory.PassiveCheck{Chunk: c, Source: r.Metadata.Labels[model.SourceLabel]}
	}
	return intent.ApplyResult{}, nil
}
func (w *world) CatchUp(context.Context) error { return nil }
func (w *world) PassiveCheck(_, name string) (directory.PassiveCheck, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := w.passives[name]
	return p, ok
}
func (w *world) PassiveChecks(_, source string) (ids []model.CheckID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.passives {
		if p.Chunk != nil && (source == "" || p.Source == source) {
			ids = append(ids, p.Chunk.Unit)
		}
	}
	return ids
}
func (w *world) For(node model.NodeID) *directory.Assignment {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, n := range w.nodes {
		if n.ID == node && !w.deleted[uid] {
			return &directory.Assignment{Node: node, UID: uid, Chunks: sealed(w.chunks), Proxied: w.proxied, Generation: wire.Generation{Revision: 7},
				Properties: []wire.Property{{Name: "word", Value: []byte(`"it's"`)}}}
		}
	}
	return nil
}
func (w *world) Chunk(model.ChunkID) *model.Chunk    { return nil }
func (w *world) Subscribe(fn func(directory.Change)) { w.told = fn } // the bridge's, which comes last

// sealed returns the checks as the chunks of an assignment.
func sealed(checks []*model.CheckChunk) (chunks []*model.Chunk) {
	for _, c := range checks {
		chunks = append(chunks, c.Seal())
	}
	return chunks
}

// assign makes these the checks of every node.
func (w *world) assign(chunks ...*model.CheckChunk) {
	w.mu.Lock()
	w.chunks = chunks
	var all []model.NodeID
	for _, n := range w.nodes {
		all = append(all, n.ID)
	}
	w.mu.Unlock()
	w.told(directory.Change{Assignments: all})
}

func check(id model.ChunkID, name, command string, change func(*model.CheckChunk)) *model.CheckChunk {
	c := &model.CheckChunk{Chunk: model.Chunk{ID: id, Unit: model.FirstCheck + model.CheckID(id), Namespace: model.DefaultNamespace, Name: name},
		Command: &model.Command{Shell: command}, Interval: time.Second, FailAfter: 1, RecoverAfter: 1}
	if change != nil {
		change(c)
	}
	return c
}

// archived is what every archive holds.
var archived = bytes.Repeat([]byte("archive "), 1<<17)

type openArchive struct{ *bytes.Reader }

func (openArchive) Close() error { return nil }

func anArchive([64]byte) (io.ReadSeekCloser, error) {
	return openArchive{bytes.NewReader(archived)}, nil
}

// agent is the other end.
type agent struct {
	t     testing.TB
	conn  *wsconn.Conn
	codec sensuwire.Codec
	x     sensuwire.Entity
	asked chan sensuwire.Request
	mute  bool // it answers no pings
	ended chan error
}

// inBothCodecs runs a test with agents that send Protobuf, and with agents that send JSON.
func inBothCodecs(t *testing.T, run func(t *testing.T, json bool)) {
	for _, json := range []bool{false, true} {
		t.Run(fmt.Sprint("json ", json), func(t *testing.T) { run(t, json) })
	}
}

// mustDial connects an agent with a password, which the server must accept.
func (w *world) mustDial(name string, json bool) *agent {
	w.t.Helper()
	return w.mustShake(testenv.Value(net.Dial("tcp", w.addr))(w.t), name, rightPassword, json)
}

// mustShake makes an agent's handshake, which the server must accept.
func (w *world) mustShake(nc net.Conn, name, authorization string, json bool) *agent {
	w.t.Helper()
	a, status := w.shake(nc, name, "default", authorization, json)
	if a == nil {
		w.t.Fatalf("the handshake of agent %s is refused with %d", name, status)
	}
	return a
}

// dial connects an agent with a password; nil: the server refuses it with a status.
func (w *world) dial(name, namespace, password string, json bool) (*agent, int) {
	w.t.Helper()
	nc := testenv.Value(net.Dial("tcp", w.addr))(w.t)
	return w.shake(nc, name, namespace, "Basic "+base64.StdEncoding.EncodeToString([]byte("agent:"+password)), json)
}

// shake is an agent's handshake.
func (w *world) shake(nc net.Conn, name, namespace, authorization string, json bool) (*agent, int) {
	w.t.Helper()
	accept := sensuwire.MediaProto
	if json {
		accept = sensuwire.MediaJSON
	}
	a := &agent{t: w.t, codec: sensuwire.JSON, x: sensuwire.Entity{Name: name, Namespace: namespace, Subscriptions: []string{"Web", "entity:" + name}, Labels: map[string]string{"env": "test", "bad label": "x"}},
		asked: make(chan sensuwire.Request, 100), ended: make(chan error, 1)}
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
	if a.conn, err = wsconn.Adopt(nc, br, wsconn.Options{Timeout: 10 * time.Second, Buffers: new(wsconn.Buffers)}); err != nil {
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

func (a *agent) read() {
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
		a.asked <- r
	}
}

// agent connects one that lives.
func (w *world) agent(name string, json bool) *agent {
	w.t.Helper()
	return w.live(w.mustDial(name, json))
}

// live makes it the session of its node.
func (w *world) live(a *agent) *agent {
	w.t.Helper()
	go a.read()
	a.alive()
	w.wait("the session of "+a.x.Name, func() bool { return w.server.registry.Get(w.nodes[a.uid()].ID) != nil })
	return a
}

// session is that of a node by its agent's name.
func (w *world) session(name string) *session {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.server.registry.Get(w.nodes[(&intent.ExternalAgent{System: system, Namespace: "default", Name: name}).UID()].ID)
	if x == nil {
		w.t.Fatalf("%s has no session", name)
	}
	return x
}

func (a *agent) uid() uuid.UUID {
	return (&intent.ExternalAgent{System: system, Namespace: a.x.Namespace, Name: a.x.Name}).UID()
}

func (a *agent) alive() {
	a.send(sensuwire.TypeKeepalive, &sensuwire.Event{Timestamp: 1, Entity: &a.x, Interval: 5, Warning: 30})
}

func (a *agent) send(kind string, e *sensuwire.Event) {
	a.t.Helper()
	if err := a.conn.Write(a.codec.AppendEvent(sensuwire.NewMessage(kind), e)); err != nil {
		a.t.Error(err)
	}
}

// result answers a request.
func (a *agent) result(r *sensuwire.Request, status uint32, output string) {
	a.send(sensuwire.TypeEvent, &sensuwire.Event{Timestamp: 1, Entity: &a.x, Check: r.Check, Issued: r.Issued, Executed: r.Issued, Duration: 0.25, Status: status, Output: output})
}

// end is why its session ended.
func (a *agent) end() error {
	a.t.Helper()
	select {
	case err := <-a.ended:
		return err
	case <-time.After(20 * time.Second):
		a.t.Fatal("its session goes on")
	}
	return nil
}

func (a *agent) next() *sensuwire.Request {
	a.t.Helper()
	select {
	case r := <-a.asked:
		return &r
	case err := <-a.ended:
		a.t.Fatalf("the session ended: %v", err)
	case <-time.After(20 * time.Second):
		a.t.Fatal("nobody asked")
	}
	return nil
}
