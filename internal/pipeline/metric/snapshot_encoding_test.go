package metric

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// goldenViews returns views for the golden file. They have remembered values, a trigger with its pending verdicts, formulas,
// or a discovery rule that lost an entity.
func goldenViews(t *testing.T) map[string]*testView {
	views := map[string]*testView{}
	v := newTestView()
	for i, load := range []float64{1, 5} {
		testenv.NoError(t, v.shard.Apply(&testCommit{uint64(i + 1), [][]byte{v.values(5, item.FromFloat(load), item.FromUnsigned(10))}}))
	}
	views["items and triggers"] = v
	s := shard.New(shard.Options{Workers: 1, Definitions: formulaDefinition})
	v = &testView{View: New(s, Options{Definitions: formulaDefinition}), shard: s}
	for i := range uint64(7) {
		testenv.NoError(t, s.Apply(&testCommit{i + 1, [][]byte{v.block(7, []int64{0}, []wire.BlockValue{
			{Position: 3, Value: item.FromFloat(8)}, {Position: 4, Value: item.FromFloat(2)},
		})}}))
	}
	views["formulas"] = v
	d := &discoveryTest{T: t, v: newTestView()}
	d.apply(20, nil, disks("sda", "50", "sdb", "95"))
	d.apply(20, nil, disks("sda", "50"))
	views["discovery"] = d.v
	v = newTestView()
	for i := range uint64(3) {
		testenv.NoError(t, v.shard.Apply(&testCommit{i + 1, [][]byte{logBlock(5, i+1, wire.LogPosition{Item: i%2 + 1, Size: 100 * (i + 1), MTime: 1795233665})}}))
	}
	views["logs"] = v
	return views
}

// TestSectionMatchesGoldenFile encodes items and triggers for snapshots, and compares the bytes with a golden file. One
// more view has deferred values: the rest of a value block, and the value of a master item.
func TestSectionMatchesGoldenFile(t *testing.T) {
	views := goldenViews(t)
	v := newScriptView(2)
	testenv.NoError(t, v.shard.Apply(&testCommit{1, [][]byte{blockOf(7, 1, 30, []int64{0}, []wire.BlockValue{
		{Position: 2, Value: item.FromUnsigned(4)}, {Position: 8, Value: item.FromUnsigned(5)},
	})}}))
	views["scripts"] = v.testView
	var sections strings.Builder
	for _, name := range slices.Sorted(maps.Keys(views)) {
		fmt.Fprintf(&sections, "%s\n%s", name, hex.Dump(reducer{views[name].View}.Encode(views[name].shard.Partition(3), nil)))
	}
	testenv.Golden(t, "testdata/section-v3.hex", sections.String(), "a new SectionVersion")
}
