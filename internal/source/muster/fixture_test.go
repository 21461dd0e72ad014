package muster

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// testServer is a Server of the agent protocol with journal, nodes and assignments in memory.
type testServer struct {
	t       testing.TB
	server  *Server
	journal *memoryJournal
	nodes   *memoryNodes
	plan    *memoryPlan
	metrics *prometheus.Registry
	addr    string
	stop    func()
	stalled atomic.Pointer[time.Time] // of the journal
	key     ed25519.PrivateKey
}

// newTestServer starts a test server that accepts agents without TLS.
func newTestServer(t testing.TB, change func(*Config)) *testServer {
	t.Helper()
	_, key, _ := ed25519.GenerateKey(nil)
	w := &testServer{t: t, journal: newMemoryJournal(), nodes: newMemoryNodes(), plan: newMemoryPlan(), metrics: prometheus.NewRegistry(), key: key}
	cfg := Config{Config: core.Config{Journal: w.journal, Assignments: w.plan, Registerer: w.metrics, Stalled: w.stalled.Load}, Nodes: w.nodes, View: w.journal, SigningKey: key}
	if change != nil {
		change(&cfg)
	}
	server := testenv.Value(New(cfg))(t)
	w.server = server
	l := testenv.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	w.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = ServePlain(ctx, l, server) })
	running.Go(func() { _ = server.Run(ctx) })
	w.stop = func() { cancel(); running.Wait(); w.journal.Close() }
	t.Cleanup(func() { w.stop() })
	return w
}

// addNode adds a node to the test, and assigns the checks with the given ids to the node.
func (w *testServer) addNode(n int, definitions ...model.DefinitionID) uuid.UUID {
	uid := uuid.NewSHA1(uuid.Nil, fmt.Append(nil, n))
	w.nodes.setNode(uid, core.Node{ID: model.NodeID(1000 + n), Name: fmt.Sprintf("node%d", n), Namespace: 1})
	w.plan.assign(model.NodeID(1000+n), uid, definitions...)
	return uid
}

// testAgent is the agent's side of a test session, and records the server's messages. It records the received
// messages.
type testAgent struct {
	*link.Session
	link.Handler // nil: tests of its other messages have their own
	t            testing.TB
	welcome      wire.Welcome
	mu           sync.Mutex
	changed      *sync.Cond
	acks         map[wire.StreamKey]uint64
	refused      []wire.RefusedSignal
	slowReasons  []string
	runs         []wire.Run
	secrets      []wire.SecretValue
	assignments  []*link.Assignment
	ended        error
	hasEnded     bool
}

var liveStream = wire.StreamKey{Stream: 7, Lane: wire.Live}

// openSession opens a test agent's session after the given function has changed the configuration and Hello
// message. The function change makes the changes.
func (w *testServer) openSession(uid uuid.UUID, change func(*link.Config, *wire.Hello)) (*testAgent, error) {
	return w.openSessionWith(uid, nil, change)
}

// mustOpenSession opens a session of an agent with an assignment, and fails the test on a refusal. A nil assignment
// means none.
func (w *testServer) mustOpenSession(uid uuid.UUID, held *link.Assignment, change func(*link.Config, *wire.Hello)) *testAgent {
	w.t.Helper()
	a := testenv.Value(w.openSessionWith(uid, held, change))(w.t)
	return a
}

// openSessionWith opens a session of an agent with an assignment, or returns the error of a refusal.
func (w *testServer) openSessionWith(uid uuid.UUID, held *link.Assignment, change func(*link.Config, *wire.Hello)) (*testAgent, error) {
	a := &testAgent{t: w.t, acks: map[wire.StreamKey]uint64{}}
	a.changed = sync.NewCond(&a.mu)
	cfg := &link.Config{Node: uid, ServerKey: w.key.Public().(ed25519.PublicKey)}
	hello := &wire.Hello{Name: "x", Streams: []wire.StreamRange{{StreamKey: liveStream, First: 1}}}
	if change != nil {
		change(cfg, hello)
	}
	s, err := link.Open(w.t.Context(), cfg, w.addr, hello, held, a)
	if err != nil {
		return nil, err
	}
	a.Session = s
	w.t.Cleanup(s.Close)
	go func() {
		err := s.Read()
		a.update(func() { a.ended, a.hasEnded = err, true })
	}()
	return a, nil
}

