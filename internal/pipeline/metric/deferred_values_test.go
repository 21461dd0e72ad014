package metric

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/store/series"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// scriptDefinition returns a Template with scripts. Some are in dependent items, and in a dependent item of one of these. 31 is an edit of 30, with another item in front; 32 is another Template, and so is 33, with one script.
func scriptDefinition(id model.DefinitionID) *model.Definition {
	script := func(source string) []model.Step {
		return []model.Step{{Name: "javascript", Parameters: []string{source}}}
	}
	c := &model.TemplateDefinition{
		Definition: model.Definition{ID: id, Unit: 1000, Namespace: 1, Name: "t"},
		Items: []model.Item{
			{Key: "change", Steps: append(script("return value * 2"), model.Step{Name: "simpleChange"})},
			{Key: "load"},
			{Key: "master", Steps: script("return value / 2")},
			{Key: "part[1]", From: "master", Steps: script("return value + '1'")},
			{Key: "part[2]", From: "master", Steps: script("return value > 3 ? 'no number' : value + '2'")},
			{Key: "part[2].part", From: "part[2]", Steps: append(script("return value % 7"), model.Step{Name: "discardUnchanged"})},
			{Key: "part[3]", From: "master", Type: "text", Steps: script("return 'text ' + value")},
			{Key: "part[4]", From: "master"},
			{Key: "rest", Steps: script("return value")},
		},
		Triggers: []model.DefinitionTrigger{
			{Name: "both", Expression: "last(//part[1])>last(//rest)", Severity: model.High},
			{Name: "many", Expression: "avg(//part[2].part,#3)>2 and last(//load)>3", Recovery: "last(//change)<0"},
			{Name: "master", Expression: "last(//master)>last(//part[4])"},
		},
	}
	switch id {
	case 31:
		c.Items = append([]model.Item{{Key: "added", Steps: script("return value")}}, c.Items...)
	case 32:
		c.Unit, c.Name = 2000, "other"
	case 33:
		c.Unit, c.Triggers = 3000, nil
		c.Items = []model.Item{{Key: "load"}, {Key: "slow", Steps: script("return value")}}
	}
	return c.ToDefinition()
}

// storedList is a series store that lists its values.
type storedList struct {
	series.Store
	values map[string][]string // by node, in order
}

// Append lists a value with its item and time.
func (s *storedList) Append(_ model.Partition, _ *series.Series, name func() labels.Labels, at int64, value float64) (int64, bool) {
	l := name()
	node := strings.Clone(l.Get(series.LabelNode)) // the labels stay the caller's
	s.values[node] = append(s.values[node], fmt.Sprintf("%s %d %v", l.Get(series.LabelItem), at, value))
	return 0, false
}

// WriteChunks does nothing, because the list is in no file.
func (s *storedList) WriteChunks(model.Partition) {}

// Encode does nothing, because no snapshot has the list.
func (s *storedList) Encode(_ model.Partition, dst []byte) []byte { return dst }

// Decode does nothing, because no snapshot has the list.
func (s *storedList) Decode(model.Partition, series.Decoder) {}

// scriptView is a view of Templates with scripts, with the list of the stored values.
type scriptView struct {
	*testView
	stored *storedList
}

// newScriptView returns a view whose commits run some script steps on new values.
func newScriptView(steps int) scriptView {
	definitions := func(id model.DefinitionID) *model.Definition { return scriptDefinition(id) }
	s, list := shard.New(shard.Options{Workers: 1, Definitions: definitions}), &storedList{values: map[string][]string{}}
	v := New(s, Options{Definitions: definitions, Series: SeriesOptions{Store: list, Names: func(id model.NodeID) (string, string) { return fmt.Sprint(id), "default" }}})
	v.scriptSteps = steps
	return scriptView{&testView{View: v, shard: s}, list}
}

// verdicts returns the changes of triggers by node, in order, without their commits.
func (v scriptView) verdicts() map[model.NodeID][]string {
	list := map[model.NodeID][]string{}
	for _, one := range v.partitions[3].pending {
		list[one.Node] = append(list[one.Node], fmt.Sprintf("%s %v %d %s", one.Trigger, one.Problem, one.Executed, one.Output))
	}
	return list
}

