package event

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestMain runs all tests of the package, with 400 random cases per randomized test, or fewer under -short.
func TestMain(m *testing.M) {
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); !testing.Short() && checks.Value.String() == checks.DefValue {
		_ = checks.Value.Set("400")
	}
	os.Exit(m.Run())
}

var plainCheckDefinitions = func() func(model.DefinitionID) *model.CheckDefinition {
	return func(id model.DefinitionID) *model.CheckDefinition {
		if id < 10 || id > 20 {
			return nil
		}
		c := &model.CheckDefinition{Definition: model.Definition{ID: id, Unit: model.CheckID(990 + id), Namespace: 1}}
		for s := range c.Severities {
			c.Severities[s] = model.DefaultSeverity(model.Status(s))
		}
		return c
	}
}()

// newResultCommit returns a journal commit with one check result.
func newResultCommit(
	t testing.TB, number uint64, node model.NodeID, definition model.DefinitionID, status model.Status, output string,
) *testCommit {
	c := newCommit(number, time.Duration(number)*time.Second, 0)
	c.addBatch(t, node, &wire.Batch{StreamKey: wire.StreamKey{Stream: 1}, First: number, NowMs: 1000, Signals: []wire.Signal{
		wire.ResultSignal(wire.Signal{Definition: definition, AtMs: 1000}, wire.Result{Status: status, Output: []byte(output)})}})
	return c
}

// TestFullQueueBlocksDeliver blocks the receiver of event changes, and expects Deliver to wait until the receiver
// continues
func TestFullQueueBlocksDeliver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		emit := make(chan struct{})
		v := newView(viewOptions{QueueCommits: 1, Definitions: plainCheckDefinitions, Emit: func([]Transition) { <-emit }})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- v.Run(ctx) }()
		delivered := 0
		var mu sync.Mutex
		go func() {
			for n := uint64(1); n <= 4; n++ {
				v.Deliver(newResultCommit(t, n, 1, 10, model.Status(n%2*2), ""))
				mu.Lock()
				delivered++
				mu.Unlock()
			}
		}()
		synctest.Wait() // one is being applied, one waits, the third blocks
		if mu.Lock(); delivered != 2 {
			t.Fatalf("%d commits delivered while reactions stall, want 2", delivered)
		}
		mu.Unlock()
		if got := v.Applied().Number; got != 0 {
			t.Fatalf("commit %d counts as applied before its transitions were taken", got)
		}
		waited := make(chan error, 1)
		go func() { waited <- v.WaitApplied(ctx, journal.Position{Number: 4}) }()
		close(emit)
		if err := <-waited; err != nil {
			t.Fatal(err)
		}
		go func() { waited <- v.WaitApplied(t.Context(), journal.Position{Number: 99}) }()
		synctest.Wait()
		cancel()
		if err := <-waited; !errors.Is(err, shard.ErrStopped) {
			t.Fatalf("waiting for a stopped view: %v", err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		v.Deliver(newResultCommit(t, 5, 1, 10, 0, "")) // nobody applies it; it must not block
		v.Deliver(newResultCommit(t, 6, 1, 10, 0, ""))
		v.Deliver(newResultCommit(t, 7, 1, 10, 0, ""))
	})
}

// TestLastNumbersCoverEveryStream applies several result streams of an agent, and expects the highest sequence
// number of each stream. Of more than MaxStreams streams, only the newest count.
func TestLastNumbersCoverEveryStream(t *testing.T) {
	r := startView(t, viewOptions{Definitions: plainCheckDefinitions}, nil)
	c := newCommit(1, time.Second, 0)
	for stream := range wire.StreamID(shard.MaxStreams + 2) {
		c.addBatch(t, 1, &wire.Batch{StreamKey: wire.StreamKey{Stream: stream}, First: 1, NowMs: 1,
			Signals: []wire.Signal{{Kind: wire.SignalKeepalive}, {Kind: wire.SignalKeepalive}}})
	}
	r.Deliver(c)
	last, err := r.LastNumbers(t.Context(), 1, c.At)
	if err != nil || len(last) != shard.MaxStreams || last[0].Stream != 2 || last[0].Last != 2 {
		t.Fatalf("LastNumbers returns %v and error %v", last, err)
	}
	if last, err := r.LastNumbers(t.Context(), 77, c.At); err != nil || last != nil {
		t.Fatalf("of an unknown node: %v %v", last, err)
	}
}

