package inventory

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/expect"
	"github.com/muster-fleet/muster/internal/inventory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/wire"
)

// View has the inventories of all nodes, computed from the journal. Any goroutine may call its methods.
type View struct {
	shard      *shard.Shard
	dictionary *dictionary
	partitions [model.Partitions]partition

	changed chan struct{} // capacity 1: TakeChanges has changes
	mu      sync.Mutex
	changes map[model.NodeID]uint32
}

// partition has the inventories of the nodes in one partition, guarded by the mutex of the shard's partition.
type partition struct {
	*shard.Partition
	nodes []node // by the shard's index of the node
}

// node is the inventory of a node as stored in memory, with its history.
type node struct {
	ids      []uint32 // of its entries, ascending
	history  []difference
	sum      uint64
	received int64 // receive time of the last change, Unix ns; zero: the node has no inventory
	changed  int64 // receive time of the last change of an entry that is not volatile, Unix ns
	bytes    int   // of its entries
	stale    bool  // a change did not fit: only a complete inventory does
}

// difference is one inventory entry that a change added or removed, with the time of the change.
type difference struct {
	at uint32 // Unix seconds
	id uint32 // of the entry; the highest bit is set if it went
}

// went is the bit of difference.id that marks a removed entry.
const went = 1 << 31

// Bounds of the change history of a node.
const (
	historyAge = 31 * 24 * time.Hour
	maxHistory = 500 // differences
)

// MaxNamespaceEntries limits the inventory entries of all nodes of a namespace.
const MaxNamespaceEntries = 40_000_000

// New returns an empty inventory view and registers the view as a reducer of a shard.
func New(s *shard.Shard) *View {
	v := &View{shard: s, dictionary: newDictionary(), changed: make(chan struct{}, 1), changes: map[model.NodeID]uint32{}}
	s.Add(reducer{v})
	return v
}

// Changed returns a channel that signals when TakeChanges has new inventory changes.
func (v *View) Changed() <-chan struct{} { return v.changed }

// TakeChanges returns for each node the inventory sections, such as packages, that changed since the last call.
// They come per node, as a bit set of inventory.Section.Bit.
func (v *View) TakeChanges() map[model.NodeID]uint32 {
	v.mu.Lock()
	defer v.mu.Unlock()
	changes := v.changes
	v.changes = map[model.NodeID]uint32{}
	return changes
}

// read calls fn with the inventory of a node, while the node's partition is locked. It does nothing if the node
// has no inventory.
func (v *View) read(id model.NodeID, fn func(*node)) {
	of := v.shard.PartitionOf(id)
	if of == nil {
		return
	}
	p := &v.partitions[of.ID]
	p.Lock()
	defer p.Unlock()
	if n, ok := p.Find(id); ok && p.nodes[n].received != 0 {
		fn(&p.nodes[n])
	}
}

// Sum returns the checksum of a node's inventory. It returns zero if the node has no inventory, or if the next change
// must contain the whole inventory.
func (v *View) Sum(id model.NodeID) (sum uint64) {
	v.read(id, func(n *node) {
		if !n.stale {
			sum = n.sum
		}
	})
	return sum
}

// Inventory is the inventory of a node.
type Inventory struct {
	Entries  []inventory.Entry // sorted
	Received time.Time         // of the last change
	Changed  time.Time         // of the last change of an entry that is not volatile
	Stale    bool              // a change is lost: the agent's next complete inventory repairs that
}

// Inventory returns the inventory of a node. ok is false if the node has none.
func (v *View) Inventory(id model.NodeID) (x Inventory, ok bool) {
	v.read(id, func(n *node) {
		ok = true
		x = Inventory{Entries: v.dictionary.entries(n.ids), Received: time.Unix(0, n.received), Changed: time.Unix(0, n.changed), Stale: n.stale}
	})
	slices.Sort(x.Entries)
	return x, ok
}

