package metric

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// testDefinition returns a compiled template with two items and a trigger. One item is raw, the other's preprocessing
// remembers values. The trigger has a recovery expression.
func testDefinition(id model.DefinitionID) *model.Definition {
	c := &model.TemplateDefinition{
		Definition: model.Definition{ID: id, Unit: 1000, Namespace: 1, Name: "t"},
		Items:      []model.Item{{Key: "load", ValueMap: "load"}, {Key: "rate", Steps: []model.Step{{Name: "simpleChange"}, {Name: "multiplier", Parameters: []string{"8"}}}}},
		Triggers:   []model.DefinitionTrigger{{Name: "high", Expression: "last(//load)>4", Recovery: "last(//load)<2", Severity: model.High}},
		ValueMaps:  []model.ValueMap{{Name: "load", Mappings: []model.ValueMapping{{Type: "greaterOrEqual", Value: "4", Text: "busy"}}}},
	}
	if id >= 20 { // with a discovery rule
		return discoveryDefinition(id)
	}
	if id == 13 { // triggers whose windows are longer than the time between two restarts
		c.Items, c.Triggers = c.Items[:1], []model.DefinitionTrigger{
			{Name: "average", Expression: "avg(//load,1m)>5", Recovery: "max(//load,20s)<8"}, {Name: "change", Expression: "change(//load)>4"},
			{Name: "count", Expression: `count(//load,30s,"gt",6)>3`}, {Name: "spread", Expression: "max(//load,#5)-min(//load,#5)>8"},
		}
	}
	if id == 12 { // a trigger of missing values, which is also evaluated at each half minute
		c.Items, c.Triggers = c.Items[:1], []model.DefinitionTrigger{{Name: "silent", Expression: "nodata(//load,2m)=1 and now()>0"}}
	}
	if id == 11 { // a trigger of a counter
		c.Items, c.Triggers = c.Items[:1], []model.DefinitionTrigger{{Name: "back", Expression: "change(//load)<0"}}
	}
	if id == 10 { // an item that takes much time
		c.Items = append(c.Items[:1], model.Item{Key: "status", Steps: []model.Step{{Name: "jsonPath", Parameters: []string{"$.last"}}}})
	}
	if id == 9 { // with macros
		c.Items, c.Macros = c.Items[:1], map[string]string{"{$MAX}": "4"}
		c.Triggers = []model.DefinitionTrigger{{Name: "high", Expression: "last(//load)>{$MAX}"}, {Name: "other", Expression: "last(//load)>{$NONE}"}}
	}
	if id == 8 || id == 14 { // an edit: another item in front, no trigger
		c.Items = append([]model.Item{{Key: "cpu"}}, c.Items...)
		c.Triggers = nil
		c.Items[1].NoHistory = id == 14
	}
	return c.ToDefinition()
}

// TestRecoveryOutputShowsPresentValues expects the event output of a recovered trigger to contain item values
// only, without the problem expression. The trigger has no recovery expression.
func TestRecoveryOutputShowsPresentValues(t *testing.T) {
	u := newTemplateState(compile(testDefinition(9).AsTemplate(), ""), 0)
	u.slots[0].value = item.FromFloat(1.5)
	if text := u.triggerOutput(0, false); text != "load = 1.5" {
		t.Errorf("recovery: %q", text)
	}
	if text := u.triggerOutput(0, true); text != "last(//load)>4; load = 1.5" {
		t.Errorf("problem: %q", text)
	}
}

// testCommit is a journal commit with entries of one partition, for tests
type testCommit struct {
	number  uint64
	entries [][]byte
}

// Position returns the commit number that the test has set
func (c *testCommit) Position() journal.Position { return journal.Position{Log: 1, Number: c.number} }

// Received returns a time that grows by a second per commit
func (c *testCommit) Received() int64 { return int64(1e18 + c.number*1e9) }

// Listening returns a listening (receiving) time that grows by a second per commit.
func (c *testCommit) Listening() time.Duration { return time.Duration(c.number) * time.Second }

// Sections returns partition 3, the only section of the test commit
func (c *testCommit) Sections() []journal.Section { return []journal.Section{3} }

// Retain does nothing, because the memory of a test commit is not reused
func (c *testCommit) Retain() {}

// Release does nothing, because the memory of a test commit is not reused
func (c *testCommit) Release() {}

