package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/testenv"
)

// maxWait is how long a test waits for what must happen. No test waits it out.
const maxWait = 30 * time.Second

// testDirectory replaces the directory in tests, with one node (10, web01) and one check (1001, disk).
type testDirectory struct {
	mu         sync.Mutex
	definition model.CheckDefinition
	handlers   map[string]*model.HandlerSpec
	props      map[string]string // "NODE/NAME" to a JSON value
	defaults   []string          // handlers of the namespace
	unit       *directory.Unit   // the check disk as it is declared now; nil: it is deleted
	gone       bool              // the node web01 and disk are deleted

	keepalive func(*model.CheckDefinition) // sets the handlers and pipelines that nodes name for their keepalive
}

// newTestDirectory returns a directory for tests, in which the check disk names the given handlers.
func newTestDirectory(handlers map[string]*model.HandlerSpec) *testDirectory {
	n := &testDirectory{handlers: handlers}
	n.definition = model.CheckDefinition{Definition: model.Definition{ID: 3, Unit: 1001, Namespace: 1, Name: "disk"}}
	for name := range handlers {
		n.definition.Handlers = append(n.definition.Handlers, name)
	}
	return n
}

// NodeName returns the name web01 for test node 10, or no name after the test deleted the node.
func (n *testDirectory) NodeName(id model.NodeID) (string, string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gone {
		return "", "", false
	}
	return "default", fmt.Sprintf("web%02d", id-9), true
}

// NodeLabels returns the label env=prod for test node 10, or none after the test deleted the node.
func (n *testDirectory) NodeLabels(model.NodeID) map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gone {
		return nil
	}
	return map[string]string{"env": "prod"}
}

// NodeFacts returns no facts for any test node.
func (n *testDirectory) NodeFacts(model.NodeID) map[string]string { return nil }

// NodeGroups returns the groups web and shared/all for every test node.
func (n *testDirectory) NodeGroups(model.NodeID) []string { return []string{"web", "shared/all"} }

// SourceGroups returns the group web for a test check, and no group for a built-in check.
func (n *testDirectory) SourceGroups(s model.Source) []string {
	if s.Kind != model.SourceCheck || s.Check() < model.FirstCheck {
		return nil
	}
	return []string{"web"}
}

// SourceName returns the name disk for a check, and a name such as rule5 for other problem sources.
func (n *testDirectory) SourceName(s model.Source) (string, string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.Kind != model.SourceCheck {
		return "default", fmt.Sprint("rule", s.ID), true
	}
	return "default", "disk", !n.gone
}

// NamespaceName returns default for namespace 1 and shared for namespace 2
func (n *testDirectory) NamespaceName(id model.NamespaceID) (string, bool) {
	return map[model.NamespaceID]string{1: "default", 2: "shared"}[id], id == 1 || id == 2
}

// NamespaceHandlers returns the handlers that the test has set for the namespace
func (n *testDirectory) NamespaceHandlers(string) []string { return n.defaults }

// CheckDefinition returns the definition of the check disk for every check, and nil for definition id 0 (unknown).
func (n *testDirectory) CheckDefinition(id model.DefinitionID, _ string) *model.CheckDefinition {
	if id == 0 {
		return nil
	}
	if builtin := model.BuiltinDefinitionOf(id); builtin != nil {
		return builtin
	}
	return &n.definition
}

// testUnit is the record of the check disk.
var testUnit = &directory.Unit{DisplayName: "Room on every mount", Runbook: "https://wiki.example.org/disk"}

// SourceUnit returns the one check that the test declared, for every problem source.
func (n *testDirectory) SourceUnit(s model.Source) *directory.Unit {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unit
}

// Keepalive returns the built-in keepalive check with the changes that the test made.
func (n *testDirectory) Keepalive(model.NodeID) *model.CheckDefinition {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := model.BuiltinDefinitionOf(model.BuiltinDefinitionID(model.KeepaliveCheck))
	if n.keepalive != nil {
		n.keepalive(c)
	}
	return c
}

// Handler returns a handler that the test declared, by its namespace and name.
func (n *testDirectory) Handler(_, name string) (*model.HandlerSpec, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	spec, ok := n.handlers[name]
	return spec, ok
}