// Difference has the inventory entries that were added and removed at one time.
type Difference struct {
	At             time.Time
	Added, Removed []inventory.Entry
}

// History returns the differences of a node's inventory since a time, oldest first. Entries of volatile sections have no history.
func (v *View) History(id model.NodeID, since time.Time) (list []Difference) {
	v.read(id, func(n *node) {
		v.dictionary.mu.RLock()
		defer v.dictionary.mu.RUnlock()
		for _, d := range n.history {
			at := time.Unix(int64(d.at), 0)
			if at.Before(since) {
				continue
			}
			if len(list) == 0 || !list[len(list)-1].At.Equal(at) {
				list = append(list, Difference{At: at})
			}
			last, entry := &list[len(list)-1], v.dictionary.slots[d.id&^went].entry
			if d.id&went != 0 {
				last.Removed = append(last.Removed, entry)
			} else {
				last.Added = append(last.Added, entry)
			}
		}
	})
	return list
}

// Admit checks that an agent's inventory change is valid before the journal stores the change. It tests the form, and
// the namespace's limit of entries. It returns the reason for a refusal, or an empty text.
func (v *View) Admit(namespace model.NamespaceID, body []byte) (reason string) {
	var x wire.Inventory
	if err := x.Decode(body); err != nil {
		return err.Error()
	}
	for _, list := range [][]model.InventoryEntry{x.Added, x.Removed} {
		for _, e := range list {
			if _, ok := inventory.ParseEntry(e); !ok {
				return fmt.Sprintf("an entry of section %d has no name, or has control characters, more than %d fields or more than %d bytes", e.Section, inventory.MaxFields, inventory.MaxEntryBytes)
			}
		}
	}
	v.dictionary.mu.RLock()
	defer v.dictionary.mu.RUnlock()
	if have := v.dictionary.sizes[namespace]; have+len(x.Added)-len(x.Removed) > MaxNamespaceEntries {
		return fmt.Sprintf("the inventories of the namespace have %d entries, at most %d are allowed", have, MaxNamespaceEntries)
	}
	return ""
}

// reducer applies journal entries to the inventories of a View. It implements shard.Reducer.
type reducer struct{ *View }

// SectionVersion is the version of the inventory view's section in snapshots.
const SectionVersion = 1

// Section returns the name and version of the snapshot section that has the inventories.
func (reducer) Section() shard.Section {
	return shard.Section{Name: "inventory", Version: SectionVersion}
}

// Claims lists the kinds of journal entries that the reducer receives, namely inventory changes.
func (reducer) Claims() shard.Claims {
	return shard.Claims{Signals: []wire.SignalKind{wire.SignalInventory}}
}

// Reset removes all inventories of one partition (a share of the nodes) from memory. A snapshot of the
// partition is restored next. The nodes have released their entries.
func (v reducer) Reset(p *shard.Partition, _ *expect.Engine) {
	v.partitions[p.ID] = partition{Partition: p}
}

// AddNode allocates the memory for a new node's inventory in its partition (a share of all nodes).
func (v reducer) AddNode(p *shard.Partition, n uint32) {
	if of := &v.partitions[p.ID]; int(n) == len(of.nodes) {
		of.nodes = append(of.nodes, node{})
	}
}

// RemoveNode removes the inventory of a node from the partition.
func (v reducer) RemoveNode(p *shard.Partition, n uint32) {
	v.remove(p.Node(n).Namespace, &v.partitions[p.ID].nodes[n])
}

// remove removes the inventory of a node.
func (v *View) remove(namespace model.NamespaceID, n *node) {
	d := v.dictionary
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range n.ids {
		d.releaseLocked(id)
	}
	for _, one := range n.history {
		d.releaseLocked(one.id &^ went)
	}
	d.sizes[namespace] -= len(n.ids)
	*n = node{}
}