// Entries calls fn for each entry of the test commit, whatever section the caller asks for.
func (c *testCommit) Entries(_ journal.Section, fn func([]byte) error) error {
	for _, e := range c.entries {
		if err := fn(e); err != nil {
			return err
		}
	}
	return nil
}

// testView is a metric view for tests on its own shard, with the last signal's sequence number.
type testView struct {
	*View
	shard  *shard.Shard
	number uint64
	macros string // of the next values
}

// newTestView returns an empty metric view for tests
func newTestView() *testView {
	definitions := func(id model.DefinitionID) *model.Definition { return testDefinition(id) }
	s := shard.New(shard.Options{Workers: 1, Definitions: definitions})
	return &testView{View: New(s, Options{Definitions: definitions}), shard: s}
}

// values returns a signal batch of node 7 with one value per item of the test Template.
func (v *testView) values(definition model.DefinitionID, values ...item.Value) []byte {
	var list []wire.BlockValue
	for i, value := range values {
		list = append(list, wire.BlockValue{Position: uint32(i), Value: value})
	}
	return v.block(definition, []int64{0}, list)
}

// block returns a batch of signals from node 7 with one block of values.
func (v *testView) block(definition model.DefinitionID, times []int64, list []wire.BlockValue) []byte {
	return v.blockAt((v.number+1)*1000, definition, times, list)
}

// blockAt returns a signal batch of node 7 with one block of values, sent at a given time. The values are 100
// ms old. The batch was sent at a given time of the node's clock.
func (v *testView) blockAt(nowMs uint64, definition model.DefinitionID, times []int64, list []wire.BlockValue) []byte {
	v.number++
	b := wire.Batch{StreamKey: wire.StreamKey{Stream: 9}, First: v.number, NowMs: nowMs, Signals: []wire.Signal{{
		Kind: wire.SignalValueBlock, Definition: definition, AtMs: nowMs - 100,
		Body: wire.AppendValueBlock(nil, &wire.ValueBlock{Macros: v.macros, Rows: uint32(len(list)), Columns: wire.AppendColumns(nil, times, list)}),
	}}}
	_, body, err := wire.FrameKind(wire.AppendBatch(nil, &b))
	if err != nil {
		panic(err)
	}
	return append(wire.AppendBatchRecord(nil, 7), body...)
}

// pendingTexts formats the trigger changes of the partition that are not yet in the journal
func (v *testView) pendingTexts() (list []string) {
	for _, p := range v.partitions[3].pending {
		list = append(list, fmt.Sprintf("%d %s %v %v", p.Commit, p.Trigger, p.Problem, p.Removed))
	}
	return list
}

// TestTriggerChangeIsRecordedOnce expects exactly one journal record for each change of a trigger's state. A
// verdict waits until the journal has it. A restored snapshot gives the same.
func TestTriggerChangeIsRecordedOnce(t *testing.T) {
	v := newTestView()
	number := uint64(0)
	apply := func(entries ...[]byte) {
		number++
		testenv.NoError(t, v.shard.Apply(&testCommit{number, entries}))
		body, at := v.shard.Snapshot(3, nil)
		again := newTestView()
		testenv.NoError(t, again.shard.Restore(3, at, body))
		if v.shard.Hash(3) != again.shard.Hash(3) {
			t.Fatalf("commit %d: the restored view differs", number)
		}
		again.number = v.number
		v = again
	}
	expect := func(want ...string) {
		t.Helper()
		if got := v.pendingTexts(); !slices.Equal(got, want) {
			t.Fatalf("commit %d: pending %q, want %q", number, got, want)
		}
	}
	apply(v.values(5, item.FromFloat(1), item.FromUnsigned(10)))
	expect("1 high false false")
	apply(v.values(5, item.FromFloat(5), item.FromUnsigned(14)))
	expect("1 high false false", "2 high true false")
	if text := string(v.partitions[3].pending[1].Output); text != "last(//load)>4; load = busy (5)" {
		t.Errorf("verdict text %q", text)
	}
	apply(v.values(5, item.FromFloat(3)), wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordVerdict, Node: 7, Verdict: &wire.Verdict{Commit: 1, Definition: 5, Trigger: "high"}}))
	expect("2 high true false")
	apply(v.values(5, item.FromFloat(1.5)))
	expect("2 high true false", "4 high false false")
	if text := string(v.partitions[3].pending[len(v.partitions[3].pending)-1].Output); text != "last(//load)<2; load = 1.5" {
		t.Errorf("text of the recovery %q", text)
	}
	items := v.Items(7)
	if len(items) != 2 || items[0].Value != item.FromFloat(1.5) || items[1].Value != item.FromFloat(32) || items[1].At.UnixNano() != int64(1e18+2e9-1e8) || items[0].Text() != "1.5" {
		t.Fatalf("items %+v", items)
	}
	apply(v.values(8, item.FromFloat(9)))
	expect("2 high true false", "4 high false false", "5 high false true")
	if items := v.Items(7); len(items) != 3 || items[1].Value != item.FromFloat(1.5) {
		t.Fatalf("items after an edit %+v", items)
	}
	apply(wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordVerdict, Node: 7, Verdict: &wire.Verdict{Commit: 5, Index: 1, Definition: 5, Trigger: "high"}}))
	if named := v.Definitions(); len(named) != 1 || !named[8] {
		t.Errorf("used definitions %v", named)
	}
}

