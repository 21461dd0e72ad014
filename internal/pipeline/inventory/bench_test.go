package inventory

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/inventory"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/journaltest"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/where"
	"github.com/muster-fleet/muster/internal/wire"
)

const (
	fleetNodes    = 20_000
	fleetPackages = 364 // of each node, as an inventory of Debian 12 has
)

// fleetInventory returns random packages of one node in a test fleet. The fleet has six releases with 3,000 packages
// each in three versions. 300 packages are installed everywhere, the others differ from node to node. openssl is old
// on every hundredth node.
func fleetInventory(r *rand.Rand, id int) []inventory.Entry {
	release := id % 6
	list := make([]inventory.Entry, 0, fleetPackages)
	list = append(list, pkg("openssl", []string{"3.0.11-1~deb12u2", "3.0.9-1"}[min(1, max(0, 1-id%100))]))
	add := func(n int) {
		list = append(list, pkg(fmt.Sprintf("package-%04d", n), fmt.Sprintf("%d.%d-%d+deb%du%d", n%7, n%31, n%3, release, r.IntN(3))))
	}
	for n := range 300 {
		add(n)
	}
	for len(list) < fleetPackages {
		add(300 + r.IntN(2700))
		if len(list) == fleetPackages {
			list = inventory.Normalize(list)
		}
	}
	return list
}

// newFleetView returns an inventory view with the inventories of the simulated fleet.
func newFleetView(t testing.TB) *View {
	v := New(shard.New(shard.Options{}))
	r := rand.New(rand.NewPCG(1, 1))
	for id := range fleetNodes {
		b := wire.Batch{StreamKey: wire.StreamKey{Stream: 9}, First: 1, NowMs: 1000, Signals: []wire.Signal{{
			Kind: wire.SignalInventory, AtMs: 1000, Body: wire.AppendInventory(nil, change(true, nil, fleetInventory(r, id)))}}}
		_, body, err := wire.FrameKind(wire.AppendBatch(nil, &b))
		testenv.NoError(t, err)
		c := &journaltest.Commit{At: journal.Position{Log: 1, Number: uint64(id + 1)}, Listened: time.Duration(id) * time.Second, Time: 1e18}
		c.AddEntry(journal.Section(id%model.Partitions), append(wire.AppendBatchRecord(nil, model.NodeID(id+1)), body...))
		testenv.NoError(t, v.shard.Apply(c))
	}
	return v
}

// TestMemoryOfTheFleet loads the inventories of 20,000 nodes, and expects their memory below a limit. Each node has
// 364 packages.
func TestMemoryOfTheFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("applies seven million entries")
	}
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	v := newFleetView(t)
	used := heap() - before
	t.Logf("%d nodes, %d distinct entries: %d MB", fleetNodes, len(v.dictionary.ids), used/1_000_000)
	if used > 50_000_000 {
		t.Errorf("%d bytes in memory, want at most 50 MB", used)
	}
	for expr, want := range map[string]int{
		`inventory.packages.exists(p, p.name == "openssl" && older(p, "3.0.11-1~deb12u2"))`: fleetNodes / 100,
		`inventory.packages.exists(p, p.version.startsWith("3.0.9"))`:                       fleetNodes / 100,
		`inventory.packages.exists(p, p.name == "openssl")`:                                 fleetNodes,
	} {
		c, err := where.CompileSearch(expr)
		testenv.NoError(t, err)
		began, s, found := time.Now(), v.NewSearch(t.Context()), 0
		for id := range fleetNodes {
			if has, _ := s.HasEntry(model.NodeID(id+1), c.EntryTerms()[0]); has {
				found++
			}
		}
		t.Logf("%s: %d nodes in %v", expr, found, time.Since(began).Round(time.Millisecond))
		if found != want {
			t.Errorf("%s: %d nodes, want %d", expr, found, want)
		}
	}
	began, size := time.Now(), 0
	for p := range v.partitions {
		size += len(v.partitions[p].encode(v.dictionary, nil))
	}
	t.Logf("snapshot: %d MB in %v", size/1_000_000, time.Since(began).Round(time.Millisecond))
	runtime.KeepAlive(v)
}

