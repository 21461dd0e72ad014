package react

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
)

// patience is how long a test waits for what must happen. No test waits it out.
const patience = 30 * time.Second

// names is a small fleet: node 10 is web01, check 1001 is disk.
type names struct {
	mu       sync.Mutex
	chunk    model.CheckChunk
	handlers map[string]*model.HandlerSpec
	props    map[string]string // "NODE/NAME" to a JSON value
	defaults []string          // of the namespace
	gone     bool              // web01 and disk are deleted

	keepalive func(*model.CheckChunk) // whom nodes name
}

func someNames(handlers map[string]*model.HandlerSpec) *names {
	n := &names{handlers: handlers}
	n.chunk = model.CheckChunk{Chunk: model.Chunk{ID: 3, Unit: 1001, Namespace: 1, Name: "disk"}}
	for name := range handlers {
		n.chunk.Handlers = append(n.chunk.Handlers, name)
	}
	return n
}

func (n *names) NodeName(id model.NodeID) (string, string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gone {
		return "", "", false
	}
	return "default", fmt.Sprintf("web%02d", id-9), true
}

func (n *names) NodeLabels(model.NodeID) map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gone {
		return nil
	}
	return map[string]string{"env": "prod"}
}

func (n *names) NodeFacts(model.NodeID) map[string]string { return nil }

func (n *names) NodeGroups(model.NodeID) []string { return []string{"web", "shared/all"} }

func (n *names) SourceName(s model.Source) (string, string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.Kind != model.SourceCheck {
		return "default", fmt.Sprint("rule", s.ID), true
	}
	return "default", "disk", !n.gone
}

func (n *names) NamespaceName(id model.NamespaceID) (string, bool) {
	return map[model.NamespaceID]string{1: "default", 2: "shared"}[id], id == 1 || id == 2
}

func (n *names) NamespaceHandlers(string) []string { return n.defaults }

func (n *names) CheckChunk(id model.ChunkID) *model.CheckChunk {
	if builtin := model.BuiltinChunkOf(id); builtin != nil {
		return builtin
	}
	return &n.chunk
}

func (n *names) Keepalive(model.NodeID) *model.CheckChunk {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := model.BuiltinChunkOf(model.BuiltinChunk(model.KeepaliveCheck))
	if n.keepalive != nil {
		n.keepalive(c)
	}
	return c
}

func (n *names) Handler(_, name string) (*model.HandlerSpec, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	spec, ok := n.handlers[name]
	return spec, ok
}

func (n *names) NodeProperties(id model.NodeID) model.PropertyValues {
	return func(name string) ([]byte, string, bool) {
		n.mu.Lock()
		defer n.mu.Unlock()
		value, ok := n.props[fmt.Sprint(id, "/", name)]
		return []byte(value), "", ok
	}
}

func (n *names) set(name string, spec *model.HandlerSpec) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.handlers[name] = spec
}

// hooked is a real store that a test can hold up, and that says what happened.
type hooked struct {
	history.Store
	record func(history.Batch) error // before
	failed func(history.Batch) error // after
	tried  chan history.Attempt
	wrote  chan struct{} // capacity 1
}

func (h *hooked) Record(ctx context.Context, b history.Batch) error {
	if h.record != nil {
		if err := h.record(b); err != nil {
			return err
		}
	}
	err := h.Store.Record(ctx, b)
	if err == nil && h.failed != nil {
		err = h.failed(b)
	}
	select {
	case h.wrote <- struct{}{}:
	default:
	}
	return err
}

func (h *hooked) RecordAttempts(ctx context.Context, list ...history.Outcome) error {
	err := h.Store.RecordAttempts(ctx, list...)
	for _, o := range list {
		if err == nil && h.tried != nil {
			h.tried <- o.Attempt
		}
	}
	return err
}

func openStore(t testing.TB, dsn string) *hooked {
	t.Helper()
	s, err := history.Open(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return &hooked{Store: s, tried: make(chan history.Attempt, 10_000), wrote: make(chan struct{}, 1)}
}

func sqlite(t testing.TB) *hooked { return openStore(t, filepath.Join(t.TempDir(), "history.db")) }

// running is a reactor at work.
type running struct {
	*Reactor
	t    testing.TB
	stop func()
}

func run(t testing.TB, o Options, before ...func(*Reactor)) *running {
	t.Helper()
	o.Retention = 100 * 365 * 24 * time.Hour // tests live in the past
	o.retryFirst, o.shutdownWait = time.Millisecond, cmp.Or(o.shutdownWait, 100*time.Millisecond)
	r := New(o)
	if err := r.Load(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
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
	return &running{Reactor: r, t: t, stop: stop}
}

// recorded waits until the store has everything up to at.
func (r *running) recorded(at journal.Position) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.Recorded(ctx, at); err != nil {
		r.t.Fatal("not recorded in time")
	}
}

func receive[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("no %s in time", what)
		panic("unreachable")
	}
}

func pos(number uint64) journal.Position { return journal.Position{Log: 9, Number: number} }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func changed(p model.Partition, commit uint64, index uint32) event.Transition {
	return event.Transition{
		At: pos(commit), Index: index, Partition: p, Kind: event.StatusChanged, Node: 10, Namespace: 1, Source: model.CheckSource(1001), Chunk: 3,
		Status: model.Critical, Received: noon.Add(time.Duration(commit) * time.Second).UnixNano(),
		Executed: noon.UnixNano(), Output: fmt.Sprintf("%d/%d/%d", p, commit, index),
	}
}

func opening(id string, commit uint64) event.Transition {
	t := changed(1, commit, 0)
	t.Kind, t.Severity, t.Output = event.ProblemOpened, model.High, "disk 97% full | used=97%"
	t.Problem = &model.Problem{
		ID: id, NodeID: 10, Source: model.CheckSource(1001), Chunk: 3, Status: model.Critical, Severity: model.High,
		Opened: time.Unix(0, t.Received), Output: t.Output,
	}
	return t
}

func closing(id string, commit uint64) event.Transition {
	t := opening(id, commit-1)
	t.At, t.Kind, t.Status, t.Previous, t.Output = pos(commit), event.ProblemClosed, model.OK, model.Critical, "disk 40% full"
	p := *t.Problem
	p.Closed = noon.Add(time.Duration(commit) * time.Second)
	t.Problem, t.Received = &p, p.Closed.UnixNano()
	return t
}

// stateOf returns the state of an open problem's source, with a status that may be below the problem's worst.
func stateOf(p *model.Problem, status model.Status) *event.Transition {
	return &event.Transition{
		Node: p.NodeID, Source: p.Source, Chunk: p.Chunk, Namespace: 1, Status: status, Severity: p.Severity, Output: p.Output, Problem: p,
	}
}

// post is what a webhook got.
type posted struct {
	key  string
	body string
	uri  string
}

// hook is a webhook that tells the test what it got and answers as the test says.
func hook(t testing.TB, answer func(posted) int) (*model.HandlerSpec, chan posted) {
	t.Helper()
	got := make(chan posted, 10_000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		p := posted{key: r.Header.Get("Idempotency-Key"), body: string(body), uri: r.RequestURI}
		got <- p
		if answer != nil {
			w.WriteHeader(answer(p))
		}
	}))
	t.Cleanup(server.Close)
	return &model.HandlerSpec{Webhook: &model.Webhook{URL: server.URL}}, got
}
