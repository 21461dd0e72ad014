package rederive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/dispatch"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/memfs"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/store/snapshot"
	"github.com/muster-fleet/muster/internal/testenv"
)

// testDirectory is a directory of the test nodes and checks. No check has a handler.
type testDirectory struct{}

// NodeName returns a test name with the node's id.
func (testDirectory) NodeName(id model.NodeID) (string, string, bool) {
	return "default", fmt.Sprint("node-", id), true
}

// NodeLabels returns no labels, because the test's nodes have none.
func (testDirectory) NodeLabels(model.NodeID) map[string]string { return nil }

// NodeFacts returns no facts, because the test's nodes have none.
func (testDirectory) NodeFacts(model.NodeID) map[string]string { return nil }

// NodeGroups returns no groups, because the test's nodes are in none.
func (testDirectory) NodeGroups(model.NodeID) []string { return nil }

// NodeProperties returns no properties, because the test's nodes have none.
func (testDirectory) NodeProperties(model.NodeID) model.PropertyValues {
	return func(string) ([]byte, string, bool) { return nil, "", false }
}

// SourceGroups returns no groups, because the test's checks name none.
func (testDirectory) SourceGroups(model.Source) []string { return nil }

// SourceName returns a placeholder as the name of each check (source of events) in the test.
func (testDirectory) SourceName(s model.Source) (string, string, bool) {
	return "default", s.PlaceholderName(), true
}

// NamespaceName returns the name default for every namespace.
func (testDirectory) NamespaceName(model.NamespaceID) (string, bool) { return "default", true }

// NamespaceHandlers returns no default handlers of a namespace, because the test sends no messages.
func (testDirectory) NamespaceHandlers(string) []string { return nil }

// Handler returns no handler, because the test needs none.
func (testDirectory) Handler(string, string) (*model.HandlerSpec, bool) { return nil, false }

// CheckDefinition returns the compiled test check with the given definition id.
func (testDirectory) CheckDefinition(id model.DefinitionID, _ string) *model.CheckDefinition {
	return testDefinition(id)
}

// SourceUnit returns nil, because the test's checks have no declared resource.
func (testDirectory) SourceUnit(model.Source) *directory.Unit { return nil }

// Keepalive returns no keepalive check, because the test needs none.
func (testDirectory) Keepalive(model.NodeID) *model.CheckDefinition { return nil }

// failingStore is a SQLite history store with writes that fail on demand of the test. Writes fail while the
// field down is true.
type failingStore struct {
	history.Store
	down atomic.Bool
}

// Record records a batch of event changes in history, or fails during a simulated outage.
func (s *failingStore) Record(ctx context.Context, b history.Batch) error {
	if s.down.Load() {
		return errors.New("the disk of the database is away")
	}
	return s.Store.Record(ctx, b)
}

// testServer connects a journal, event states, a dispatcher and a history store for a test. Its limits are so small
// that history falls behind.
type testServer struct {
	*journalLife
	dispatcher *dispatch.Dispatcher
	history    *failingStore
	expected   []event.Transition // transitions of a view that never falls behind
}

// newTestServer starts a test server with limits on its journal and its queue. budget limits the journal, queued the
// queue of transitions, both in bytes.
func newTestServer(t *testing.T, budget, queued int64) *testServer {
	t.Helper()
	db := testenv.Value(history.Open(t.Context(), filepath.Join(t.TempDir(), "history.db"), history.SizeLimit{}))(t)
	s := &testServer{history: &failingStore{Store: db}}
	fast := event.New(shard.New(shardOptions()), event.Options{Emit: func(ts []event.Transition) { s.expected = append(s.expected, ts...) }})
	var live *event.View
	built := make(chan struct{}) // closed once the view exists; the journal's ticks wait for that
	fs := memfs.New()
	s.journalLife = openJournalLife(t, fs, journal.Options{FS: fs, Tick: 50 * time.Millisecond, Reserve: -1, Budget: budget, MaxCommit: 16 << 10, QueueBytes: 64 << 10, Deliver: func(c journal.Commit) {
		<-built
		if err := fast.Apply(copyCommit(t, c)); err != nil {
			t.Error(err)
		}
		live.Deliver(c)
	}})
	s.dispatcher = dispatch.New(dispatch.Options{
		Store: s.history, Names: testDirectory{}, Journal: s.log, Batches: dispatch.BatchOptions{Capacity: queued, Size: 25}, Retention: 100 * 365 * 24 * time.Hour,
		Rederive: func() (dispatch.Replay, error) { return s.BeginReplay() }, Queues: &queue.Registry{},
	})
	o := shardOptions()
	o.Workers = 2
	live = event.New(shard.New(o), event.Options{Emit: s.dispatcher.Emit})
	s.Live = live
	close(built)
	testenv.NoError(t, s.dispatcher.Load(t.Context(), nil))
	cycle := &snapshot.PeriodicSaver{
		Store: s.store, View: s.Source, Period: 100 * time.Millisecond,
		Gates: []snapshot.Gate{{Reducer: "events", Wait: func(ctx context.Context, _ model.Partition, at journal.Position) error {
			if err := s.dispatcher.WaitRecorded(ctx, at); !errors.Is(err, dispatch.ErrFarBehind) {
				return err
			}
			return snapshot.ErrSkip
		}}},
		Saved: func() {
			if err := s.log.Cut(s.lowestPosition()); err != nil {
				t.Errorf("cut: %v", err)
			}
		},
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{live.Run, s.dispatcher.Run, cycle.Run} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() {
		stop()
		running.Wait()
		_ = s.log.Close()
		_ = db.Close()
	})
	return s
}

