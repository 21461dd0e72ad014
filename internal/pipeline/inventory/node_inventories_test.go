package inventory

import (
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
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

// testView is a test view on its own shard, with the commits that the view has applied.
type testView struct {
	*View
	commits []journal.Commit
	numbers map[model.NodeID]uint64
}

// newTestView returns an empty view for tests.
func newTestView() *testView {
	return &testView{View: New(shard.New(shard.Options{})), numbers: map[model.NodeID]uint64{}}
}

// testPartition returns the number of the partition (share of the nodes) with a node, for tests.
func testPartition(id model.NodeID) model.Partition { return model.Partition(id % 3) }

// apply applies one journal record as a test commit.
func (v *testView) apply(t testing.TB, partition model.Partition, record []byte) {
	t.Helper()
	number := uint64(len(v.commits) + 1)
	c := &journaltest.Commit{At: journal.Position{Log: 1, Number: number}, Listened: time.Duration(number) * time.Minute, Time: 1e18 + int64(number)*int64(time.Minute)}
	c.AddEntry(journal.Section(partition), record)
	v.commits = append(v.commits, c)
	testenv.NoError(t, v.shard.Apply(c))
}

// send applies a change of a node's inventory to the view, as the node's next signal.
func (v *testView) send(t testing.TB, id model.NodeID, x *wire.Inventory) {
	t.Helper()
	v.numbers[id]++
	b := wire.Batch{StreamKey: wire.StreamKey{Stream: 9}, First: v.numbers[id], NowMs: 1000, Signals: []wire.Signal{{Kind: wire.SignalInventory, AtMs: 1000, Body: wire.AppendInventory(nil, x)}}}
	_, body, err := wire.FrameKind(wire.AppendBatch(nil, &b))
	testenv.NoError(t, err)
	v.apply(t, testPartition(id), append(wire.AppendBatchRecord(nil, id), body...))
}

// change returns an agent's message about a changed inventory, for tests. It has the difference between before and
// after or, if complete is true, all of after.
func change(complete bool, before, after []inventory.Entry) *wire.Inventory {
	if complete {
		before = nil
	}
	added, removed := inventory.Difference(before, after)
	x := &wire.Inventory{Complete: complete, Base: inventory.Sum(before), Sum: inventory.Sum(after)}
	for _, e := range added {
		x.Added = append(x.Added, e.Wire())
	}
	for _, e := range removed {
		x.Removed = append(x.Removed, e.Wire())
	}
	return x
}

// pkg returns the inventory entry of a Debian package with a name and a version.
func pkg(name, version string) inventory.Entry {
	return inventory.New(inventory.Packages, name, version, "amd64", inventory.Deb)
}

// TestChangesOfInventories applies random changes and removals of inventories, and compares the view with a simple
// reference. It also compares a view restored from a snapshot, and the dictionary's reference counts. Some changes are
// lost.
func TestChangesOfInventories(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		v, want := newTestView(), map[model.NodeID][]inventory.Entry{}
		for range 60 {
			id := model.NodeID(1 + r.IntN(6))
			after := slices.Clone(want[id])
			for range 1 + r.IntN(4) {
				e := pkg(fmt.Sprint("p", r.IntN(8)), fmt.Sprint(r.IntN(3)))
				if r.IntN(4) == 0 {
					e = inventory.New(inventory.Processes, fmt.Sprint("d", r.IntN(3)), "root")
				}
				if i := slices.Index(after, e); i >= 0 {
					after = slices.Delete(after, i, i+1)
				} else {
					after = append(after, e)
				}
			}
			after = inventory.Normalize(after)
			switch r.IntN(12) {
			case 0: // lost: the next difference does not fit, and only a complete inventory repairs that
				if len(want[id]) > 0 {
					v.send(t, id, change(false, after, want[id]))
					if len(inventory.Normalize(slices.Clone(after))) > 0 && v.Sum(id) != 0 && !slices.Equal(after, want[id]) {
						t.Fatalf("seed %d: node %d is not stale", seed, id)
					}
					v.send(t, id, change(true, nil, want[id]))
				}
			case 1:
				v.apply(t, testPartition(id), wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordForget, Node: id, Forget: &wire.ForgetRecord{}}))
				delete(want, id)
			default:
				_, known := want[id]
				v.send(t, id, change(!known || r.IntN(5) == 0, want[id], after))
				want[id] = after
			}
		}
		for id := range model.NodeID(7) {
			got, _ := v.Inventory(id)
			if !slices.Equal(got.Entries, want[id]) || v.Sum(id) != inventory.Sum(want[id]) {
				t.Fatalf("seed %d: node %d has %q, want %q", seed, id, got.Entries, want[id])
			}
			// The differences lead from the present back to the past.
			past := slices.Clone(got.Entries)
			for _, d := range slices.Backward(v.History(id, time.Time{})) {
				for _, e := range d.Added {
					if i := slices.Index(past, e); i >= 0 {
						past = slices.Delete(past, i, i+1)
					} else {
						t.Fatalf("seed %d: node %d: %q was added and is not there", seed, id, e)
					}
				}
				past = append(past, d.Removed...)
			}
		}
		v.checkReferences(t)
		first := newTestView()
		for i, c := range v.commits {
			testenv.NoError(t, first.shard.Apply(c))
			if i%7 != 0 {
				continue
			}
			second := newTestView()
			for p := range model.Partition(3) {
				body, at := first.shard.Snapshot(p, nil)
				testenv.NoError(t, second.shard.Restore(p, at, body))
			}
			for _, c := range v.commits[i+1:] {
				testenv.NoError(t, second.shard.Apply(c))
			}
			for p := range model.Partition(3) {
				if second.shard.Hash(p) != v.shard.Hash(p) {
					t.Fatalf("seed %d: a snapshot after %d commits gives another state", seed, i+1)
				}
			}
			second.checkReferences(t)
		}
	}
}