// items formats the items and triggers of a node.
func (v scriptView) items(node model.NodeID) (text string) {
	for _, one := range v.Items(node) {
		text += fmt.Sprintf("%d %s %v %v %s %+v\n", one.Template, one.Key, one.Value, one.At, one.Reason, one.Triggers)
	}
	return text
}

// blockOf returns the journal entry of a value block, with its number in the stream of its node.
func blockOf(node model.NodeID, number uint64, definition model.DefinitionID, times []int64, list []wire.BlockValue) []byte {
	b := wire.Batch{StreamKey: wire.StreamKey{Stream: wire.StreamID(node)}, First: number, NowMs: number * 1000, Signals: []wire.Signal{{
		Kind: wire.SignalValueBlock, Definition: definition, AtMs: number*1000 - 100,
		Body: wire.AppendValueBlock(nil, &wire.ValueBlock{Rows: uint32(len(list)), Columns: wire.AppendColumns(nil, times, list)}),
	}}}
	_, body, err := wire.FrameKind(wire.AppendBatch(nil, &b))
	if err != nil {
		panic(err)
	}
	return append(wire.AppendBatchRecord(nil, node), body...)
}

// resumeEntry returns the journal entry of a resume record.
func resumeEntry(node model.NodeID, steps uint32) []byte {
	return wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordResume, Node: node, Resume: wire.ResumeRecord{Steps: steps}})
}

// TestDeferredValuesEqualWholeBlocks applies random blocks of two nodes whole and with few script steps per commit. It
// expects the same values in the same order, and the same verdicts. A third view is restored from a snapshot now and then,
// with the commits since, and has the bytes of the second one.
func TestDeferredValuesEqualWholeBlocks(t *testing.T) {
	deferrals, restarts, verdicts := 0, 0, 0
	rapid.Check(t, func(r *rapid.T) {
		steps := rapid.IntRange(1, 4).Draw(r, "steps")
		whole, bounded, restarted := newScriptView(math.MaxInt), newScriptView(steps), newScriptView(steps)
		var commits []*testCommit
		saved, position := shard.EmptySnapshot(), journal.Position{}
		apply := func(entries ...[]byte) {
			c := &testCommit{uint64(len(commits) + 1), entries}
			commits = append(commits, c)
			for _, v := range []scriptView{whole, bounded, restarted} {
				testenv.NoError(r, v.shard.Apply(c))
			}
			switch rapid.IntRange(0, 11).Draw(r, "restart") {
			case 0:
				saved, position = restarted.shard.Snapshot(3, nil)
			case 1:
				if len(restarted.partitions[3].deferred.nodes) > 0 {
					restarts++
				}
				restarted = newScriptView(steps)
				testenv.NoError(r, restarted.shard.Restore(3, position, saved))
				for _, c := range commits[position.Number:] {
					testenv.NoError(r, restarted.shard.Apply(c))
				}
			}
			if restarted.shard.Hash(3) != bounded.shard.Hash(3) {
				r.Fatalf("commit %d: the restored view differs", c.number)
			}
		}
		numbers := map[model.NodeID]uint64{}
		for range rapid.IntRange(1, 12).Draw(r, "commits") {
			var entries [][]byte
			for range rapid.IntRange(0, 3).Draw(r, "blocks") {
				node := model.NodeID(rapid.IntRange(7, 8).Draw(r, "node"))
				numbers[node]++
				definition := model.DefinitionID(rapid.SampledFrom([]int{30, 30, 30, 31, 32}).Draw(r, "definition"))
				var list []wire.BlockValue
				rows := rapid.IntRange(1, 2).Draw(r, "rows")
				for position := range scriptDefinition(definition).AsTemplate().Items {
					if rapid.Bool().Draw(r, "has") {
						for row := range rows {
							list = append(list, wire.BlockValue{Position: uint32(position), Row: uint32(row), Value: item.FromUnsigned(uint64(rapid.IntRange(0, 9).Draw(r, "value")))})
						}
					}
				}
				if len(list) == 0 {
					list = []wire.BlockValue{{Position: 2, Value: item.FromText("no value"), Unsupported: true}}
				}
				entries = append(entries, blockOf(node, numbers[node], definition, []int64{0, 1e7}[:rows], list))
			}
			if rapid.Bool().Draw(r, "resume") {
				entries = append(entries, resumeEntry(model.NodeID(rapid.IntRange(7, 9).Draw(r, "turn of")), uint32(rapid.IntRange(1, 5).Draw(r, "turn"))))
			}
			apply(entries...)
			deferrals += len(bounded.partitions[3].deferred.nodes)
		}
		for len(bounded.partitions[3].deferred.nodes) > 0 {
			apply(resumeEntry(7, 3), resumeEntry(8, 2))
		}
		for node := model.NodeID(7); node <= 8; node++ {
			if a, b := whole.stored.values[fmt.Sprint(node)], bounded.stored.values[fmt.Sprint(node)]; !slices.Equal(a, b) {
				r.Fatalf("node %d: stored whole\n%s\nstored in parts\n%s", node, strings.Join(a, "\n"), strings.Join(b, "\n"))
			}
			if a, b := whole.verdicts()[node], bounded.verdicts()[node]; !slices.Equal(a, b) {
				r.Fatalf("node %d: verdicts of whole blocks\n%s\nin parts\n%s", node, strings.Join(a, "\n"), strings.Join(b, "\n"))
			}
			if a, b := whole.items(node), bounded.items(node); a != b {
				r.Fatalf("node %d: items of whole blocks\n%s\nin parts\n%s", node, a, b)
			}
			verdicts += len(whole.verdicts()[node])
		}
		if bounded.partitions[3].deferred.bytes != 0 || whole.Counts() != bounded.Counts() {
			r.Fatalf("%d bytes are left; counts %+v and %+v", bounded.partitions[3].deferred.bytes, whole.Counts(), bounded.Counts())
		}
	})
	if deferrals == 0 || restarts == 0 || verdicts == 0 {
		t.Errorf("%d deferrals, %d restarts with deferred values, %d verdicts", deferrals, restarts, verdicts)
	}
}

