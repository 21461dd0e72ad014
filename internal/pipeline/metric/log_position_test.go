package metric

import (
	"fmt"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// logBlock returns a batch of node 7 with one block. The block has a position in a log and no values.
func logBlock(definition model.DefinitionID, number uint64, at wire.LogPosition) []byte {
	b := wire.Batch{StreamKey: wire.StreamKey{Stream: 9}, First: number, Signals: []wire.Signal{{
		Kind: wire.SignalValueBlock, Definition: definition, Body: wire.AppendValueBlock(nil, &wire.ValueBlock{Log: at}),
	}}}
	_, body, err := wire.FrameKind(wire.AppendBatch(nil, &b))
	if err != nil {
		panic(err)
	}
	return append(wire.AppendBatchRecord(nil, 7), body...)
}

// TestLogPositionsAreRestored applies blocks with positions in logs, and expects each log's last position. A restored snapshot has the
// same positions. A repeated block changes nothing. Of too many logs the one of the oldest use is forgotten.
func TestLogPositionsAreRestored(t *testing.T) {
	v := newTestView()
	apply := func(number uint64, p wire.LogPosition) {
		t.Helper()
		testenv.NoError(t, v.shard.Apply(&testCommit{v.number + 1, [][]byte{logBlock(5, number, p)}}))
		v.number++
	}
	positions := func() map[uint64]wire.LogPosition {
		t.Helper()
		list, err := v.LogPositions(t.Context(), 7, v.shard.Applied())
		testenv.NoError(t, err)
		return list
	}
	apply(1, wire.LogPosition{Item: 1, Size: 10, MTime: 5})
	apply(2, wire.LogPosition{Item: 2, Size: 1 << 40})
	apply(3, wire.LogPosition{Item: 1, Size: 4, MTime: 6}) // another file
	apply(2, wire.LogPosition{Item: 2, Size: 7})
	want := "map[1:{1 4 6} 2:{2 1099511627776 0}]"
	if got := fmt.Sprint(positions()); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	again := newTestView()
	body, at := v.shard.Snapshot(3, nil)
	testenv.NoError(t, again.shard.Restore(3, at, body))
	again.number, v = v.number, again
	if got := fmt.Sprint(positions()); got != want {
		t.Errorf("restored: %s, want %s", got, want)
	}
	for i := range uint64(maxLogs - 1) {
		apply(i+4, wire.LogPosition{Item: i + 3, Size: 1})
	}
	if list := positions(); len(list) != maxLogs || list[1].Size != 4 || list[2].Size != 0 {
		t.Errorf("%d positions, of the first logs %+v %+v", len(list), list[1], list[2])
	}
}