// checkReferences compares the dictionary's reference counts with the ids in inventories and histories.
func (v *View) checkReferences(t *testing.T) {
	t.Helper()
	want, size := map[uint32]uint32{}, 0
	for p := range v.partitions {
		for i := range v.partitions[p].nodes {
			n := &v.partitions[p].nodes[i]
			for _, id := range n.ids {
				want[id]++
			}
			for _, one := range n.history {
				want[one.id&^went]++
			}
			size += len(n.ids)
		}
	}
	got, sizes := map[uint32]uint32{}, 0
	for _, id := range v.dictionary.ids {
		got[id] = v.dictionary.slots[id].refs
	}
	for _, n := range v.dictionary.sizes {
		sizes += n
	}
	if !maps.Equal(got, want) || sizes != size || len(v.dictionary.free)+len(got) != len(v.dictionary.slots) {
		t.Fatalf("references %v, want %v; %d entries, want %d", got, want, sizes, size)
	}
}

// TestMalformedChangesAreIgnored sends changes that contradict the stored inventory, and expects the inventory
// to stay unchanged.
func TestMalformedChangesAreIgnored(t *testing.T) {
	v := newTestView()
	a, b := pkg("a", "1"), pkg("b", "1")
	complete := change(true, nil, []inventory.Entry{a})
	v.send(t, 1, complete)
	for name, x := range map[string]*wire.Inventory{
		"sum":           {Base: a.Hash(), Sum: 7, Added: []model.InventoryEntry{b.Wire()}},
		"removed twice": {Base: a.Hash(), Sum: -a.Hash(), Removed: []model.InventoryEntry{a.Wire(), a.Wire()}},
		"not there":     {Base: a.Hash(), Sum: a.Hash() - b.Hash(), Removed: []model.InventoryEntry{b.Wire()}},
		"added again":   {Base: a.Hash(), Sum: 2 * a.Hash(), Added: []model.InventoryEntry{a.Wire()}},
		"added twice":   {Complete: true, Sum: 2 * b.Hash(), Added: []model.InventoryEntry{b.Wire(), b.Wire()}},
		"no name":       {Complete: true, Added: []model.InventoryEntry{{Section: 5, Fields: []string{"", "1"}}}},
	} {
		v.send(t, 1, x)
		if got, _ := v.Inventory(1); !slices.Equal(got.Entries, []inventory.Entry{a}) || !got.Stale || v.Sum(1) != 0 {
			t.Errorf("%s: %+v", name, got)
		}
		v.checkReferences(t)
		v.send(t, 1, complete)
		if got, _ := v.Inventory(1); got.Stale {
			t.Errorf("%s: a complete inventory did not repair the node", name)
		}
	}
	if v.Admit(1, wire.AppendInventory(nil, complete)) != "" || v.Admit(1, []byte{0xff}) == "" || v.Admit(1, wire.AppendInventory(nil, &wire.Inventory{Added: []model.InventoryEntry{{Section: 5, Fields: []string{"a\n"}}}})) == "" {
		t.Error("Admit admits malformed changes, or refuses a good one")
	}
}