// MoveNode moves a node's number of inventory entries from the old namespace's total to the new namespace's
// total.
func (v reducer) MoveNode(p *shard.Partition, n uint32, from model.NamespaceID) {
	d, size := v.dictionary, len(v.partitions[p.ID].nodes[n].ids)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sizes[from] -= size
	d.sizes[p.Node(n).Namespace] += size
}

// Encode appends the inventories of a partition to a snapshot.
func (v reducer) Encode(p *shard.Partition, dst []byte) []byte {
	return v.partitions[p.ID].encode(v.dictionary, dst)
}

// Decode reads the inventories of a partition from a snapshot.
func (v reducer) Decode(p *shard.Partition, d *shard.Decoder) {
	v.partitions[p.ID].decode(v.dictionary, d)
}

// NewApplier returns an applier, which applies journal entries to inventories on one worker goroutine.
func (v reducer) NewApplier(w *shard.Worker) shard.Applier {
	return &applier{Worker: w, view: v.View, changes: map[model.NodeID]uint32{}}
}

// applier applies journal commits to the inventories. Each worker of the shard has one.
type applier struct {
	*shard.Worker
	view    *View
	p       *partition // being applied
	changes map[model.NodeID]uint32
}

// EnterPartition tells the applier to which partition (share of the nodes) the next entries of a commit belong.
func (w *applier) EnterPartition(p *shard.Partition) { w.p = &w.view.partitions[p.ID] }

// ApplySignal applies an agent's message about a changed inventory to the inventory of its node. A difference to another
// inventory than the node has is late: it leaves the inventory stale, and the agent sends a complete one at the start
// of its next session.
func (w *applier) ApplySignal(n uint32, s *wire.Signal, _ *shard.SignalOrigin) shard.Outcome {
	var x wire.Inventory
	if err := x.Decode(s.Body); err != nil || x.Complete && len(x.Removed) > 0 {
		return shard.Malformed
	}
	of := &w.p.nodes[n]
	if !x.Complete && (of.stale || of.received == 0 || x.Base != of.sum) {
		of.stale = of.received != 0
		return shard.Late
	}
	d := w.view.dictionary
	d.mu.Lock()
	defer d.mu.Unlock()
	next, ok := d.applyLocked(of, &x)
	if !ok {
		of.stale = of.received != 0
		return shard.Malformed
	}
	added, removed := inventory.Difference(of.ids, next.ids)
	next.history = of.history
	if next.received, next.changed = w.Received, of.changed; of.received == 0 {
		next.changed = w.Received // the first inventory is no change
	} else {
		w.recordHistoryLocked(&next, added, removed)
	}
	for _, id := range slices.Concat(added, removed) {
		w.changes[w.p.Node(n).ID] |= d.slots[id].entry.Section().Bit()
	}
	if of.received == 0 {
		w.changes[w.p.Node(n).ID] = ^uint32(0) // conditions that an inventory decides were false
	}
	for _, id := range removed {
		d.releaseLocked(id)
	}
	d.sizes[w.p.Node(n).Namespace] += len(next.ids) - len(of.ids)
	*of = next
	return shard.Applied
}

