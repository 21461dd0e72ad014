package event

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Every result of a check with pipelines is shown as it was at that moment, and those of others
// are not; a deadline and an operator are shown, too; a replay shows the same.
func TestEventsWithPipelinesAreSeen(t *testing.T) {
	chunks := map[model.ChunkID]*model.CheckChunk{
		10: {Chunk: model.Chunk{ID: 10, Unit: 1000, Namespace: 1}, Pipelines: []string{"alerts"}, TTL: time.Minute},
		11: {Chunk: model.Chunk{ID: 11, Unit: 1001, Namespace: 1}},
	}
	var commits []*commit
	number := uint64(0)
	at := time.Duration(0)
	next := func() *commit {
		number++
		at += 10 * time.Second
		c := newCommit(number, at, 0)
		commits = append(commits, c)
		return c
	}
	extra := wire.AppendExtra(nil, &wire.Extra{Values: []model.Value{{Name: "load", Value: 2}}})
	for i, status := range []model.Status{model.OK, model.Critical, model.Critical} {
		next().batch(t, 5, &wire.Batch{StreamKey: wire.StreamKey{Stream: 1}, First: uint64(1 + 2*i), NowMs: 1 << 40, Signals: []wire.Signal{
			wire.ResultSignal(wire.Signal{Chunk: 10, AtMs: 1 << 40}, wire.Result{Status: status, Output: []byte{'a' + byte(i)}, Extra: extra}),
			wire.ResultSignal(wire.Signal{Chunk: 11, AtMs: 1 << 40}, wire.Result{Status: status, Output: []byte("other")})}})
	}
	at += 2 * time.Minute
	next().add(journal.All, &wire.Record{Kind: wire.RecordIntent, Intent: 1})
	next().add(section(5), &wire.Record{Kind: wire.RecordAction, Node: 5, Action: &wire.Action{Verb: "resolve", Check: 1000, By: "ann"}})
	play := func() (seen []Transition) {
		v := run(t, options{Workers: 2, Chunks: func(id model.ChunkID) *model.CheckChunk { return chunks[id] }}, nil)
		for _, c := range commits {
			v.apply(c)
		}
		for _, x := range v.emitted {
			if x.Kind == Seen {
				seen = append(seen, x)
			}
		}
		return seen
	}
	seen, again := play(), play()
	if len(seen) != 5 || len(again) != 5 {
		t.Fatalf("%d, %d: %+v", len(seen), len(again), seen)
	}
	for i, want := range []struct {
		status      model.Status
		occurrences uint32
		output      string
		history     int
	}{{0, 1, "a", 1}, {2, 1, "b", 2}, {2, 2, "c", 3}, {3, 1, "", 4}, {0, 1, "", 5}} {
		s := seen[i].Seen
		if s.Status != want.status || s.Occurrences != want.occurrences || want.output != "" && s.Output != want.output || int(s.HistoryLen) != want.history || s.Check != 1000 {
			t.Errorf("%d: %+v", i, s)
		}
		if i < 3 && string(s.Raw) != string(extra) {
			t.Errorf("%d: %x", i, s.Raw)
		}
		if x := again[i]; x.At != seen[i].At || x.Index != seen[i].Index || x.Seen.History != s.History {
			t.Errorf("%d: %+v, again %+v", i, seen[i], x)
		}
	}
}

// Values of no check are shown where they say to which pipelines, and only then.
func TestValuesOfNoCheckAreSeen(t *testing.T) {
	values := wire.Extra{Values: []model.Value{{Name: "load", Value: 2}}}
	alone := wire.AppendExtra(nil, &values)
	values.Pipelines = []string{"sensu-influx"}
	named := wire.AppendExtra(nil, &values)
	v := run(t, options{Workers: 2}, nil)
	for i, extra := range [][]byte{alone, named, named} {
		c := newCommit(uint64(i+1), time.Duration(i)*time.Second, 0)
		c.batch(t, 5, &wire.Batch{StreamKey: wire.StreamKey{Stream: 1}, First: uint64(1 + i), NowMs: 1 << 40, Signals: []wire.Signal{
			wire.ResultSignal(wire.Signal{Chunk: model.BuiltinChunk(model.MetricsCheck), AtMs: 1 << 40}, wire.Result{Output: []byte("1 value"), Extra: extra})}})
		v.apply(c)
	}
	var seen int
	for _, x := range v.take() {
		if x.Kind != Seen {
			continue
		}
		seen++
		if x.Source.Check() != model.MetricsCheck || string(x.Seen.Raw) != string(named) {
			t.Errorf("%+v", x)
		}
	}
	if seen != 2 {
		t.Errorf("%d are seen", seen)
	}
}

// Each change of a keepalive is shown, as it was at that moment; it moves the number of nothing
// else, and no two of a commit have the same.
func TestChangesOfKeepalivesAreSeen(t *testing.T) {
	mark := func(node model.NodeID, begun, clean bool) *wire.Record {
		return &wire.Record{Kind: wire.RecordSession, Node: node, Session: &wire.SessionMark{Begun: begun, Clean: clean, Session: 7, Namespace: 1, TimeoutMs: 60_000, WarningMs: 30_000}}
	}
	first, late, later, back := newCommit(1, 0, 0), newCommit(2, 31*time.Second, 0), newCommit(3, 62*time.Second, 0), newCommit(4, 70*time.Second, 0)
	for _, node := range []model.NodeID{5, 5 + model.Partitions} { // of one partition
		first.add(section(5), mark(node, true, false))
		back.add(section(5), mark(node, true, false))
	}
	late.add(journal.All, &wire.Record{Kind: wire.RecordIntent, Intent: 1})
	later.add(journal.All, &wire.Record{Kind: wire.RecordIntent, Intent: 2})
	v := run(t, options{Workers: 2}, nil)
	v.apply(first, late, later, back)
	var seen []Transition
	next := map[uint64]uint32{} // by commit
	for _, x := range v.take() {
		if x.Kind == Seen {
			if x.Index != next[x.At.Number]-1 {
				t.Errorf("commit %d: %d after %d", x.At.Number, x.Index, next[x.At.Number])
			}
			seen = append(seen, x)
			continue
		}
		if x.Index != next[x.At.Number] {
			t.Errorf("commit %d: %v has %d, want %d", x.At.Number, x.Kind, x.Index, next[x.At.Number])
		}
		next[x.At.Number]++
	}
	want := []struct {
		status  model.Status
		open    bool
		history int
	}{{model.Warning, true, 2}, {model.Critical, true, 3}, {model.OK, false, 4}}
	if len(seen) != 2*len(want) {
		t.Fatalf("%d: %+v", len(seen), seen)
	}
	for i, x := range seen {
		w := want[i/2]
		if x.Source.Check() != model.KeepaliveCheck || x.Seen.Status != w.status || (x.Seen.Problem != nil) != w.open || int(x.Seen.HistoryLen) != w.history || x.Seen.Output == "" {
			t.Errorf("%d: %+v %+v", i, x, x.Seen)
		}
	}
}
