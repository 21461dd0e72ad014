package event

import (
	"crypto/sha256"
	"fmt"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
)

// SnapshotVersion is the first byte of a snapshot's body. Restore reads no other.
const SnapshotVersion = 1

// Snapshot appends the partition's body to dst and says which position it reflects.
//
// A snapshot replaces the replay of everything up to its position, and with it the
// transitions of those commits: it must not be used for a restart before reactions
// have taken theirs up to that position. Those of its last commit may not have been emitted yet:
// write it beside, WaitApplied, wait for reactions, then let it take its name (store/snapshot does).
func (v *View) Snapshot(id model.Partition, dst []byte) (body []byte, at journal.Position) {
	p := v.partitions[id]
	p.mu.Lock()
	defer p.mu.Unlock()
	// Commits that do not touch the partition leave its own position behind.
	at = p.at
	if applied := v.workers[int(id)%len(v.workers)].applied.Load(); applied > at.Number {
		at = journal.Position{Log: v.log.Load(), Number: applied}
	}
	return p.encode(dst), at
}

// EmptySnapshot is the body of a partition that holds nothing.
func EmptySnapshot() []byte { return []byte{SnapshotVersion, 0, 0} }

// Hash is equal for two partitions that hold the same.
func (v *View) Hash(id model.Partition) [32]byte {
	body, _ := v.Snapshot(id, nil)
	return sha256.Sum256(body)
}

// Restore fills an empty partition from a snapshot's body. Commits up to at are
// passed over for it; replay must begin at the lowest position of all partitions.
// After an error the partition is empty again. Restores of different partitions may
// run at the same time; all must return before the first Deliver (Run may have begun).
func (v *View) Restore(id model.Partition, at journal.Position, body []byte) error {
	p := newPartition(v, id)
	old := v.partitions[id]
	if len(old.nodes) > 0 || len(old.absent) > 0 {
		return fmt.Errorf("restore partition %d: it is not empty", id)
	}
	old.mu.Lock()
	defer old.mu.Unlock()
	if err := p.decode(body); err != nil {
		p.forgetAll()
		return fmt.Errorf("restore partition %d: %w", id, err)
	}
	p.at = at
	old.adopt(p)
	v.restored(id, at)
	return nil
}

// restored moves Applied to the lowest position of each worker's partitions: where
// all are at the journal's head, nothing will be replayed.
func (v *View) restored(id model.Partition, at journal.Position) {
	v.restoreMu.Lock()
	defer v.restoreMu.Unlock()
	v.log.Store(at.Log)
	v.restoredAt[id] = at.Number
	w := v.workers[int(id)%len(v.workers)]
	lowest := at.Number
	for _, p := range w.owned {
		lowest = min(lowest, v.restoredAt[p.id])
	}
	w.applied.Store(lowest)
}

// adopt takes over what another partition value holds.
func (p *partition) adopt(o *partition) {
	p.at, p.nodes, p.freeNodes, p.order = o.at, o.nodes, o.freeNodes, o.order
	p.slots, p.outputs, p.deadlines = o.slots, o.outputs, o.deadlines
	p.problems, p.runners, p.absent, p.absences = o.problems, o.runners, o.absent, o.absences
	p.byStatus, p.bySeverity, p.open = o.byStatus, o.bySeverity, o.open
	p.byCheck, p.rooms = o.byCheck, o.rooms
}

// forgetAll takes the partition's nodes out of what is shared with others.
func (p *partition) forgetAll() {
	for len(p.order) > 0 {
		p.removeNode(p.order[len(p.order)-1])
	}
}
