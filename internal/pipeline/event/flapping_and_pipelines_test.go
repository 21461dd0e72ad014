package event

import (
	"fmt"
	"slices"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// sensuReference is a naive model of Sensu's flapping detection, against which the test compares.
type sensuReference struct {
	history                []model.Status
	occurrences, watermark int
	flapping               bool
}

// applyStatus applies one status to the history and the flapping state, as Sensu's documentation describes.
func (x *sensuReference) applyStatus(status model.Status, low, high float64) {
	first, previous := len(x.history) == 0, model.OK
	if !first {
		previous = x.history[len(x.history)-1]
	}
	if x.history = append(x.history, status); len(x.history) > 21 {
		x.history = x.history[1:]
	}
	if !first && status == previous {
		x.occurrences++
	} else {
		x.occurrences = 1
	}
	switch {
	case first, status != model.OK && previous == model.OK:
		x.watermark = 1
	case x.occurrences <= x.watermark:
	default:
		x.watermark++
	}
	if change := x.changePercent(); x.flapping {
		x.flapping = change > low
	} else {
		x.flapping = change >= high
	}
}

// changePercent computes Sensu's weighted percentage of status changes in the last 21 results.
func (x *sensuReference) changePercent() float64 {
	if len(x.history) < 21 {
		return 0
	}
	sum := 0
	for i := range 20 {
		if x.history[i] != x.history[i+1] {
			sum += 80 + 2*i
		}
	}
	return float64(sum / 20)
}

// TestFlappingFollowsSensuDocumentation compares occurrences, watermark and flapping with the formulas in Sensu's
// documentation.
func TestFlappingFollowsSensuDocumentation(outer *testing.T) {
	rapid.Check(outer, func(t *rapid.T) {
		high := rapid.IntRange(2, 100).Draw(t, "start")
		low := rapid.IntRange(0, high-1).Draw(t, "end")
		r := replayCommits(outer, map[model.DefinitionID]*model.CheckDefinition{10: {Definition: model.Definition{ID: 10, Unit: 1000}, FlapStart: uint32(high), FlapEnd: uint32(low)}}, 1, journal.Position{}, nil, nil)
		var want sensuReference
		status := model.OK
		for i := range rapid.IntRange(1, 80).Draw(t, "results") {
			if rapid.IntRange(0, 2).Draw(t, "another") == 0 {
				status = model.Status(rapid.IntRange(0, 3).Draw(t, "status"))
			}
			c := newCommit(uint64(i+1), 0, 0)
			c.addBatch(outer, 1, &wire.Batch{StreamKey: wire.StreamKey{Stream: 1}, First: uint64(i + 1), NowMs: 1 << 40,
				Signals: []wire.Signal{wire.ResultSignal(wire.Signal{Definition: 10, AtMs: 1 << 40}, wire.Result{Status: status, Output: []byte(fmt.Sprint(i))})}})
			r.applyCommits(outer, []*testCommit{c})
			want.applyStatus(status, float64(low), float64(high))
			got, _ := r.View.Get(1, model.CheckSource(1000))
			if int(got.Occurrences) != want.occurrences || int(got.Watermark) != want.watermark ||
				float64(got.Change) != want.changePercent() || got.Flapping != want.flapping {
				t.Fatalf("after %d results: occurrences %d, watermark %d, change %d, flapping %v; documented: %+v with a change of %v",
					i+1, got.Occurrences, got.Watermark, got.Change, got.Flapping, want, want.changePercent())
			}
			if want.flapping && status != model.OK && got.Problem == nil {
				t.Fatalf("it flaps and has no problem")
			}
		}
	})
}

// TestOutputsThatDifferOnlyInNumbersAreEqual compares outputs with different numbers or words, and expects
// equality if only numbers differ.
func TestOutputsThatDifferOnlyInNumbersAreEqual(t *testing.T) {
	for _, test := range []struct {
		a, b string
		same bool
	}{
		{"", "", true}, {"5", "", true}, {"load 1.25, 0.98", "load 11.2, 7", true}, {"a 5", "b 5", false},
		{"5 days", "5 day", false}, {"12:30", "7:05", true}, {"/dev/sda1", "/dev/sdb1", false}, {"x", "", false},
	} {
		if got := differOnlyInNumbers([]byte(test.a), []byte(test.b)); got != test.same || got != differOnlyInNumbers([]byte(test.b), []byte(test.a)) {
			t.Errorf("%q and %q: %v", test.a, test.b, got)
		}
	}
}

// TestEventsWithPipelinesReachPipelines applies results of a check with pipelines, and expects one emitted
// event per result. Expired deadlines and actions also emit the event. A replay emits equal events.
func TestEventsWithPipelinesReachPipelines(t *testing.T) {
	definitions := map[model.DefinitionID]*model.CheckDefinition{
		10: {Definition: model.Definition{ID: 10, Unit: 1000, Namespace: 1}, Pipelines: []string{"alerts"}, TTL: time.Minute},
		11: {Definition: model.Definition{ID: 11, Unit: 1001, Namespace: 1}},
	}
	var commits []*testCommit
	number := uint64(0)
	at := time.Duration(0)
	next := func() *testCommit {
		number++
		at += 10 * time.Second
		c := newCommit(number, at, 0)
		commits = append(commits, c)
		return c
	}
	extra := wire.AppendExtra(nil, &wire.Extra{Values: []model.Value{{Name: "load", Value: 2}}, Sensu: &wire.SensuRun{ExitCode: 127}})
	exitCodes := []uint32{0, 2, 127, 3, 0}
	for i, status := range []model.Status{model.OK, model.Critical, model.Unknown} {
		next().addBatch(t, 5, &wire.Batch{StreamKey: wire.StreamKey{Stream: 1}, First: uint64(1 + 2*i), NowMs: 1 << 40, Signals: []wire.Signal{
			wire.ResultSignal(wire.Signal{Definition: 10, AtMs: 1 << 40}, wire.Result{Status: status, Output: []byte{'a' + byte(i)}, Extra: extra}),
			wire.ResultSignal(wire.Signal{Definition: 11, AtMs: 1 << 40}, wire.Result{Status: status, Output: []byte("other")})}})
	}
	at += 2 * time.Minute
	next().addRecord(journal.All, &wire.Record{Kind: wire.RecordIntent, Intent: wire.IntentRecord{Revision: 1}})
	next().addRecord(testSection(5), &wire.Record{
		Kind: wire.RecordAction, Node: 5, Action: &wire.Action{Verb: "resolve", Check: 1000, By: "ann"},
	})
	play := func() (observed []Transition) {
		v := startView(t, viewOptions{Workers: 2, Definitions: func(id model.DefinitionID) *model.CheckDefinition { return definitions[id] }}, nil)
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
		t.Fatalf("%d observations, %d after replay: %+v", len(observed), len(again), observed)
	}
	for i, want := range []struct {
		status      model.Status
		occurrences uint32
		output      string
		history     int
	}{{0, 1, "a", 1}, {2, 1, "b", 2}, {3, 1, "c", 3}, {3, 2, "", 4}, {0, 1, "", 5}} {
		s := observed[i].Observation
		if s.Status != want.status || s.Occurrences != want.occurrences || want.output != "" && s.Output != want.output || int(s.HistoryLen) != want.history || s.Check != 1000 {
			t.Errorf("observation %d has state %+v", i, s)
		}
		ranAt := s.Executed
		if s.Expired {
			ranAt = s.Received
		}
		if runs := s.Runs; len(runs) != want.history || runs[want.history-1] != (Run{uint32(ranAt / 1e9), exitCodes[i]}) {
			t.Errorf("observation %d has runs %v", i, runs)
		}
		if i < 3 && string(s.Extra) != string(extra) {
			t.Errorf("observation %d has extra fields %x", i, s.Extra)
		}
		if x := again[i]; x.At != observed[i].At || x.Index != observed[i].Index || x.Observation.History != s.History {
			t.Errorf("observation %d is %+v, after replay %+v", i, observed[i], x)
		}
	}
}

// TestValuesWithoutCheckReachPipelines sends values without a check, and expects each pipeline to get the
// values that name the pipeline. Other values go to no pipeline.
func TestValuesWithoutCheckReachPipelines(t *testing.T) {
	values := wire.Extra{Values: []model.Value{{Name: "load", Value: 2}}}
	alone := wire.AppendExtra(nil, &values)
	values.Pipelines = []string{"sensu-influx"}
	named := wire.AppendExtra(nil, &values)
	v := startView(t, viewOptions{Workers: 2}, nil)
	for i, extra := range [][]byte{alone, named, named} {
		c := newCommit(uint64(i+1), time.Duration(i)*time.Second, 0)
		c.addBatch(t, 5, &wire.Batch{StreamKey: wire.StreamKey{Stream: 1}, First: uint64(1 + i), NowMs: 1 << 40, Signals: []wire.Signal{
			wire.ResultSignal(wire.Signal{Definition: model.BuiltinDefinitionID(model.MetricsCheck), AtMs: 1 << 40}, wire.Result{Output: []byte("1 value"), Extra: extra})}})
		v.apply(c)
	}
	var observed int
	for _, x := range v.drainEmitted() {
		if x.Kind != Observed {
			continue
		}
		observed++
		if x.Source.Check() != model.MetricsCheck || string(x.Observation.Extra) != string(named) {
			t.Errorf("unexpected observation %+v", x)
		}
	}
	if observed != 2 {
		t.Errorf("%d observations, want 2", observed)
	}
}

// TestKeepaliveChangesReachPipelines changes the status of a keepalive, and expects pipelines to get each change. The
// event in each change is as it was at that moment. Observations are numbered apart: they change the index of no other
// transition.
func TestKeepaliveChangesReachPipelines(t *testing.T) {
	mark := func(node model.NodeID, begun, clean bool) *wire.Record {
		return &wire.Record{Kind: wire.RecordSession, Node: node, Session: &wire.SessionRecord{Start: begun, Clean: clean, Session: 7, Namespace: 1, TimeoutMs: 60_000, WarningMs: 30_000}}
	}
	first, late, later, back := newCommit(1, 0, 0), newCommit(2, 31*time.Second, 0), newCommit(3, 62*time.Second, 0), newCommit(4, 70*time.Second, 0)
	for _, node := range []model.NodeID{5, 5 + model.Partitions} { // of one partition
		first.addRecord(testSection(5), mark(node, true, false))
		back.addRecord(testSection(5), mark(node, true, false))
	}
	late.addRecord(journal.All, &wire.Record{Kind: wire.RecordIntent, Intent: wire.IntentRecord{Revision: 1}})
	later.addRecord(journal.All, &wire.Record{Kind: wire.RecordIntent, Intent: wire.IntentRecord{Revision: 2}})
	v := startView(t, viewOptions{Workers: 2}, nil)
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
		t.Fatalf("%d observations: %+v", len(observed), observed)
	}
	for i, x := range observed {
		w := want[i/2]
		if x.Source.Check() != model.KeepaliveCheck || x.Observation.Status != w.status || (x.Observation.Problem != nil) != w.open || int(x.Observation.HistoryLen) != w.history || x.Observation.Output == "" {
			t.Errorf("transition %d is %+v with observation %+v", i, x, x.Observation)
		}
	}
}