// scriptValues returns values of an item at many times, for one block.
func scriptValues(position uint32, value item.Value, rows int) (times []int64, list []wire.BlockValue) {
	for row := range rows {
		times = append(times, int64(row))
		list = append(list, wire.BlockValue{Position: position, Row: uint32(row), Value: value})
	}
	return times, list
}

// TestRemovalDropsDeferredValues removes a Template, then a node, while their values are deferred. It expects that these are
// gone, and that those of another Template remain.
func TestRemovalDropsDeferredValues(t *testing.T) {
	v := newScriptView(1)
	number := uint64(0)
	apply := func(want int, entries ...[]byte) {
		t.Helper()
		number++
		testenv.NoError(t, v.shard.Apply(&testCommit{number, entries}))
		got := 0
		for _, list := range v.partitions[3].deferred.nodes {
			got += len(list)
		}
		if got != want || (want == 0) != (v.partitions[3].deferred.bytes == 0) {
			t.Fatalf("commit %d: %d deferred, want %d; %d bytes", number, got, want, v.partitions[3].deferred.bytes)
		}
		body, at := v.shard.Snapshot(3, nil)
		again := newScriptView(1)
		if testenv.NoError(t, again.shard.Restore(3, at, body)); again.shard.Hash(3) != v.shard.Hash(3) {
			t.Fatalf("commit %d: the restored view differs", number)
		}
	}
	forget := func(f wire.ForgetRecord) []byte {
		return wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordForget, Node: 7, Forget: &f})
	}
	times, list := scriptValues(8, item.FromUnsigned(5), 10)
	apply(2, blockOf(7, 1, 30, times, list), blockOf(7, 2, 32, times, list))
	if named := v.Definitions(); !named[32] {
		t.Errorf("used definitions %v", named)
	}
	apply(1, forget(wire.ForgetRecord{Check: 1000}))
	apply(1, resumeEntry(7, 3))
	if items := v.Items(7); len(items) == 0 || items[0].Template != 2000 || len(v.stored.values["7"]) != 4 {
		t.Errorf("items %+v, stored %v", items, v.stored.values)
	}
	apply(0, forget(wire.ForgetRecord{Deleted: true}))
	apply(0, resumeEntry(7, 3), resumeEntry(9, 3))
}

