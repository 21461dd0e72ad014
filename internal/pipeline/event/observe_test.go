package event

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Each result, deadline and action of a check with pipelines gives one observation, with the state
// at that moment; other checks give none; a replay gives the same.
func TestEventsWithPipelinesAreObserved(t *testing.T) {
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
	play := func() (observed []Transition) {
		v := run(t, options{Workers: 2, Chunks: func(id model.ChunkID) *model.CheckChunk { return chunks[id] }}, nil)
		for _, c := range commits {
			v.apply(c)
		}
		for _, x := range v.emitted {
			if x.Kind == Observed {
				observed = append(observed, x)
			}
		}
		return observed
	}
	observed, again := play(), play()
	if len(observed) != 5 || len(again) != 5 {
		t.Fatalf("%d, %d: %+v", len(observed), len(again), observed)
	}
	for i, want := range []struct {
		status      model.Status
		occurrences uint32
		output      string
		history     int
	}{{0, 1, "a", 1}, {2, 1, "b", 2}, {2, 2, "c", 3}, {3, 1, "", 4}, {0, 1, "", 5}} {
		s := observed[i].Observation
		if s.Status != want.status || s.Occurrences != want.occurrences || want.output != "" && s.Output != want.output || int(s.HistoryLen) != want.history || s.Check != 1000 {
			t.Errorf("%d: %+v", i, s)
		}
		if i < 3 && string(s.Extra) != string(extra) {
			t.Errorf("%d: %x", i, s.Extra)
		}
		if x := again[i]; x.At != observed[i].At || x.Index != observed[i].Index || x.Observation.History != s.History {
			t.Errorf("%d: %+v, again %+v", i, observed[i], x)
		}
	}
}

// Values without a check are observed where they name pipelines, and only there.
func TestValuesWithoutCheckAreObserved(t *testing.T) {
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
	var observed int
	for _, x := range v.drainEmitted() {
		if x.Kind != Observed {
			continue
		}
		observed++
		if x.Source.Check() != model.MetricsCheck || string(x.Observation.Extra) != string(named) {
			t.Errorf("%+v", x)
		}
	}
	if observed != 2 {
		t.Errorf("%d observations, want 2", observed)
	}
}

// Each status change of a keepalive is observed, with the state at that moment. Observations are
// numbered apart: they change the index of no other transition.
func TestKeepaliveChangesAreObserved(t *testing.T) {
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
	var observed []Transition
	next := map[uint64]uint32{} // by commit
	for _, x := range v.drainEmitted() {
		if x.Kind == Observed {
			if want := uint32(len(observed) % 2); x.Index != want {
				t.Errorf("commit %d: observation %d, want %d", x.At.Number, x.Index, want)
			}
			observed = append(observed, x)
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
	if len(observed) != 2*len(want) {
		t.Fatalf("%d: %+v", len(observed), observed)
	}
	for i, x := range observed {
		w := want[i/2]
		if x.Source.Check() != model.KeepaliveCheck || x.Observation.Status != w.status || (x.Observation.Problem != nil) != w.open || int(x.Observation.HistoryLen) != w.history || x.Observation.Output == "" {
			t.Errorf("%d: %+v %+v", i, x, x.Observation)
		}
	}
}