// requireEqualHistory fails the test unless history has exactly the expected changes of events. The right changes were
// computed without any loss.
func (s *testServer) requireEqualHistory(t *testing.T) {
	t.Helper()
	entries := testenv.Value(s.history.Entries(t.Context(), history.EntryQuery{Limit: 1 << 20}))(t)
	var got, want []string
	for _, e := range entries {
		got = append(got, fmt.Sprint(e.Partition, e.Place.At.Number, e.Place.Index, e.NodeID, e.Source, e.Status, e.At.UnixNano(), e.Output))
	}
	problems := testenv.Value(s.history.Problems(t.Context(), history.ProblemQuery{Limit: 1 << 20}))(t)
	for _, p := range problems {
		got = append(got, fmt.Sprint("problem ", p.ID, p.NodeID, p.Source, p.Opened.UnixNano()))
		if !p.Closed.IsZero() {
			got = append(got, fmt.Sprint("closed ", p.ID, p.Closed.UnixNano()))
		}
	}
	for _, x := range s.expected {
		switch x.Kind {
		case event.ProblemOpened:
			want = append(want, fmt.Sprint("problem ", x.Problem.ID, x.Node, x.Source, x.Received))
		case event.ProblemClosed:
			want = append(want, fmt.Sprint("closed ", x.Problem.ID, x.Received))
		default:
			want = append(want, fmt.Sprint(x.Partition, x.At.Number, x.Index, x.Node, x.Source, x.Status, x.Received, x.Output))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("history has %d rows, want %d", len(got), len(want))
	}
	if len(want) < 4000 {
		t.Errorf("only %d changes: nothing is shown", len(want))
	}
}

// TestStoreOutageUntilTheJournalIsFull stops the history store until the journal is full, and expects no lost change
// after the recovery. Once the store answers, the journal is cut behind the replay and accepts records again, and no
// transition is lost.
func TestStoreOutageUntilTheJournalIsFull(t *testing.T) {
	if testing.Short() {
		t.Skip("fills a journal")
	}
	const budget = 2 << 20
	s := newTestServer(t, budget, 64<<10)
	s.history.down.Store(true)
	f := &testFleet{rng: rand.New(rand.NewPCG(1, 1)), clock: &manualClock{}, output: 2000}
	written := make(chan struct{})
	go func() {
		defer close(written)
		f.write(t, s.log, 2000)
	}()
	testenv.Until(t, "the journal is full", func() bool { return errors.Is(s.log.Stats().Blocked, journal.ErrBudget) })
	if lag := s.dispatcher.Lag(); !lag.Overflowed || lag.Bytes < budget/2 || lag.Commits < 50 || lag.Changes == 0 {
		t.Errorf("lag: %+v", lag)
	}
	s.history.down.Store(false)
	<-written
	testenv.Until(t, "history has all", func() bool {
		return s.Live.Applied() == s.log.Head() && s.dispatcher.Lag() == dispatch.Lag{}
	})
	if st := s.log.Stats(); st.WrittenBytes < 4*budget || st.SizeBytes > budget+(64<<10) {
		t.Errorf("%d bytes were written, %d are held: the budget is %d", st.WrittenBytes, st.SizeBytes, budget)
	}
	s.requireEqualHistory(t)
}