// openAgent opens a session of an agent without an assignment.
func (w *testServer) openAgent(uid uuid.UUID) *testAgent {
	w.t.Helper()
	return w.mustOpenSession(uid, nil, nil)
}

// update calls fn under the test agent's lock, and wakes goroutines waiting for recorded messages.
func (a *testAgent) update(fn func()) {
	a.mu.Lock()
	fn()
	a.mu.Unlock()
	a.changed.Broadcast()
}

// wait waits until the given condition on the recorded messages is true.
func (a *testAgent) wait(what string, ok func() bool) {
	a.t.Helper()
	timer := time.AfterFunc(time.Minute, func() { a.update(func() { what = "too long: " + what }) })
	defer timer.Stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	for !ok() {
		if len(what) > 9 && what[:9] == "too long:" {
			a.t.Fatalf("%s: acks %v, refused %v, ended %v", what, a.acks, a.refused, a.ended)
		}
		a.changed.Wait()
	}
}

// OpenedSession records the server's first message, Welcome.
func (a *testAgent) OpenedSession(_ *link.Session, w *wire.Welcome) { a.welcome = *w }

// Assigned records the assignment that the test agent has received.
func (a *testAgent) Assigned(_ *link.Session, h *link.Assignment) {
	a.update(func() { a.assignments = append(a.assignments, h) })
}

// requestRun requests an ad-hoc run of a check.
func (w *testServer) requestRun(node model.NodeID, definition model.DefinitionID) error {
	return w.server.RequestRun(w.server.NewRuns(), node, wire.Run{Definition: definition})
}

// Reply records the secret values that the test agent has received.
func (a *testAgent) Reply(_ *link.Session, x *wire.Exchange) {
	a.update(func() {
		for _, g := range x.SecretsReply.Values {
			g.Value = slices.Clone(g.Value)
			a.secrets = append(a.secrets, g)
		}
	})
}

// RunNow records the ad-hoc run that the server has requested from the test agent.
func (a *testAgent) RunNow(_ *link.Session, r *wire.Run) {
	a.update(func() { a.runs = append(a.runs, *r) })
}

// BackPressure records why the server asked the agent to send less often.
func (a *testAgent) BackPressure(_ *link.Session, m *wire.BackPressure) {
	a.update(func() { a.slowReasons = append(a.slowReasons, m.Reason) })
}

// ServerStops ignores the server's announcement of its stop, because the test agent need not react.
func (a *testAgent) ServerStops(*link.Session, time.Duration, string) {}

// Acked records the acknowledgements and refusals that the test agent has received.
func (a *testAgent) Acked(_ *link.Session, ack *wire.Ack) {
	a.update(func() {
		for _, l := range ack.Last {
			a.acks[l.StreamKey] = max(l.Last, a.acks[l.StreamKey])
		}
		a.refused = append(a.refused, ack.Refused...)
	})
}

// expectRefused compares the results that the server has refused so far with the expected list. An entry is sequence
// number and code.
func (a *testAgent) expectRefused(want ...string) {
	a.t.Helper()
	var got []string
	for _, r := range a.refused {
		got = append(got, fmt.Sprint(r.Number, " ", r.Code))
	}
	if !slices.Equal(got, want) {
		a.t.Fatalf("refused %q, want %q", got, want)
	}
}

// waitAssignment waits for the nth assignment and returns the assignment.
func (a *testAgent) waitAssignment(n int) *link.Assignment {
	a.t.Helper()
	a.wait(fmt.Sprintf("assignment %d", n), func() bool { return len(a.assignments) == n })
	return a.assignments[n-1]
}

// waitAck waits until the server has acknowledged the live results up to a sequence number.
func (a *testAgent) waitAck(last uint64) {
	a.t.Helper()
	a.wait(fmt.Sprintf("ack of %d", last), func() bool { return a.acks[liveStream] >= last })
}