// TestHistoryIsBounded applies more changes than a node's history may contain, and expects the view to delete
// the oldest.
func TestHistoryIsBounded(t *testing.T) {
	v := newTestView()
	before := []inventory.Entry{pkg("a", "0")}
	v.send(t, 1, change(true, nil, before))
	if h := v.History(1, time.Time{}); h != nil {
		t.Errorf("the first inventory is a change: %v", h)
	}
	for i := range maxHistory {
		after := []inventory.Entry{pkg("a", fmt.Sprint(i+1)), inventory.New(inventory.Processes, fmt.Sprint("sh", i))}
		v.send(t, 1, change(false, before, after))
		before = after
	}
	h := v.History(1, time.Time{})
	if len(h) != maxHistory/2 || len(h[0].Added) != 1 || len(h[0].Removed) != 1 || h[len(h)-1].Added[0] != pkg("a", fmt.Sprint(maxHistory)) {
		t.Errorf("%d differences, the first %v", len(h), h[0])
	}
	if since := h[len(h)-2].At; len(v.History(1, since)) != 2 {
		t.Errorf("%d differences since %v", len(v.History(1, since)), since)
	}
	v.checkReferences(t)
}

// TestSearchFindsEntries searches while new entries reuse the ids of removed entries, and expects the right nodes.
func TestSearchFindsEntries(t *testing.T) {
	v := newTestView()
	older, err := where.CompileSearch(`inventory.packages.exists(p, p.name == "openssl" && older(p, "3.0.11-1~deb12u2"))`)
	testenv.NoError(t, err)
	root, err := where.CompileSearch(`inventory.processes.exists(p, p.user == "root")`)
	testenv.NoError(t, err)
	s := v.NewSearch(t.Context())
	r := rand.New(rand.NewPCG(1, 1))
	want := map[model.NodeID][]inventory.Entry{}
	for range 300 {
		id := model.NodeID(1 + r.IntN(5))
		var after []inventory.Entry
		wantOlder, wantRoot := r.IntN(2) == 0, r.IntN(2) == 0
		for range 30 {
			after = append(after, pkg(fmt.Sprint("x", r.IntN(99)), fmt.Sprint(r.IntN(9))))
		}
		if after = append(after, pkg("openssl", "3.0.11-1~deb12u2")); wantOlder {
			after = append(after, pkg("openssl", fmt.Sprint("3.0.", r.IntN(11), "-1")))
		}
		if wantRoot {
			after = append(after, inventory.New(inventory.Processes, fmt.Sprint("d", r.IntN(99)), "root"))
		}
		after = inventory.Normalize(after)
		v.send(t, id, change(true, want[id], after))
		want[id] = after
		if got, _ := s.HasEntry(id, older.EntryTerms()[0]); got != wantOlder {
			t.Fatalf("node with %q is found: %v", after, got)
		}
		if got, _ := s.HasEntry(id, root.EntryTerms()[0]); got != wantRoot {
			t.Fatalf("node with %q is found: %v", after, got)
		}
	}
	if _, known := s.HasEntry(99, root.EntryTerms()[0]); known {
		t.Error("a node without an inventory is known")
	}
}

// TestSectionMatchesGoldenFile encodes inventories for a snapshot, and compares the bytes with a golden file.
func TestSectionMatchesGoldenFile(t *testing.T) {
	v := newTestView()
	first := []inventory.Entry{inventory.New(inventory.System, "kernel", "6.1"), pkg("tar", "1.34")}
	v.send(t, 3, change(true, nil, first))
	v.send(t, 3, change(false, first, []inventory.Entry{first[0], pkg("tar", "1.35")}))
	testenv.Golden(t, "testdata/section-v1.hex", hex.Dump(v.partitions[0].encode(v.dictionary, nil)), "a new SectionVersion")
}

// FuzzDecodeSection decodes random bytes as a partition's inventories, and expects an error or equal bytes after
// encoding. The partition has two nodes.
func FuzzDecodeSection(f *testing.F) {
	seed := newTestView()
	seed.send(f, 3, change(true, nil, []inventory.Entry{pkg("tar", "1.34"), pkg("vim", "9")}))
	seed.send(f, 6, change(true, nil, []inventory.Entry{pkg("tar", "1.34")}))
	seed.send(f, 6, change(false, []inventory.Entry{pkg("tar", "1.34")}, []inventory.Entry{pkg("tar", "1.35")}))
	f.Add(seed.partitions[0].encode(seed.dictionary, nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		var bytes [2][]byte
		for i := range bytes {
			v := newTestView()
			v.send(t, 3, change(true, nil, []inventory.Entry{pkg("a", "1")}))
			v.send(t, 6, change(true, nil, []inventory.Entry{pkg("a", "1")}))
			of := &v.partitions[0]
			for n := range of.nodes {
				v.remove(0, &of.nodes[n])
			}
			d := shard.NewDecoder(data)
			of.decode(v.dictionary, d)
			if d.Err() != nil {
				return
			}
			v.checkReferences(t)
			bytes[i] = of.encode(v.dictionary, nil)
			data = bytes[i]
		}
		if !slices.Equal(bytes[0], bytes[1]) {
			t.Fatalf("own bytes differ: %x, %x", bytes[0], bytes[1])
		}
	})
}
