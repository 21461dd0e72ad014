package metric

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestSectionMatchesGoldenFile encodes items and triggers for snapshots, and compares the bytes with golden
// files. The Templates have remembered values, a trigger with its pending verdicts, formulas, or a discovery
// rule that lost an entity.
func TestSectionMatchesGoldenFile(t *testing.T) {
	var sections strings.Builder
	add := func(name string, v *testView) {
		fmt.Fprintf(&sections, "%s\n%s", name, hex.Dump(reducer{v.View}.Encode(v.shard.Partition(3), nil)))
	}
	v := newTestView()
	for i, load := range []float64{1, 5} {
		testenv.NoError(t, v.shard.Apply(&testCommit{uint64(i + 1), [][]byte{v.values(5, item.FromFloat(load), item.FromUnsigned(10))}}))
	}
	add("items and triggers", v)
	s := shard.New(shard.Options{Workers: 1, Definitions: formulaDefinition})
	v = &testView{View: New(s, Options{Definitions: formulaDefinition}), shard: s}
	for i := range uint64(7) {
		testenv.NoError(t, s.Apply(&testCommit{i + 1, [][]byte{v.block(7, []int64{0}, []wire.BlockValue{
			{Position: 3, Value: item.FromFloat(8)}, {Position: 4, Value: item.FromFloat(2)},
		})}}))
	}
	add("formulas", v)
	d := &discoveryTest{T: t, v: newTestView()}
	d.apply(20, nil, disks("sda", "50", "sdb", "95"))
	d.apply(20, nil, disks("sda", "50"))
	add("discovery", d.v)
	testenv.Golden(t, "testdata/section-v1.hex", sections.String(), "a new SectionVersion")
}