// refusal waits for the end of the session and returns the server's Refuse message.
func (a *testAgent) refusal() wire.Refuse {
	a.t.Helper()
	a.wait("refusal", func() bool { return a.hasEnded })
	return refusalOf(a.t, a.ended)
}

// refusalOf returns the Refuse message that an error contains, or fails the test.
func refusalOf(t testing.TB, err error) wire.Refuse {
	t.Helper()
	var r *link.RefusedError
	if !errors.As(err, &r) {
		t.Fatalf("got %v, want a refusal", err)
	}
	return r.Refuse
}

// resultBatch returns a batch with n results of one check, numbered from `first` on.
func resultBatch(first uint64, n int, definition model.DefinitionID) *wire.Batch {
	b := &wire.Batch{StreamKey: liveStream, First: first}
	for range n {
		b.Signals = append(b.Signals, wire.ResultSignal(wire.Signal{Definition: definition}, wire.Result{Output: []byte("all is well")}))
	}
	return b
}

// send sends a batch of results to the server as the test agent.
func (a *testAgent) send(b *wire.Batch) {
	a.t.Helper()
	testenv.NoError(a.t, a.Send(b))
}

// countMetric returns the value of the counter muster_session_NAME for one label value.
func (w *testServer) countMetric(name, label string) float64 {
	families, _ := w.metrics.Gather()
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == "muster_session_"+name && (label == "" || m.Label[0].GetValue() == label) {
				return m.Counter.GetValue()
			}
		}
	}
	return 0
}

// checkOutcomes expects the metrics to show exactly one outcome for each message that the server received. A
// message may be counted before its outcome.
func (w *testServer) checkOutcomes() {
	w.t.Helper()
	testenv.Until(w.t, "every message received has one outcome", func() bool {
		sum := 0.0
		for i := range w.server.metrics.frames {
			sum += testutil.ToFloat64(w.server.metrics.frames[i])
		}
		return testutil.ToFloat64(w.server.metrics.Received) == sum
	})
}

// memoryNodes keeps the nodes of a test in memory.
type memoryNodes struct {
	mu      sync.Mutex
	nodes   map[uuid.UUID]core.Node
	limits  map[model.NamespaceID]core.NamespaceLimits
	retired map[uuid.UUID]Retirement
}

// newMemoryNodes returns an empty memoryNodes.
func newMemoryNodes() *memoryNodes {
	return &memoryNodes{nodes: map[uuid.UUID]core.Node{}, limits: map[model.NamespaceID]core.NamespaceLimits{}, retired: map[uuid.UUID]Retirement{}}
}

// change calls fn under the lock, so that fn can change the test's nodes.
func (m *memoryNodes) change(fn func()) { m.mu.Lock(); defer m.mu.Unlock(); fn() }

// setNode adds a node to the test's nodes, or replaces the node with the same uid.
func (m *memoryNodes) setNode(uid uuid.UUID, n core.Node) { m.change(func() { m.nodes[uid] = n }) }

// retire removes a node and records why its machine is refused from now on.
func (m *memoryNodes) retire(uid uuid.UUID, r Retirement) {
	m.change(func() { m.retired[uid] = r; delete(m.nodes, uid) })
}

// setLimits sets the rate limits of a test namespace.
func (m *memoryNodes) setLimits(id model.NamespaceID, l core.NamespaceLimits) {
	m.change(func() { m.limits[id] = l })
}

// Lookup returns the test node with the given uid (the identity in its certificate).
func (m *memoryNodes) Lookup(uid uuid.UUID) (n core.Node, ok bool) {
	m.change(func() { n, ok = m.nodes[uid] })
	return n, ok
}

// Retirement returns why the test has retired the node of a machine, the reason for refusals.
func (m *memoryNodes) Retirement(uid uuid.UUID, _ string) (r Retirement) {
	m.change(func() { r = m.retired[uid] })
	return r
}