// TestSlotSizeIsBounded compares the size of the struct for one stored event with a limit.
func TestSlotSizeIsBounded(t *testing.T) {
	if size := unsafe.Sizeof(stateSlot{}); size > 120 {
		t.Errorf("%d bytes per state, at most 120", size)
	}
}

// TestLateResultsCountInResultDigest applies late, duplicate and server-made results, and expects each once in
// the event's checksum (digest) of results.
func TestLateResultsCountInResultDigest(t *testing.T) {
	definitions := map[model.DefinitionID]*model.CheckDefinition{11: {Definition: model.Definition{ID: 11, Unit: 1001}, Proxy: true}, 12: {Definition: model.Definition{ID: 12, Unit: 1002}}}
	result := func(definition model.DefinitionID, at uint64) wire.Signal {
		return wire.ResultSignal(wire.Signal{Definition: definition, AtMs: at}, wire.Result{})
	}
	batch := func(number, first uint64, stream wire.StreamID, signals ...wire.Signal) *testCommit {
		c := newCommit(number, time.Duration(number)*time.Minute, 0)
		c.addBatch(t, 1, &wire.Batch{StreamKey: wire.StreamKey{Stream: stream}, First: first, NowMs: 100_000, Signals: signals})
		return c
	}
	own := newCommit(4, 4*time.Minute, 0)
	own.addRecord(testSection(1), &wire.Record{Kind: wire.RecordServerResult, Node: 1, ServerResult: &wire.ServerResult{Definition: 11}})
	proxied := newCommit(5, 5*time.Minute, 0)
	proxied.addRecord(testSection(1), &wire.Record{
		Kind: wire.RecordProxyResult, Node: 1, ProxyResult: proxyResult(12, result(11, 5000)),
	})
	commits := []*testCommit{
		batch(1, 5, 7, result(11, 90_000), result(12, 90_000), wire.Signal{Kind: wire.SignalKeepalive}, result(11, 99_000)),
		batch(2, 7, 7, wire.Signal{Kind: wire.SignalKeepalive}, result(11, 99_000), result(11, 99_500)), // 7 and 8 again, and 9
		batch(3, 1, 8, result(11, 1)), // older, of another stream: late
		own, proxied,
	}
	want := model.ResultDigest(0).Append(7, 5).Append(7, 8).Append(7, 9).Append(8, 1).Append(0, 0).Append(0xaabb, 12)
	r := replayCommits(t, definitions, 1, journal.Position{}, nil, commits)
	st, _ := r.Get(1, model.CheckSource(1001))
	if st.Results != 6 || st.Order != want {
		t.Fatalf("%d results, order %s, want 6 and %s", st.Results, st.Order, want)
	}

	// From a snapshot in the middle it is the same.
	begun := replayCommits(t, definitions, 1, journal.Position{}, nil, commits[:2])
	body, at := begun.Snapshot(model.Partition(testSection(1)), nil)
	again := replayCommits(t, definitions, 1, at, func(v *View) {
		if err := v.Restore(model.Partition(testSection(1)), at, body); err != nil {
			t.Fatal(err)
		}
	}, commits)
	if got, _ := again.Get(1, model.CheckSource(1001)); got.Order != want || got.Results != 6 {
		t.Errorf("restored and continued: %d results, order %s, want 6 and %s", got.Results, got.Order, want)
	}
}