// TestChangedPropertyReachesTriggers changes a Property that a trigger's macro reads, and expects evaluations
// with the new value. A restart keeps the value. Without a value the trigger is unknown.
func TestChangedPropertyReachesTriggers(t *testing.T) {
	v := newTestView()
	number := uint64(0)
	apply := func(macros string, value float64) []ItemState {
		t.Helper()
		number++
		v.macros = macros
		testenv.NoError(t, v.shard.Apply(&testCommit{number, [][]byte{v.values(9, item.FromFloat(value))}}))
		body, at := v.shard.Snapshot(3, nil)
		again := newTestView()
		testenv.NoError(t, again.shard.Restore(3, at, body))
		if v.shard.Hash(3) != again.shard.Hash(3) {
			t.Fatalf("commit %d: the restored view differs", number)
		}
		again.number = v.number
		v = again
		return v.Items(7)
	}
	if is := apply("", 5); is[0].Triggers[0].Problem != true || is[0].Triggers[0].Expression != "last(//load)>4" {
		t.Errorf("with the Template's value: %+v", is)
	}
	if is := apply(`{"{$MAX}":"6"}`, 5); is[0].Triggers[0].Problem || is[0].Triggers[0].Expression != "last(//load)>6" {
		t.Errorf("with the value of a Property: %+v", is)
	}
	if is := apply("", 5); !is[0].Triggers[0].Problem {
		t.Errorf("without the Property again: %+v", is)
	}
	if other := v.Items(7)[0].Triggers[1]; other.Problem || !strings.Contains(other.Unknown, "the macro {$NONE} has no value here") {
		t.Errorf("a macro without a value: %+v", other)
	}
}

// TestReplayKeepsRecordedTriggerStates replays values of an earlier release, and expects the trigger states
// recorded in the journal. The triggers continue from the recorded verdicts.
func TestReplayKeepsRecordedTriggerStates(t *testing.T) {
	v := newTestView()
	apply := func(number uint64, want string, entries ...[]byte) {
		t.Helper()
		testenv.NoError(t, v.shard.Apply(&testCommit{number, entries}))
		if got := strings.Join(v.pendingTexts(), ", "); got != want {
			t.Errorf("commit %d: pending %q, want %q", number, got, want)
		}
	}
	record := func(verdict wire.Verdict) []byte {
		verdict.Definition, verdict.Trigger = 5, "high"
		return wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordVerdict, Node: 7, Verdict: &verdict})
	}
	apply(1, "1 high false false", v.values(5, item.FromFloat(1)))
	apply(2, "", record(wire.Verdict{Commit: 1, Problem: true})) // the other release saw a problem
	apply(3, "3 high false false", v.values(5, item.FromFloat(1)))
	apply(4, "", record(wire.Verdict{Commit: 3}))
	apply(5, "5 high true false", v.values(5, item.FromFloat(5)))
	apply(6, "6 high false false", v.values(5, item.FromFloat(1)), record(wire.Verdict{Commit: 5, Index: 1})) // it saw none
	apply(7, "", record(wire.Verdict{Commit: 6}))
	apply(8, "", v.values(5, item.FromFloat(1)))
}