// applyLocked applies an inventory change to a node's entry ids while the caller holds the lock. The caller
// holds the lock. It acquires the ids of entries that the node did not have, and releases none. ok is false,
// and nothing is acquired, for a change that its sum contradicts.
func (d *dictionary) applyLocked(of *node, x *wire.Inventory) (next node, ok bool) {
	gone := make(map[uint32]bool, len(x.Removed))
	if !x.Complete {
		next.sum, next.bytes = of.sum, of.bytes
	}
	for _, e := range x.Removed {
		entry, _ := inventory.ParseEntry(e)
		id, known := d.ids[entry]
		if !known || gone[id] || !has(of.ids, id) {
			return next, false
		}
		gone[id] = true
		next.sum -= d.slots[id].hash
		next.bytes -= len(entry)
	}
	entries := make([]inventory.Entry, len(x.Added))
	for i, e := range x.Added {
		if entries[i], ok = inventory.ParseEntry(e); !ok {
			return next, false
		}
		next.sum += entries[i].Hash()
		next.bytes += len(entries[i])
	}
	slices.Sort(entries)
	size := len(entries)
	if !x.Complete {
		size += len(of.ids) - len(gone)
	}
	if next.sum != x.Sum || size > inventory.MaxEntries || next.bytes > inventory.MaxBytes || len(slices.Compact(entries)) != len(x.Added) {
		return next, false
	}
	for _, e := range entries {
		if id, known := d.ids[e]; known && !x.Complete && !gone[id] && has(of.ids, id) {
			return next, false
		}
	}
	next.ids = make([]uint32, 0, size)
	if !x.Complete {
		for _, id := range of.ids {
			if !gone[id] {
				next.ids = append(next.ids, id)
			}
		}
	}
	for _, e := range entries {
		id := d.acquireLocked(e)
		if has(of.ids, id) {
			d.releaseLocked(id) // the node has a reference already
		}
		next.ids = append(next.ids, id)
	}
	slices.Sort(next.ids)
	return next, true
}

// has reports whether an ascending list contains an id.
func has(ids []uint32, id uint32) bool {
	_, ok := slices.BinarySearch(ids, id)
	return ok
}

// recordHistoryLocked adds changed entries to a node's inventory history, and deletes the oldest above the
// limit. The caller holds the lock of the dictionary.
func (w *applier) recordHistoryLocked(n *node, added, removed []uint32) {
	d, at := w.view.dictionary, uint32(w.Received/int64(time.Second))
	byEntry := func(x, y uint32) int { return strings.Compare(string(d.slots[x].entry), string(d.slots[y].entry)) } // not by id: a replay gives others
	slices.SortFunc(added, byEntry)
	slices.SortFunc(removed, byEntry)
	for i, id := range slices.Concat(removed, added) {
		if inventory.SchemaOf(d.slots[id].entry.Section()).Volatile {
			continue
		}
		d.slots[id].refs++
		n.changed = w.Received
		if i < len(removed) {
			id |= went
		}
		n.history = append(n.history, difference{at, id})
	}
	drop := max(0, len(n.history)-maxHistory)
	for drop < len(n.history) && w.Received-int64(n.history[drop].at)*int64(time.Second) > int64(historyAge) {
		drop++
	}
	for _, one := range n.history[:drop] {
		d.releaseLocked(one.id &^ went)
	}
	n.history = slices.Delete(n.history, 0, drop)
}

// ApplyRecord does nothing, because no journal record concerns inventories.
func (*applier) ApplyRecord(*wire.Record) {}

// ApplyLoss does nothing about an agent's lost messages, because the next inventory checksum reveals the loss.
func (*applier) ApplyLoss(uint32, *wire.Gap) {}

// RemoveStates removes the inventory of a node that was deleted.
func (w *applier) RemoveStates(id model.NodeID, n uint32, m *wire.ForgetRecord) {
	if m.Check != 0 || id == 0 || n == shard.NoNode {
		return
	}
	w.view.remove(w.p.Node(n).Namespace, &w.p.nodes[n])
	w.changes[id] = ^uint32(0)
}

// ApplyLivenessChange does nothing, because inventories do not depend on a node's connection.
func (*applier) ApplyLivenessChange(uint32, shard.LivenessChange) {}

// DeadlinePeriod returns zero, because inventories have no time-outs.
func (*applier) DeadlinePeriod(uint32) int64 { return 0 }

// Expire does nothing, because inventories have no time-outs.
func (*applier) Expire([]uint32) {}

// EndCommit makes the inventories that the commit changed available to TakeChanges.
func (w *applier) EndCommit() {
	if len(w.changes) == 0 {
		return
	}
	w.view.mu.Lock()
	for id, sections := range w.changes {
		w.view.changes[id] |= sections
	}
	w.view.mu.Unlock()
	clear(w.changes)
	pause.Wake(w.view.changed)
}