// proxyResult returns an encoded test result that node 1 sends about another node
func proxyResult(number uint64, s wire.Signal) *wire.ProxyResult {
	var r wire.BatchReader
	_, body, _ := wire.FrameKind(wire.AppendBatch(nil, &wire.Batch{First: number, Signals: []wire.Signal{s}}))
	if err := r.Reset(body); err != nil || !r.Next(&s) {
		panic("BUG: a batch that was just encoded cannot be read")
	}
	return &wire.ProxyResult{StreamKey: wire.StreamKey{Stream: 0xaabb}, Number: number, By: 1, Namespace: 3, NowMs: 5000, Signal: slices.Clone(r.Raw())}
}

// TestProxyNodeResultsNameSendingAgent applies an agent's results about proxy nodes, and expects events that name the
// agent. Each result changes the proxy node's event and counts once.
func TestProxyNodeResultsNameSendingAgent(t *testing.T) {
	definitions := map[model.DefinitionID]*model.CheckDefinition{
		11: {Definition: model.Definition{ID: 11, Unit: 1001, Namespace: 9}, FailAfter: 1, Proxy: true, TTL: time.Hour, Severities: [4]model.Severity{0, 2, 4, 3}},
	}
	r := replayCommits(t, definitions, 1, journal.Position{}, nil, nil)
	c := newCommit(1, time.Minute, time.Hour)
	c.addBatch(t, 1, &wire.Batch{StreamKey: wire.StreamKey{Stream: 0xaabb}, First: 1, NowMs: 5000, Signals: []wire.Signal{
		wire.ResultSignal(wire.Signal{AtMs: 4900, Node: 7}, wire.Result{}), {Kind: wire.SignalKeepalive, AtMs: 5000},
	}})
	c.addRecord(3, &wire.Record{
		Kind: wire.RecordProxyResult, Node: 7, ProxyResult: proxyResult(1, wire.ResultSignal(wire.Signal{Definition: 11, AtMs: 4900, Node: 7}, wire.Result{Status: model.Critical, Output: []byte("no answer")})),
	})
	r.applyCommits(t, []*testCommit{c})
	st, ok := r.Get(7, model.CheckSource(1001))
	if !ok || st.Status != model.Critical || st.RanBy != 1 || st.Problem == nil || st.Problem.NodeID != 7 || st.Namespace != 3 || st.Output != "no answer" || st.Results != 1 {
		t.Fatalf("the proxy node's state is %+v", st)
	}
	if _, ok := r.Get(1, model.CheckSource(1001)); ok {
		t.Error("the node that ran it has a state of its own")
	}
	if _, ok := r.Get(7, model.CheckSource(model.KeepaliveCheck)); ok {
		t.Error("the proxy node has a keepalive")
	}
	if sum := r.Summaries([]model.NodeID{7})[0]; sum.Silent || sum.Stopped {
		t.Errorf("the proxy node is missed: %+v", sum)
	}

	// A snapshot carries who ran it; the server's own word takes it away.
	body, at := r.Snapshot(3, nil)
	again := newView(viewOptions{Definitions: func(id model.DefinitionID) *model.CheckDefinition { return definitions[id] }})
	if err := again.Restore(3, at, body); err != nil {
		t.Fatal(err)
	}
	if st, _ := again.Get(7, model.CheckSource(1001)); st.RanBy != 1 {
		t.Errorf("restored: %+v", st)
	}
	if next, _ := again.Snapshot(3, nil); !slices.Equal(next, body) {
		t.Error("a snapshot of what a snapshot brought differs")
	}
	c = newCommit(2, time.Minute, time.Hour)
	c.addRecord(3, &wire.Record{
		Kind: wire.RecordServerResult, Node: 7, ServerResult: &wire.ServerResult{Definition: 11, Status: model.Unknown, Output: []byte("nobody runs it")},
	})
	r.applyCommits(t, []*testCommit{c})
	if st, _ := r.Get(7, model.CheckSource(1001)); st.RanBy != 0 || st.Status != model.Unknown {
		t.Errorf("after the server's word: %+v", st)
	}
}