// TestTooManyDeferredValuesAreApplied defers more values than a partition may have. It expects that the values of the node
// are applied in their order then.
func TestTooManyDeferredValuesAreApplied(t *testing.T) {
	v := newScriptView(1)
	long, number := strings.Repeat(" ", 300<<10), uint64(0)
	for v.partitions[3].deferred.bytes < maxDeferred {
		number++
		_, list := scriptValues(8, item.FromText(long+fmt.Sprint(number)), 2)
		testenv.NoError(t, v.shard.Apply(&testCommit{number, [][]byte{blockOf(7, number, 30, []int64{0, 5}, list)}}))
	}
	if stored := len(v.stored.values["7"]); stored != 1 || number < 2 {
		t.Fatalf("%d values are stored after %d blocks", stored, number)
	}
	_, list := scriptValues(1, item.FromUnsigned(3), 1)
	testenv.NoError(t, v.shard.Apply(&testCommit{number + 1, [][]byte{blockOf(7, number+1, 30, []int64{0}, list)}}))
	stored := v.stored.values["7"]
	if len(stored) != int(2*number)+1 || len(v.partitions[3].deferred.nodes) != 0 || v.partitions[3].deferred.bytes != 0 {
		t.Fatalf("stored %v, %d bytes deferred", stored, v.partitions[3].deferred.bytes)
	}
	for i, one := range stored[:2*number] {
		if !strings.HasPrefix(one, "rest ") || !strings.HasSuffix(one, fmt.Sprintf(" %d", i/2+1)) {
			t.Errorf("value %d: %s", i, one)
		}
	}
}

// TestSlowScriptsLetOtherNodesPass applies a block of a hundred slow script steps. It expects the values of another node
// between its parts, and few steps in each part. A busy machine changes nothing: the clock of scripts counts their values, and
// in the bubble no script reaches its time limit.
func TestSlowScriptsLetOtherNodesPass(t *testing.T) { synctest.Test(t, letOtherNodesPass) }