// FuzzDecodeTemplateState decodes random bytes as a Template's item and trigger states, and expects an error or
// valid states.
func FuzzDecodeTemplateState(f *testing.F) {
	f.Add(newTemplateState(compile(testDefinition(5).AsTemplate(), ""), 5).encode(nil), false)
	f.Add(append([]byte("\x00\x01\x02{#\x01\x01x\x00\x00\x00"), newTemplateState(compile(testDefinition(20).AsTemplate(), ""), 5).encode(nil)[4:]...), true)
	f.Fuzz(func(t *testing.T, body []byte, rules bool) {
		of := compile(testDefinition(5).AsTemplate(), "")
		if rules {
			of = compile(testDefinition(20).AsTemplate(), "")
		}
		v := &View{}
		if u, ok := v.decodeTemplateState(of, body); ok {
			if again, ok := v.decodeTemplateState(of, u.encode(nil)); !ok || string(again.encode(nil)) != string(u.encode(nil)) {
				t.Fatal("own bytes differ")
			}
		}
	})
}

// TestTextsOfValuesAreBounded sends a very long text value and a very long error, and expects shortened copies. The
// buffer of the texts is used again.
func TestTextsOfValuesAreBounded(t *testing.T) {
	v := newTestView()
	text := strings.Repeat("x", 400<<10)
	entry := v.block(5, []int64{0}, []wire.BlockValue{
		{Position: 0, Value: item.FromText(text), Unsupported: true},
		{Position: 1, Value: item.FromText(text), Unsupported: true},
	})
	testenv.NoError(t, v.shard.Apply(&testCommit{1, [][]byte{entry}}))
	clear(entry)
	slots := v.partitions[3].nodes[0].units[0].slots
	for i := range slots {
		if reason := slots[i].reason; len(reason) > maxReason+len("…") || strings.Trim(reason, "x…") != "" {
			t.Errorf("item %d: a reason of %d bytes: %.20q", i, len(reason), reason)
		}
	}
}

// TestFrequentTriggerChangesAreLimited changes the state of a trigger with each value, and expects a limited number of
// recorded changes. The trigger is evaluated again with the next batch.
func TestFrequentTriggerChangesAreLimited(t *testing.T) {
	v := newTestView()
	const rows = 10 * maxChanges
	times, list := make([]int64, rows), make([]wire.BlockValue, rows)
	for i := range list {
		times[i], list[i] = int64(i), wire.BlockValue{Row: uint32(i), Value: item.FromUnsigned(uint64(i) % 2 * 9)}
	}
	testenv.NoError(t, v.shard.Apply(&testCommit{1, [][]byte{v.block(5, times, list)}}))
	if n := len(v.partitions[3].pending); n != maxChanges {
		t.Errorf("%d verdicts, want %d", n, maxChanges)
	}
	testenv.NoError(t, v.shard.Apply(&testCommit{2, [][]byte{v.values(5, item.FromFloat(1))}}))
	if last := v.partitions[3].pending[len(v.partitions[3].pending)-1]; last.Problem {
		t.Errorf("the last verdict is %+v, want the recovery", last)
	}
}

// TestValuesOfSenderKeepTheirTime applies values with the sender's time stamps, and expects the same times. No time is
// after the receive time of the commit.
func TestValuesOfSenderKeepTheirTime(t *testing.T) {
	for _, c := range []struct{ unixNs, want int64 }{
		{1e18 - 3600e9 + 7, 1e18 - 3600e9 + 12}, // an hour ago, to the nanosecond
		{1e18 + 3600e9, 1e18 + 1e9},             // the commit's time
	} {
		v := newTestView()
		body := wire.AppendValueBlock(nil, &wire.ValueBlock{Rows: 1, Columns: wire.AppendColumns(nil, []int64{5}, []wire.BlockValue{{Value: item.FromText("1")}}), UnixNs: uint64(c.unixNs)})
		signal := wire.AppendSignalMessage(nil, &wire.Signal{Kind: wire.SignalValueBlock, Definition: 10, Body: body})
		testenv.NoError(t, v.shard.Apply(&testCommit{1, [][]byte{wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordProxyResult, Node: 7, ProxyResult: &wire.ProxyResult{Namespace: 1, Signal: signal}})}}))
		if list := v.Items(7); len(list) == 0 || list[0].At.UnixNano() != c.want {
			t.Errorf("%d: %v", c.unixNs, list)
		}
	}
}