// FirstKey records the first public key with which a test node connects. If another node already has the key,
// it returns the name of that node.
func (m *memoryNodes) FirstKey(uid uuid.UUID, key string) (onRecord, holder string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.nodes[uid]
	if n.Key == "" {
		for _, other := range m.nodes {
			if other.Key == key {
				return "", other.Name
			}
		}
		n.Key = key
		m.nodes[uid] = n
	}
	return n.Key, ""
}

// RecordAgent ignores the facts and labels in a Hello message, because the tests do not read the data.
func (m *memoryNodes) RecordAgent(core.Node, *wire.Hello) (string, string) { return "", "" }

// Namespace returns the rate limits that the test has set for a namespace.
func (m *memoryNodes) Namespace(id model.NamespaceID) (l core.NamespaceLimits) {
	m.change(func() { l = m.limits[id] })
	l.Namespace = fmt.Sprint("namespace", id)
	return l
}

// memoryPlan is a fake planner that keeps the assignments of test nodes in memory.
type memoryPlan struct {
	mu          sync.Mutex
	assignments map[model.NodeID]*directory.Assignment
	definitions map[model.DefinitionID]*model.Definition
	revision    uint64
	notify      func(directory.Change)
}

// newMemoryPlan returns an empty memoryPlan.
func newMemoryPlan() *memoryPlan {
	return &memoryPlan{assignments: map[model.NodeID]*directory.Assignment{}, definitions: map[model.DefinitionID]*model.Definition{}}
}

// assign assigns the given compiled checks to a test node, and notifies the server of the change.
func (m *memoryPlan) assign(node model.NodeID, uid uuid.UUID, ids ...model.DefinitionID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revision++
	a := &directory.Assignment{Node: node, UID: uid, Generation: wire.Generation{Epoch: 1, Revision: m.revision}}
	slices.Sort(ids)
	for _, id := range ids {
		if m.definitions[id] == nil {
			c := &model.CheckDefinition{Definition: model.Definition{ID: id, Unit: model.FirstCheck, Namespace: model.DefaultNamespace, Name: fmt.Sprint("check", id)}, Command: &model.Command{Shell: "true"}, Interval: time.Minute, FailAfter: 1, RecoverAfter: 1}
			c.Hash = wire.DefinitionHash(wire.AppendDefinition(nil, c.ToDefinition()))
			m.definitions[id] = &c.Definition
		}
		a.Definitions = append(a.Definitions, m.definitions[id])
	}
	a.Hash = wire.AssignmentHash(a.Definitions, nil, nil)
	m.assignments[node] = a
}

// setSecrets makes the first check of a node require the given secrets.
func (m *memoryPlan) setSecrets(node model.NodeID, list ...model.DefinitionSecret) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := *m.assignments[node]
	c := *a.Definitions[0].AsCheck()
	c.Secrets = list
	a.Definitions = []*model.Definition{c.ToDefinition()}
	m.assignments[node] = &a
}

// AssignmentOf returns the assignment (checks and Templates) of a test node.
func (m *memoryPlan) AssignmentOf(node model.NodeID) *directory.Assignment {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.assignments[node]
}

// Definition returns the compiled check with a given id.
func (m *memoryPlan) Definition(id model.DefinitionID) *model.Definition {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.definitions[id]
}

// Subscribe stores the function that the fake planner calls after each change of an assignment.
func (m *memoryPlan) Subscribe(fn func(directory.Change)) { m.notify = fn }

// memoryJournal is a fake journal in memory that also knows each node's last committed sequence numbers.
// pauseCommits holds commits back.
type memoryJournal struct {
	journal.Journal // nil: sessions call no other methods
	mu              sync.Mutex
	changed         *sync.Cond
	queue           []journal.Entry
	entries         [][]byte
	marks           []wire.SessionRecord
	last            map[model.NodeID]map[wire.StreamKey]uint64
	number          uint64
	paused          bool
	commitError     error // error of the commits of queued entries
	refusesAppends  bool  // to queue
	stats           journal.Stats
	closed          bool
	done            chan struct{}
	admit           func(model.NodeID, *model.CheckDefinition) (string, string)
}