// BenchmarkDailyUpdates updates two packages on each node, and measures how much the inventory history grows. It reports the
// bytes in the journal, in memory and in snapshots.
func BenchmarkDailyUpdates(b *testing.B) {
	v := newFleetView(b)
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	saved := func() (size int) {
		for p := range v.partitions {
			size += len(v.partitions[p].encode(v.dictionary, nil))
		}
		return size
	}
	memory, snapshots, journaled, days, number := heap(), saved(), 0, 0, uint64(fleetNodes)
	for b.Loop() {
		days++
		for id := range fleetNodes {
			before, _ := v.Inventory(model.NodeID(id + 1))
			after := slices.Clone(before.Entries)
			for k := range 2 {
				at := (5*days + k) % fleetPackages
				after[at] = pkg(after[at].Name(), fmt.Sprintf("9.%d-1+deb%du1", days, id%6))
			}
			slices.Sort(after)
			number++
			batch := wire.Batch{StreamKey: wire.StreamKey{Stream: 9}, First: uint64(days + 1), NowMs: 1000, Signals: []wire.Signal{{Kind: wire.SignalInventory, AtMs: 1000, Body: wire.AppendInventory(nil, change(false, before.Entries, after))}}}
			_, body, err := wire.FrameKind(wire.AppendBatch(nil, &batch))
			testenv.NoError(b, err)
			c := &journaltest.Commit{At: journal.Position{Log: 1, Number: number}, Listened: 24 * time.Hour, Time: 1e18 + int64(days)*int64(24*time.Hour)}
			entry := append(wire.AppendBatchRecord(nil, model.NodeID(id+1)), body...)
			journaled += len(entry)
			c.AddEntry(journal.Section(id%model.Partitions), entry)
			testenv.NoError(b, v.shard.Apply(c))
		}
	}
	share := func(bytes int) float64 { return float64(bytes) / fleetNodes / float64(days) }
	b.ReportMetric(share(journaled), "journal-B/node-day")
	b.ReportMetric(share(int(heap()-memory)), "memory-B/node-day")
	b.ReportMetric(share(saved()-snapshots), "snapshot-B/node-day")
	b.ReportMetric(float64(snapshots)/fleetNodes, "snapshot-B/node")
	if list := v.History(1, time.Time{}); len(list) != days || len(list[0].Added) != 2 {
		b.Fatalf("%d differences after %d days: %v", len(list), days, list)
	}
}

// BenchmarkApplyDifference measures applying the update of one package on a node of the fleet.
func BenchmarkApplyDifference(b *testing.B) {
	v := newFleetView(b)
	before, _ := v.Inventory(1)
	after := slices.Clone(before.Entries)
	after[7] = pkg("package-0006", "99")
	slices.Sort(after)
	forth, back := change(false, before.Entries, after), change(false, after, before.Entries)
	number := uint64(fleetNodes)
	for b.Loop() {
		x := forth
		if number%2 == 1 {
			x = back
		}
		number++
		batch := wire.Batch{StreamKey: wire.StreamKey{Stream: 9}, First: number - fleetNodes + 1, NowMs: 1000, Signals: []wire.Signal{{Kind: wire.SignalInventory, AtMs: 1000, Body: wire.AppendInventory(nil, x)}}}
		_, body, _ := wire.FrameKind(wire.AppendBatch(nil, &batch))
		c := &journaltest.Commit{At: journal.Position{Log: 1, Number: number}, Listened: time.Hour * 24, Time: 1e18}
		c.AddEntry(0, append(wire.AppendBatchRecord(nil, 1), body...))
		testenv.NoError(b, v.shard.Apply(c))
	}
}