// NodeProperties returns the properties that the test has set
func (n *testDirectory) NodeProperties(id model.NodeID) model.PropertyValues {
	return func(name string) ([]byte, string, bool) {
		n.mu.Lock()
		defer n.mu.Unlock()
		value, ok := n.props[fmt.Sprint(id, "/", name)]
		return []byte(value), "", ok
	}
}

// change locks the test directory while a function changes its content. The dispatcher cannot read the directory
// meanwhile.
func (n *testDirectory) change(do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	do()
}

// testStore is a real history database whose writes a test can delay or fail. It sends each recorded attempt to the
// test.
type testStore struct {
	history.Store
	beforeRecord func(history.Batch) error // its error replaces the write; nil: every write goes on
	afterRecord  func(history.Batch) error // its error hides the success of a write; nil: none does
	attempts     chan history.Attempt
}

// Record writes a batch to the database, after any delay or failure that the test has set. Before and after the
// write it calls functions that the test has set.
func (h *testStore) Record(ctx context.Context, b history.Batch) error {
	if h.beforeRecord != nil {
		if err := h.beforeRecord(b); err != nil {
			return err
		}
	}
	err := h.Store.Record(ctx, b)
	if err == nil && h.afterRecord != nil {
		err = h.afterRecord(b)
	}
	return err
}

// RecordAttempts writes attempts of deliveries to the database, then passes each attempt to the waiting test.
func (h *testStore) RecordAttempts(ctx context.Context, list ...history.DeliveryAttempt) error {
	err := h.Store.RecordAttempts(ctx, list...)
	for _, o := range list {
		if err == nil && h.attempts != nil {
			h.attempts <- o.Attempt
		}
	}
	return err
}

// stallFirstWrite makes the first write to the database wait until the test closes the channel resume. The
// channel stalled is closed when the write begins.
func (h *testStore) stallFirstWrite() (stalled, resume chan struct{}) {
	stalled, resume = make(chan struct{}), make(chan struct{})
	var once sync.Once
	h.beforeRecord = func(history.Batch) error {
		once.Do(func() { close(stalled); <-resume })
		return nil
	}
	return stalled, resume
}

// expectAttempt waits for the next recorded attempt of a delivery, and compares its state and error.
func (h *testStore) expectAttempt(t testing.TB, state history.DeliveryState, words ...string) {
	t.Helper()
	a := receiveFrom(t, "attempt", h.attempts)
	for _, text := range words {
		if !strings.Contains(a.Error, text) {
			t.Errorf("error of the attempt: %q, expected %q in it", a.Error, text)
		}
	}
	if a.State != state {
		t.Errorf("attempt: %+v, expected state %s", a, state)
	}
}

// openTestStore opens a history database for tests, whose writes a test can delay or fail.
func openTestStore(t testing.TB, dsn string) *testStore {
	t.Helper()
	s, err := history.Open(context.Background(), dsn, history.SizeLimit{})
	testenv.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return &testStore{Store: s, attempts: make(chan history.Attempt, 10_000)}
}

// openSQLiteStore opens a history database on SQLite whose writes a test can delay or fail.
func openSQLiteStore(t testing.TB) *testStore {
	return openTestStore(t, filepath.Join(t.TempDir(), "history.db"))
}

// runningDispatcher is a dispatcher that runs until the test ends.
type runningDispatcher struct {
	*Dispatcher
	t    testing.TB
	stop func()
}

// startDispatcher starts a dispatcher with short pauses for a test, and stops the dispatcher at the end.
func startDispatcher(t testing.TB, o Options, before ...func(*Dispatcher)) *runningDispatcher {
	t.Helper()
	o.Retention = 100 * 365 * 24 * time.Hour // the test time is in the past
	o.retryFirst, o.shutdownWait = time.Millisecond, cmp.Or(o.shutdownWait, 100*time.Millisecond)
	r := New(o)
	testenv.NoError(t, r.Load(context.Background(), nil))
	for _, do := range before {
		do(r)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	var once sync.Once
	stop := func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("run: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return &runningDispatcher{Dispatcher: r, t: t, stop: stop}
}

// waitRecorded waits until history has all event changes up to a journal position.
func (r *runningDispatcher) waitRecorded(at journal.Position) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	if err := r.WaitRecorded(ctx, at); err != nil {
		r.t.Fatal("not recorded in time")
	}
}

// receiveFrom returns the next value of a channel, or fails the test if none comes within maxWait.
func receiveFrom[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(maxWait):
		t.Fatalf("no %s in time", what)
		panic("unreachable")
	}
}

