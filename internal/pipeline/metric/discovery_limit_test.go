package metric

import (
	"fmt"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestDiscoveredItemsOfNamespaceAreLimited discovers too many items on two nodes, and expects no items above
// the namespace's limit. The node that grew last keeps only its first items, with a reason at its rule, until
// there is room again.
func TestDiscoveredItemsOfNamespaceAreLimited(t *testing.T) {
	v, number, numbers := newTestView(), uint64(0), map[model.NodeID]uint64{}
	var log []*testCommit
	apply := func(entries ...[]byte) {
		t.Helper()
		number++
		log = append(log, &testCommit{number, entries})
		testenv.NoError(t, v.shard.Apply(log[len(log)-1]))
		body, at := v.shard.Snapshot(3, nil)
		again := newTestView()
		testenv.NoError(t, again.shard.Restore(3, at, body))
		if v.shard.Hash(3) != again.shard.Hash(3) {
			t.Fatalf("commit %d: the restored view differs", number)
		}
	}
	send := func(node model.NodeID, value wire.BlockValue) {
		t.Helper()
		numbers[node]++
		b := wire.Batch{StreamKey: wire.StreamKey{Stream: wire.StreamID(node)}, First: numbers[node], NowMs: number * 1000, Signals: []wire.Signal{{
			Kind: wire.SignalValueBlock, Definition: 20, AtMs: number * 1000,
			Body: wire.AppendValueBlock(nil, &wire.ValueBlock{Rows: 1, Columns: wire.AppendColumns(nil, []int64{0}, []wire.BlockValue{value})}),
		}}}
		_, body, err := wire.FrameKind(wire.AppendBatch(nil, &b))
		testenv.NoError(t, err)
		apply(append(wire.AppendBatchRecord(nil, node), body...))
	}
	limit, reached := 4, ""
	limits := map[model.NamespaceID]int{}
	check := func() {
		t.Helper()
		reached = ""
		marks := v.discoveryLimitEntries(DiscoveryLimits{Limit: func(model.NamespaceID) int { return limit },
			Reached: func(node model.NodeID, _ model.NamespaceID, reason string) { reached += fmt.Sprint(node, " ", reason) }}, limits)
		var entries [][]byte
		for _, m := range marks {
			if m.Section != journal.Section(3) {
				t.Errorf("a mark of section %d", m.Section)
			}
			entries = append(entries, m.Data)
		}
		if len(entries) > 0 {
			apply(entries...)
		}
	}
	expect := func(node model.NodeID, want string) {
		t.Helper()
		var texts []string
		for _, i := range v.Items(node) {
			if i.Key == "disks.found" {
				texts = append(texts, i.Reason)
			} else if i.Key != "disks" {
				texts = append(texts, strings.TrimPrefix(i.Key, "disk."))
			}
		}
		if got := strings.Join(texts, " "); got != want {
			t.Errorf("node %d has %s, want %s", node, got, want)
		}
	}
	const full = "without items: the namespace has its limit of discovered items (spec.limits.discoveredItems)"
	send(7, disks("sda", "50"))
	send(8, disks("sdb", "95", "sdc", "95"))
	send(8, disks("sdb", "95", "sdc", "95"))
	if n := v.DiscoveredItems(0); n != 6 {
		t.Errorf("%d discovered items, want 6", n)
	}
	check()
	expect(7, "size[sda] used[sda] ")
	expect(8, "size[sdb] used[sdb] 1 entity "+full)
	if want := "8 the namespace has its limit of 4 discovered items: at most 2 stay of the 4 of Template t"; reached != want {
		t.Errorf("reported %q, want %q", reached, want)
	}
	if got := v.pendingTexts(); got[len(got)-1] != "4 sdc is full false true" {
		t.Errorf("verdicts %q: the trigger of the removed entity stays", got)
	}
	send(8, disks("sdb", "95", "sdc", "95", "sdd", "1"))
	expect(8, "size[sdb] used[sdb] 2 entities "+full)
	if check(); reached != "" {
		t.Errorf("at the limit, reported %q", reached)
	}
	limit = 8
	check()
	expect(8, "size[sdb] size[sdc] size[sdd] used[sdb] used[sdc] used[sdd] ")
	limit = 7
	check()
	expect(8, "size[sdb] size[sdc] used[sdb] used[sdc] 1 entity "+full)
	for range 11 { // sdb is deleted after 10 s: there is room for sdd
		send(8, disks("sdc", "95", "sdd", "1"))
	}
	expect(8, "size[sdc] used[sdc] 1 entity "+full)
	check()
	expect(8, "size[sdc] size[sdd] used[sdc] used[sdd] ")
	limit = 0
	check()
	limit = 4
	check()
	expect(8, "size[sdc] used[sdc] 1 entity "+full)
	if !v.countDiscovery()[0].held {
		t.Error("no Template is held")
	}
	changes := v.discoveries.Load()
	for range 12 { // sdd is deleted: nothing waits
		send(8, disks("sdc", "95"))
	}
	if v.discoveries.Load() == changes {
		t.Error("a shorter list of a held Template is no change: it would stay held")
	}
	if check(); v.countDiscovery()[0].held {
		t.Error("the Template is held though its items fit")
	}
	replayed := newTestView()
	for _, c := range log {
		testenv.NoError(t, replayed.shard.Apply(c))
	}
	if v.shard.Hash(3) != replayed.shard.Hash(3) {
		t.Error("a replay of the journal gives another state")
	}
}