// TestSlowWatchGetsNewestState changes an event often without reading its watch, and expects only the newest state
func TestSlowWatchGetsNewestState(t *testing.T) {
	r := startView(t, viewOptions{Definitions: plainCheckDefinitions}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	states, err := r.Watch(ctx, Query{Checks: []model.CheckID{1000}})
	if err != nil {
		t.Fatal(err)
	}
	r.apply(newResultCommit(t, 1, 1, 10, model.OK, "first"))
	// The watcher may have read the first already; of the hundred after it the reader
	// sees at most two: the one that waits for it, and the newest.
	for n := uint64(2); n <= 100; n++ {
		r.apply(newResultCommit(t, n, 1, 10, model.OK, "more"))
	}
	c := newResultCommit(t, 101, 1, 10, model.Critical, "last")
	c.addBatch(t, 1, &wire.Batch{StreamKey: wire.StreamKey{Stream: 2}, First: 1, NowMs: 1, Signals: []wire.Signal{
		wire.ResultSignal(wire.Signal{Definition: 11}, wire.Result{Output: []byte("of a check not asked for")})}})
	r.apply(c)
	for seen := 1; ; seen++ {
		s := <-states
		if s.Check != 1000 || seen > 3 {
			t.Fatalf("state %d: %+v", seen, s)
		}
		if s.Output == "last" {
			break
		}
	}
	cancel()
	for range states { // closed
	}
	if _, err := r.Watch(t.Context(), Query{After: "rubbish"}); model.ClassOf(err) != model.Invalid {
		t.Fatalf("a token that is none: %v", err)
	}
}

// TestWatchWithTooManyPendingEventsIsClosed leaves too many events of a watch unread, and expects the view to end the
// watch. A watch is a subscription to changed events.
func TestWatchWithTooManyPendingEventsIsClosed(t *testing.T) {
	const pending = 100
	settings, err := queue.ParseSettings([]string{fmt.Sprint("watch-events=", pending), "watches=1"})
	if err != nil {
		t.Fatal(err)
	}
	queues := queue.NewRegistry(settings)
	v := newView(viewOptions{Definitions: plainCheckDefinitions, Queues: queues})
	w := &watcher{wake: make(chan struct{}, 1), pending: map[eventKey]struct{}{}}
	if err := v.watchers.addWatcher(w); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Watch(t.Context(), Query{}); model.ClassOf(err) != model.Limited || !strings.Contains(err.Error(), "--queues watches=") {
		t.Fatalf("one watch too many: %v", err)
	}
	p := v.partitions[0]
	for n := model.NodeID(1); n <= pending+1; n++ {
		i := p.AddNode(n, 1)
		id, _ := p.addState(i, 1000, "")
		w.queueChange(p, id)
		w.queueChange(p, id)
	}
	for _, q := range queues.List() {
		if q.Name == "watch-events" && (q.Depth != pending || q.Capacity != pending || q.Passed != pending) || q.Name == "watches" && (q.Depth != 1 || q.Overflow != 1) {
			t.Errorf("the list of queues has %+v", q)
		}
	}
	if keys, overrun := w.takeChanges(nil); !overrun || len(keys) != pending {
		t.Fatalf("%d pending, overrun %v", len(keys), overrun)
	}
	w.queueChange(p, 0)
	out := make(chan State)
	v.serveWatch(t.Context(), w, out)
	if got := testutil.ToFloat64(v.metrics.watchEnded); got != 1 {
		t.Fatalf("%v watches ended", got)
	}
}

// TestPageTokenOfOtherIncarnationIsRefused expects an error for a page token from before the journal was restored or
// repaired.
func TestPageTokenOfOtherIncarnationIsRefused(t *testing.T) {
	r := startView(t, viewOptions{Definitions: plainCheckDefinitions}, nil)
	r.apply(newResultCommit(t, 1, 1, 10, 0, ""), newResultCommit(t, 2, 2, 10, 0, ""))
	page, err := r.List(t.Context(), Query{Limit: 1})
	if err != nil || page.Next == "" {
		t.Fatalf("List returns page %+v and error %v", page, err)
	}
	other := newResultCommit(t, 3, 1, 10, 0, "")
	other.At.Log++
	r.apply(other)
	if _, err := r.List(t.Context(), Query{After: page.Next}); model.ClassOf(err) != model.Conflict {
		t.Fatalf("got %v", err)
	}
}

// TestRestoredSnapshotsAreNotReplayed restarts after a planned stop, and expects no journal entry to be applied
// twice. Every snapshot is at the journal's head. Run may have begun before: what was restored is not applied
// again.
func TestRestoredSnapshotsAreNotReplayed(t *testing.T) {
	first := startView(t, viewOptions{Definitions: plainCheckDefinitions}, nil)
	first.apply(newResultCommit(t, 1, 1, 10, 0, ""), newResultCommit(t, 2, 1, 10, 0, ""))
	again := startView(t, viewOptions{Definitions: plainCheckDefinitions, Workers: 2}, nil)
	for p := range model.Partitions {
		body, at := first.Snapshot(model.Partition(p), nil)
		if err := again.Restore(model.Partition(p), at, body); err != nil {
			t.Fatal(err)
		}
	}
	if err := again.WaitApplied(t.Context(), journal.Position{Log: testLog, Number: 2}); err != nil {
		t.Fatal(err)
	}
	again.apply(newResultCommit(t, 2, 1, 10, 0, ""), newResultCommit(t, 3, 1, 10, 0, ""))
	if s, _ := again.Get(1, model.CheckSource(1000)); s.Results != 3 {
		t.Fatalf("%d results, want 3", s.Results)
	}
}

// TestActionOnClosedProblemChangesNothing applies actions on closed problems, and expects no change of the event or a
// later problem. An action that names no problem applies to the open one.
func TestActionOnClosedProblemChangesNothing(t *testing.T) {
	v := startView(t, viewOptions{Workers: 1, Definitions: func(model.DefinitionID) *model.CheckDefinition {
		return &model.CheckDefinition{Definition: model.Definition{ID: 10, Unit: 1000}}
	}}, nil)
	number := uint64(0)
	next := func(result *model.Status, a *wire.Action) State {
		number++
		c := newCommit(number, time.Duration(number)*time.Minute, 0)
		if result != nil {
			c.addBatch(t, 1, &wire.Batch{StreamKey: wire.StreamKey{Stream: 1}, First: number, NowMs: 1 << 40, Signals: []wire.Signal{wire.ResultSignal(wire.Signal{Definition: 10, AtMs: 1 << 40}, wire.Result{Status: *result})}})
		} else {
			c.addRecord(1, &wire.Record{Kind: wire.RecordAction, Node: 1, Action: a})
		}
		v.apply(c)
		s, _ := v.Get(1, model.CheckSource(1000))
		return s
	}
	is := func(s model.Status) State { return next(&s, nil) }
	does := func(verb, problem string) State {
		return next(nil, &wire.Action{Verb: verb, Check: 1000, By: "ann", Problem: problem})
	}
	first := is(model.Critical).Problem.ID
	is(model.OK)
	if s := does("resolve", first); s.Output != "" {
		t.Errorf("resolved though nothing is open: %+v", s)
	}
	second := is(model.Critical).Problem.ID
	for _, verb := range []string{"acknowledge", "resolve", "delete"} {
		if s := does(verb, first); s.Problem == nil || s.Problem.ID != second || s.Problem.Ack != nil {
			t.Errorf("%s of the first problem did something to the second: %+v", verb, s.Problem)
		}
	}
	if s := does("acknowledge", second); s.Problem.Ack == nil {
		t.Error("the second is not acknowledged")
	}
	if s := does("unacknowledge", first); s.Problem.Ack == nil {
		t.Error("the second is no longer acknowledged")
	}
	if s := does("unacknowledge", ""); s.Problem.Ack != nil {
		t.Error("the second is acknowledged still")
	}
	if s := does("resolve", second); s.Problem != nil {
		t.Error("the second is not resolved")
	}
}

// newGoldenView returns a view whose snapshot has at least one element of each kind, for the golden file
func newGoldenView(t testing.TB) *View {
	r := replayCommits(t, map[model.DefinitionID]*model.CheckDefinition{
		10: {Definition: model.Definition{ID: 10, Unit: 1000}, TTL: time.Hour, Severities: [4]model.Severity{0, 2, 4, 3}, Pipelines: []string{"alerts"}},
		11: {Definition: model.Definition{ID: 11, Unit: 1001}},
	}, 1, journal.Position{}, nil, nil)
	c := newCommit(1, time.Minute, time.Hour)
	c.addRecord(1, &wire.Record{Kind: wire.RecordSession, Node: 1, Session: &wire.SessionRecord{
		Session: 0x1122334455667788, Start: true, Namespace: 3, TimeoutMs: 120_000, Backlog: 9}})
	c.addRecord(1, &wire.Record{Kind: wire.RecordForget, Node: 5, Forget: &wire.ForgetRecord{Deleted: true}})
	c.addBatch(t, 1, &wire.Batch{StreamKey: wire.StreamKey{Stream: 0xaabb}, First: 4, NowMs: 5000, Signals: []wire.Signal{
		wire.ResultSignal(wire.Signal{Definition: 10, AtMs: 4000}, wire.Result{DurationMs: 7, Output: []byte("fine")}),
		wire.ResultSignal(wire.Signal{Definition: 10, AtMs: 4500}, wire.Result{Status: model.Critical, Output: []byte("not fine"), Extra: wire.AppendExtra(nil, &wire.Extra{
			Hooks: []model.HookResult{{Name: "top", Output: "PID 1"}}, Values: []model.Value{{Name: "load1", Value: 1.5}}})}),
		wire.ResultSignal(wire.Signal{Definition: 11, AtMs: 4600}, wire.Result{}),
	}})
	c.addRecord(1, &wire.Record{Kind: wire.RecordAction, Node: 1, Action: &wire.Action{
		Verb: "acknowledge", Check: 1000, By: "ann", Note: "on it", Until: 1795300000000}})
	c.addRecord(1, &wire.Record{
		Kind: wire.RecordProxyResult, Node: 7, ProxyResult: proxyResult(12, wire.ResultSignal(wire.Signal{Definition: 11, AtMs: 4900, Node: 7}, wire.Result{Output: []byte("it answers")})),
	})
	r.applyCommits(t, []*testCommit{c})
	return r.View
}

// TestSnapshotMatchesGoldenFile encodes a view's snapshot, and compares the bytes with a golden file.
func TestSnapshotMatchesGoldenFile(t *testing.T) {
	v := newGoldenView(t)
	body, _ := v.Snapshot(1, nil)
	got := hex.Dump(body)
	const golden = "testdata/snapshot-v2.hex"
	testenv.Golden(t, golden, got, "a new SectionVersion")
}

// TestSnapshotOfOtherVersionIsRefused restores snapshots of unknown versions or sections, and expects an error. The
// partition stays empty.
func TestSnapshotOfOtherVersionIsRefused(t *testing.T) {
	body, _ := newGoldenView(t).Snapshot(1, nil)
	name := bytes.Index(body, []byte("events"))
	for want, change := range map[string]func(b []byte){
		"version 2":              func(b []byte) { b[0] = shard.SnapshotVersion + 1 },
		"\"events\" has version": func(b []byte) { b[name+len("events")] = SectionVersion + 1 },
		"\"metric\"":             func(b []byte) { copy(b[name:], "metric") },
	} {
		other := bytes.Clone(body)
		change(other)
		v := newView(viewOptions{})
		if err := v.Restore(1, journal.Position{Log: 1, Number: 1}, other); !errors.Is(err, shard.ErrSnapshot) || !strings.Contains(err.Error(), want) {
			t.Errorf("Restore does not report %q, but error %v", want, err)
		}
		if v.Nodes() != 0 || v.Counts(0).States != 0 {
			t.Errorf("%s: the partition is not empty", want)
		}
	}
}

// FuzzRestore restores random bytes as a snapshot, and expects an error with an empty partition, or no error.
func FuzzRestore(f *testing.F) {
	body, _ := newGoldenView(f).Snapshot(1, nil)
	f.Add(body)
	f.Add(shard.EmptySnapshot())
	f.Add(body[:len(body)/2])
	f.Fuzz(func(t *testing.T, data []byte) {
		v := newView(viewOptions{})
		err := v.Restore(1, journal.Position{Log: 1, Number: 1}, data)
		v.partitions[1].checkIndexes(t)
		if err != nil {
			if n := v.Counts(0).States; n != 0 || v.totals.counter(0).Load() != 0 || v.Nodes() != 0 {
				t.Fatalf("%d states after %v", n, err)
			}
			return
		}
		first := v.Hash(1)
		again, _ := v.Snapshot(1, nil)
		w := newView(viewOptions{})
		if err := w.Restore(1, journal.Position{}, again); err != nil || w.Hash(1) != first {
			t.Fatalf("a snapshot of what was restored is another: %v", err)
		}
	})
}

// TestTombstonesExpireAfterSpoolAge removes checks, and expects tombstones (records of removal) to expire after
// the spool age. Until then, agents' spools may still have results of the checks.
func TestTombstonesExpireAfterSpoolAge(t *testing.T) {
	forget := func(number uint64, after time.Duration) *testCommit {
		c := newCommit(number, time.Second, after)
		c.addRecord(testSection(1), &wire.Record{
			Kind: wire.RecordForget, Node: 1, Forget: &wire.ForgetRecord{Check: model.CheckID(1000 + number)},
		})
		return c
	}
	v := startView(t, viewOptions{}, nil)
	v.apply(forget(1, 0), forget(2, model.MaxSpoolAge))
	if p := v.partitions[1]; p.absent.Len() != 2 {
		t.Fatalf("%d absences, want 2", p.absent.Len())
	}
	body, at := v.Snapshot(1, nil)
	again := startView(t, viewOptions{}, func(v *View) {
		if err := v.Restore(1, at, body); err != nil {
			t.Fatal(err)
		}
	})
	for _, v := range []*runningView{v, again} {
		v.apply(forget(3, shard.TombstoneAge+time.Hour))
		if p := v.partitions[1]; p.absent.Len() != 2 {
			t.Errorf("%d absences, want 2", p.absent.Len())
		}
	}
	if v.Hash(1) != again.Hash(1) {
		t.Error("a restored view holds something else")
	}
}

// TestRemainingNameProtection compares how long the name of a silent node stays reserved with the expected
// times. Another machine may take it over after the keepalive timeout plus the reconnect grace.
func TestRemainingNameProtection(t *testing.T) {
	now := time.Unix(10_000, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	const need = 210 * time.Second
	long := time.Hour
	for name, c := range map[string]struct {
		heard                    time.Duration // ago; zero: never
		silent, stopped          bool
		started, written, awaits time.Duration
	}{
		"silent for long":                    {long, true, false, long, long, 0},
		"silent, within the grace":           {150 * time.Second, true, false, long, long, 60 * time.Second},
		"the server has just started":        {long, true, false, 10 * time.Second, long, 200 * time.Second},
		"the listening clock says otherwise": {long, false, false, long, long, time.Second},
		"stopped on purpose, for a reboot":   {10 * time.Second, false, true, long, long, 200 * time.Second},
		"stopped on purpose, for long":       {long, false, true, long, long, 0},
		"joined, and has not come yet":       {0, false, false, long, 10 * time.Second, 200 * time.Second},
		"never came":                         {0, false, false, long, long, 0},
	} {
		sum := Summary{Silent: c.silent, Stopped: c.stopped}
		if c.heard != 0 {
			sum.LastHeartbeat = ago(c.heard).UnixNano()
		}
		if got := sum.RemainingNameProtection(need, ago(c.started), ago(c.written), now); got != c.awaits {
			t.Errorf("%s: %v, want %v", name, got, c.awaits)
		}
	}
}