// positionAt returns the position of a commit in the test's journal by the commit's number.
func positionAt(number uint64) journal.Position { return journal.Position{Log: 9, Number: number} }

var testTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// statusTransition returns a status change of check disk on node 10.
func statusTransition(p model.Partition, commit uint64, index uint32) event.Transition {
	return event.Transition{
		At: positionAt(commit), Index: index, Partition: p, Kind: event.StatusChanged, Node: 10, Namespace: 1, Source: model.CheckSource(1001), Definition: 3,
		Status: model.Critical, Received: testTime.Add(time.Duration(commit) * time.Second).UnixNano(),
		Executed: testTime.UnixNano(), Output: fmt.Sprintf("%d/%d/%d", p, commit, index),
	}
}

// openingTransition returns the event change by which a test problem opens.
func openingTransition(id string, commit uint64) event.Transition {
	t := statusTransition(1, commit, 0)
	t.Kind, t.Severity, t.Output = event.ProblemOpened, model.High, "disk 97% full | used=97%"
	t.Problem = &model.Problem{
		ID: id, NodeID: 10, Source: model.CheckSource(1001), Definition: 3, Status: model.Critical, Severity: model.High,
		Opened: time.Unix(0, t.Received), Output: t.Output,
	}
	return t
}

// closingTransition returns the event change by which a test problem closes.
func closingTransition(id string, commit uint64) event.Transition {
	t := openingTransition(id, commit-1)
	t.At, t.Kind, t.Status, t.Previous, t.Output = positionAt(commit), event.ProblemClosed, model.OK, model.Critical, "disk 40% full"
	p := *t.Problem
	p.Closed = testTime.Add(time.Duration(commit) * time.Second)
	t.Problem, t.Received = &p, p.Closed.UnixNano()
	return t
}

// newProblem returns a critical test problem of the check disk on a node.
func newProblem(id string, node model.NodeID, opened time.Time) *model.Problem {
	return &model.Problem{ID: id, NodeID: node, Source: model.CheckSource(1001), Definition: 3,
		Status: model.Critical, Severity: model.High, Opened: opened, Output: "bad"}
}

// stateOf returns the event of a given open problem with a given present status, for tests. Its status may be
// less bad than the problem's worst.
func stateOf(p *model.Problem, status model.Status) *event.Transition {
	return &event.Transition{
		Node: p.NodeID, Source: p.Source, Definition: p.Definition, Namespace: 1, Status: status, Severity: p.Severity, Output: p.Output, Problem: p,
	}
}

// webhookRequest is a request that a webhook received.
type webhookRequest struct {
	key  string
	body string
	uri  string
}

// newWebhookDirectory returns a test directory, in which the check disk notifies a new webhook, and the
// webhook's requests. It also returns the channel of requests to the webhook.
func newWebhookDirectory(t testing.TB, handler string, answer func(webhookRequest) int) (*testDirectory, chan webhookRequest) {
	t.Helper()
	spec, requests := newWebhook(t, answer)
	return newTestDirectory(map[string]*model.HandlerSpec{handler: spec}), requests
}

// newWebhook returns a webhook handler for a test server, and the channel of the received requests. If answer
// is nil, the webhook answers with status 200.
func newWebhook(t testing.TB, answer func(webhookRequest) int) (*model.HandlerSpec, chan webhookRequest) {
	t.Helper()
	got := make(chan webhookRequest, 10_000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		p := webhookRequest{key: r.Header.Get("Idempotency-Key"), body: string(body), uri: r.RequestURI}
		got <- p
		if answer != nil {
			w.WriteHeader(answer(p))
		}
	}))
	t.Cleanup(server.Close)
	return &model.HandlerSpec{Webhook: &model.Webhook{URL: server.URL}}, got
}