// newMemoryJournal returns an empty journal in memory that commits in the background.
func newMemoryJournal() *memoryJournal {
	j := &memoryJournal{last: map[model.NodeID]map[wire.StreamKey]uint64{}, done: make(chan struct{})}
	j.changed = sync.NewCond(&j.mu)
	go j.run()
	return j
}

// run commits queued entries until Close.
func (j *memoryJournal) run() {
	defer close(j.done)
	for {
		j.mu.Lock()
		for !j.closed && (len(j.queue) == 0 || j.paused) {
			j.changed.Wait()
		}
		if j.closed {
			j.mu.Unlock()
			return
		}
		commit, err := j.queue, j.commitError
		j.queue = nil
		j.number++
		at := journal.Position{Log: 1, Number: j.number}
		for _, e := range commit {
			if err == nil {
				j.apply(e.Data)
			}
		}
		j.mu.Unlock()
		j.changed.Broadcast()
		for _, e := range commit {
			if e.Waiter != nil {
				e.Waiter.Committed(e.Token, at, err)
			}
		}
	}
}

// apply reads a journal entry and updates the last sequence numbers and the session records.
func (j *memoryJournal) apply(data []byte) {
	j.entries = append(j.entries, data)
	var r wire.Record
	if err := r.Decode(data); err != nil {
		panic(err)
	}
	switch r.Kind {
	case wire.RecordSession:
		j.marks = append(j.marks, *r.Session)
	case wire.RecordBatch:
		var b wire.Batch
		if err := b.Decode(r.Batch); err != nil {
			panic(err)
		}
		if j.last[r.Node] == nil {
			j.last[r.Node] = map[wire.StreamKey]uint64{}
		}
		last := b.First + uint64(len(b.Signals)) - 1
		if b.Gap != nil {
			last = b.Gap.Last
		}
		j.last[r.Node][b.StreamKey] = max(last, j.last[r.Node][b.StreamKey])
	}
}

// update calls fn under the fake journal's lock, and wakes the goroutine that commits.
func (j *memoryJournal) update(fn func()) { j.mu.Lock(); fn(); j.mu.Unlock(); j.changed.Broadcast() }

// pauseCommits pauses or resumes commits of the test journal.
func (j *memoryJournal) pauseCommits(on bool) { j.update(func() { j.paused = on }) }

// queued returns how many entries wait for a commit.
func (j *memoryJournal) queued() int { j.mu.Lock(); defer j.mu.Unlock(); return len(j.queue) }

// Append queues copies of entries for the next commit of the fake journal.
func (j *memoryJournal) Append(_ context.Context, entries ...journal.Entry) error {
	for i := range entries {
		entries[i].Data = slices.Clone(entries[i].Data)
	}
	j.mu.Lock()
	closed := j.closed || j.refusesAppends
	if !j.refusesAppends {
		j.queue = append(j.queue, entries...)
	}
	j.mu.Unlock()
	j.changed.Broadcast()
	if closed {
		return journal.ErrClosed
	}
	return nil
}

// LastNumbers returns the last committed sequence numbers of a node.
func (j *memoryJournal) LastNumbers(_ context.Context, node model.NodeID, _ journal.Position) (list []wire.StreamLast, _ error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for k, n := range j.last[node] {
		list = append(list, wire.StreamLast{StreamKey: k, Last: n})
	}
	return list, nil
}

// Admit lets a function of the test decide whether a result may create a new event.
func (j *memoryJournal) Admit(node model.NodeID, c *model.CheckDefinition) (string, string) {
	if j.admit != nil {
		return j.admit(node, c)
	}
	return "", ""
}

// Incarnation returns a constant incarnation, because the fake journal never loses its history.
func (j *memoryJournal) Incarnation() journal.Incarnation {
	return journal.Incarnation{ID: 42, Epoch: 1}
}

// Stats returns the journal statistics that the test has set.
func (j *memoryJournal) Stats() journal.Stats { j.mu.Lock(); defer j.mu.Unlock(); return j.stats }

// Close commits the queued entries, and ends the fake journal's goroutine.
func (j *memoryJournal) Close() error {
	j.update(func() { j.closed = true })
	<-j.done
	return nil
}