// letOtherNodesPass is TestSlowScriptsLetOtherNodesPass in a bubble.
func letOtherNodesPass(t *testing.T) {
	const slowStep = 20 * time.Millisecond
	v := newScriptView(scriptSteps)
	v.now = func() time.Time { return time.Unix(0, 0).Add(slowStep * time.Duration(len(v.stored.values["7"]))) }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = v.shard.Run(ctx) }()
	number, numbers := uint64(0), map[model.NodeID]uint64{}
	apply := func(entries ...[]byte) {
		t.Helper()
		number++
		v.shard.Deliver(&testCommit{number, entries})
		testenv.NoError(t, v.shard.WaitApplied(ctx, journal.Position{Log: 1, Number: number}))
	}
	block := func(node model.NodeID, definition model.DefinitionID, position uint32, rows int) []byte {
		numbers[node]++
		times, list := scriptValues(position, item.FromUnsigned(numbers[node]), rows)
		return blockOf(node, numbers[node], definition, times, list)
	}
	value := func(node model.NodeID, key string) uint64 {
		for _, one := range v.Items(node) {
			if one.Key == key {
				return uint64(one.Value.Float())
			}
		}
		return 0
	}
	apply(block(7, 33, 1, 100), block(9, 30, 8, 400), block(8, 33, 0, 1))
	if n := v.Counts().Values; n != scriptSteps+1 || value(8, "load") != 1 {
		t.Fatalf("%d values are applied with the first commit", n)
	}
	soon, end := context.WithTimeout(ctx, 5*deferredPoll)
	defer end()
	testenv.NoError(t, v.WaitDeferred(soon, map[model.NodeID]model.Partition{8: 3}))
	if v.WaitDeferred(soon, map[model.NodeID]model.Partition{7: 3}) == nil {
		t.Error("a node with deferred values is not waited for")
	}
	turns, most := 0, map[model.NodeID]uint32{}
	resuming, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = v.ResumeDeferred(resuming, func(_ context.Context, entries []journal.Entry) error {
			apply(block(8, 33, 0, 1)) // values of others come before each turn
			if value(8, "load") != numbers[8] {
				t.Errorf("turn %d: the other node waits", turns)
			}
			before := v.Counts().Values
			var data [][]byte
			for _, e := range entries {
				var r wire.Record
				if err := r.Decode(e.Data); err != nil || e.Section != 3 {
					t.Errorf("entry %+v: %v", e, err)
				}
				most[r.Node] = max(most[r.Node], r.Resume.Steps)
				data = append(data, e.Data)
			}
			turns++
			if apply(data...); v.Counts().Values > before+2*scriptSteps {
				t.Errorf("turn %d: %d values at once", turns, v.Counts().Values-before)
			}
			return nil
		}, slog.New(slog.DiscardHandler))
	}()
	testenv.NoError(t, v.WaitDeferred(ctx, map[model.NodeID]model.Partition{7: 3, 9: 3}))
	stop()
	<-ended
	if n := v.Counts().Values; n != 501+numbers[8]-1 || turns < 40 || value(7, "slow") != 1 || value(9, "rest") != 1 {
		t.Errorf("%d values, %d turns", n, turns)
	}
	if most[9] != scriptSteps || most[7] != uint32(turnTime/slowStep) {
		t.Errorf("at most %d steps of the node with fast scripts in a turn, %d of the one with slow scripts", most[9], most[7])
	}
}

// TestDeferredNodesTakeTurns expects that each of many nodes with deferred values has its turn.
func TestDeferredNodesTakeTurns(t *testing.T) {
	v := newScriptView(0)
	const nodes = 250
	var entries [][]byte
	for node := model.NodeID(1); node <= nodes; node++ {
		times, list := scriptValues(8, item.FromUnsigned(1), 1)
		entries = append(entries, blockOf(node, 1, 30, times, list))
	}
	testenv.NoError(t, v.shard.Apply(&testCommit{1, entries}))
	turns, last := map[model.NodeID]int{}, model.NodeID(0)
	for range nodes * int(unknownStep) / int(turnTime) {
		list, _ := v.appendTurns(nil, 0, &last)
		for _, e := range list {
			var r wire.Record
			testenv.NoError(t, r.Decode(e.Data))
			turns[r.Node]++
		}
	}
	for node := model.NodeID(1); node <= nodes; node++ {
		if turns[node] != 1 {
			t.Errorf("node %d has %d turns", node, turns[node])
		}
	}
}

// FuzzDecodeDeferredValues decodes random bytes as deferred values, and expects an error or values with the same bytes.
func FuzzDecodeDeferredValues(f *testing.F) {
	v := newScriptView(2)
	testenv.NoError(f, v.shard.Apply(&testCommit{1, [][]byte{blockOf(7, 1, 30, []int64{0}, []wire.BlockValue{
		{Position: 2, Value: item.FromUnsigned(4)}, {Position: 8, Value: item.FromText("5")},
	})}}))
	p := &v.partitions[3]
	f.Add(p.encodeDeferred(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		p.deferred = deferredPartition{}
		d := shard.NewDecoder(data)
		if p.decodeDeferred(v.View, d); d.Err() != nil {
			return
		}
		own := p.encodeDeferred(nil)
		p.deferred = deferredPartition{}
		if p.decodeDeferred(v.View, shard.NewDecoder(own)); string(p.encodeDeferred(nil)) != string(own) {
			t.Fatal("own bytes differ")
		}
		for p.deferred.waits(0) { // no block of a snapshot makes the view panic
			testenv.NoError(t, v.shard.Apply(&testCommit{v.number + 2, [][]byte{resumeEntry(7, 5)}}))
			v.number++
		}
	})
}
