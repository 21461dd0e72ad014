package metric

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// testChunk returns a compiled template with a raw item, an item whose preprocessing remembers values, and a trigger
// with a recovery expression
func testChunk(id model.ChunkID) *model.Chunk {
	c := &model.TemplateChunk{
		Chunk:    model.Chunk{ID: id, Unit: 1000, Namespace: 1, Name: "t"},
		Items:    []model.Item{{Key: "load"}, {Key: "rate", Steps: []model.Step{{Name: "simpleChange"}, {Name: "multiplier", Parameters: []string{"8"}}}}},
		Triggers: []model.ChunkTrigger{{Name: "high", Expression: "last(//load)>4", Recovery: "last(//load)<2", Severity: model.High}},
	}
	if id == 8 { // an edit: another item in front, no trigger
		c.Items = append([]model.Item{{Key: "cpu"}}, c.Items...)
		c.Triggers = nil
	}
	return c.Seal()
}

// testCommit is a journal commit with entries of one partition, for tests
type testCommit struct {
	number  uint64
	entries [][]byte
}

// Position implements journal.Commit: it returns the number that the test has set
func (c *testCommit) Position() journal.Position { return journal.Position{Log: 1, Number: c.number} }

// Received implements journal.Commit: it returns a time that grows by a second per commit
func (c *testCommit) Received() int64 { return int64(1e18 + c.number*1e9) }

// Listening implements journal.Commit: the listening time grows by a second per commit
func (c *testCommit) Listening() time.Duration { return time.Duration(c.number) * time.Second }

// Sections implements journal.Commit: the only section is partition 3
func (c *testCommit) Sections() []journal.Section { return []journal.Section{3} }

// Retain implements journal.Commit and does nothing
func (c *testCommit) Retain() {}

// Release implements journal.Commit and does nothing
func (c *testCommit) Release() {}

// Entries implements journal.Commit: it calls fn for each entry, whatever the section
func (c *testCommit) Entries(_ journal.Section, fn func([]byte) error) error {
	for _, e := range c.entries {
		if err := fn(e); err != nil {
			return err
		}
	}
	return nil
}

// testView is a metric view on a shard of its own, with the number of the last signal sent to it
type testView struct {
	*View
	shard  *shard.Shard
	number uint64
}

// newTestView returns an empty metric view for tests
func newTestView() *testView {
	chunks := func(id model.ChunkID) *model.Chunk { return testChunk(id) }
	s := shard.New(shard.Options{Workers: 1, Chunks: chunks})
	return &testView{View: New(s, Options{Chunks: chunks}), shard: s}
}

// values returns an encoded batch in which node 7 sends one value per item of a template
func (v *testView) values(chunk model.ChunkID, values ...item.Value) []byte {
	var list []wire.BlockValue
	for i, value := range values {
		list = append(list, wire.BlockValue{Position: uint32(i), Value: value})
	}
	v.number++
	b := wire.Batch{StreamKey: wire.StreamKey{Stream: 9}, First: v.number, NowMs: 1000, Signals: []wire.Signal{{
		Kind: wire.SignalValueBlock, Chunk: chunk, AtMs: 900,
		Body: wire.AppendValueBlock(nil, &wire.ValueBlock{Rows: uint32(len(list)), Columns: wire.AppendColumns(nil, []int64{0}, list)}),
	}}}
	_, body, err := wire.FrameKind(wire.AppendBatch(nil, &b))
	if err != nil {
		panic(err)
	}
	return append(wire.AppendBatchRecord(nil, 7), body...)
}

// pendingTexts formats the verdicts of the partition that are not yet in the journal
func (v *testView) pendingTexts() (list []string) {
	for _, p := range v.partitions[3].pending {
		list = append(list, fmt.Sprintf("%d %s %v %v", p.Commit, p.Trigger, p.Problem, p.Removed))
	}
	return list
}

// TestTriggerMakesOneVerdictPerChange expects one verdict per change of a trigger, pending until the journal has it,
// and the same from a restored snapshot
func TestTriggerMakesOneVerdictPerChange(t *testing.T) {
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
	apply(v.values(5, item.FromFloat(3)), wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordVerdict, Node: 7, Verdict: &wire.Verdict{Commit: 1, Chunk: 5, Trigger: "high"}}))
	expect("2 high true false")
	apply(v.values(5, item.FromFloat(1.5)))
	expect("2 high true false", "4 high false false")
	items := v.Items(7)
	if len(items) != 2 || items[0].Value != item.FromFloat(1.5) || items[1].Value != item.FromFloat(32) || items[1].At.UnixNano() != int64(1e18+2e9-1e8) {
		t.Fatalf("items %+v", items)
	}
	apply(v.values(8, item.FromFloat(9)))
	expect("2 high true false", "4 high false false", "5 high false true")
	if items := v.Items(7); len(items) != 3 || items[1].Value != item.FromFloat(1.5) {
		t.Fatalf("items after an edit %+v", items)
	}
	v.template(testChunk(5)) // as late values of the older definition compile it
	apply(wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordVerdict, Node: 7, Verdict: &wire.Verdict{Commit: 5, Index: 1, Chunk: 5, Trigger: "high"}}))
	if named := v.Chunks(); len(named) != 1 || !named[8] {
		t.Errorf("used chunks %v", named)
	}
	if _, ok := v.templates.Load(model.ChunkID(5)); ok {
		t.Error("the compiled form of an unused chunk stays")
	}
}

// FuzzDecodeUnit decodes random bytes as the state of a template on a node, and expects accepted states to encode and
// decode unchanged
func FuzzDecodeUnit(f *testing.F) {
	of := compile(testChunk(5).AsTemplate())
	f.Add(newUnitState(of, 5).encode(nil))
	f.Fuzz(func(t *testing.T, body []byte) {
		if u, ok := decodeUnit(of, body); ok {
			if again, ok := decodeUnit(of, u.encode(nil)); !ok || string(again.encode(nil)) != string(u.encode(nil)) {
				t.Fatal("own bytes differ")
			}
		}
	})
}
