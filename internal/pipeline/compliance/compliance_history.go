package compliance

import (
	"bytes"
	"context"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/compliancelog"
)

// prepareHistory determines whether the current commit's changes in a partition still have to enter the
// compliance history. A replay leaves out those that history has. Where the entries of history do not lead to
// the runs of the view, because the store is new or older than the snapshot, or has entries of a journal that
// was replaced since, a checkpoint comes first.
func (w *complianceApplier) prepareHistory() {
	p, log := w.p, w.view.history
	if log == nil {
		return
	}
	w.logged = p.logged.Log == w.Position.Log && w.Position.Number <= p.logged.Number
	again := !w.logged && p.logged != p.changed
	if !again && !log.CheckpointDue(p.ID) {
		return
	}
	var states []compliancelog.State
	for _, n := range p.SortedNodes() {
		for i := range p.nodes[n] {
			states = append(states, p.nodes[n][i].historyState(p.Node(n).ID))
		}
	}
	at := w.Received / int64(time.Millisecond)
	log.Checkpoint(p.ID, p.changed, at, states, p.chainSignatures(at), again)
	p.logged = p.changed
}

// recordChange adds an entry to the compliance history if a directive's run differs from the previous run. Both
// are on one node.
func (w *complianceApplier) recordChange(node model.NodeID, before, after *Run) {
	if before.Definition == after.Definition && before.Enforced == after.Enforced && (before.EarlyEndReason() == "") == (after.EarlyEndReason() == "") && bytes.Equal(before.Codes, after.Codes) {
		return
	}
	w.addEntry(compliancelog.Change{Before: before.historyState(node), After: after.historyState(node)})
}

// recordSignedRun adds a history entry for one signed run of a node, whose runs form a hash chain.
func (w *complianceApplier) recordSignedRun(node model.NodeID, before, after *Run, signedMs int64) {
	c := compliancelog.Change{Before: before.historyState(node), After: after.historyState(node), Linked: true, SignedMs: signedMs}
	if difference := signedMs - c.After.Executed; max(difference, -difference) <= maxTimeDifference.Milliseconds() {
		c.After.Executed = signedMs
	}
	w.addEntry(c)
}

// addEntry adds one entry to the compliance history, unless the history already has the current commit's
// entries.
func (w *complianceApplier) addEntry(c compliancelog.Change) {
	w.p.changed = w.Position
	if w.view.history == nil || w.logged {
		return
	}
	w.p.logged = w.Position
	w.changes = append(w.changes, c)
}

// storeHistory passes a partition's new compliance history entries of one commit to the history store, all
// together. The store thus never has only a part of the commit.
func (w *complianceApplier) storeHistory() {
	if len(w.changes) > 0 {
		w.view.history.Append(w.p.ID, w.Position, w.changes)
		clear(w.changes)
		w.changes = w.changes[:0]
	}
}

// historyState converts a directive's run to the form that the compliance history stores.
func (r *Run) historyState(node model.NodeID) compliancelog.State {
	return compliancelog.State{
		Node: node, Unit: r.Unit, Definition: r.Definition, Executed: r.Executed / int64(time.Millisecond), Changed: r.Changed / int64(time.Millisecond),
		Enforced: r.Enforced, Ended: r.EarlyEndReason() != "", Components: r.Components, Codes: r.Codes,
	}
}

// nodeFilter returns a filter that selects one node's compliance history or, for node id zero, the whole
// history. ok is false if the view does not know the node.
func (v *View) nodeFilter(node model.NodeID) (of compliancelog.Selection, ok bool) {
	if node == 0 {
		return of, true
	}
	p := v.shard.PartitionOf(node)
	if p == nil {
		return of, false
	}
	return compliancelog.Selection{Node: node, Partition: p.ID}, true
}

// RunsAt returns from the compliance history each directive's last run on a node before a given time. Node zero
// means all nodes. The list ascends by node and directive.
func (v *View) RunsAt(ctx context.Context, node model.NodeID, at time.Time) ([]compliancelog.State, error) {
	of, ok := v.nodeFilter(node)
	if !ok {
		return nil, nil
	}
	return v.history.StatesAt(ctx, of, at)
}

// Changes calls visit for each changed directive run in a node's compliance history, up to a time. Node zero
// means all nodes. The changes begin at a checkpoint before since.
func (v *View) Changes(ctx context.Context, node model.NodeID, since, until time.Time, visit func(*compliancelog.Change)) error {
	of, ok := v.nodeFilter(node)
	if !ok {
		return nil
	}
	return v.history.Changes(ctx, of, since, until, visit)
}

// Entries calls visit for each entry of a node's compliance history between two times.
func (v *View) Entries(ctx context.Context, node model.NodeID, since, until time.Time, visit func(*compliancelog.Change)) error {
	of, ok := v.nodeFilter(node)
	if !ok {
		return nil
	}
	return v.history.Entries(ctx, of, since, until, visit)
}

// Certificate returns the agent certificate (DER) with a given hash, to verify signed runs, or nil if unknown.
func (v *View) Certificate(ctx context.Context, sum compliancelog.CertificateSum) ([]byte, error) {
	return v.history.Certificate(ctx, sum)
}

// FlushHistory writes a partition's compliance history to disk, up to a journal position.
func (v *View) FlushHistory(ctx context.Context, partition model.Partition, at journal.Position) error {
	if err := v.shard.WaitApplied(ctx, at); err != nil {
		return err
	}
	return v.history.Flush(ctx, partition)
}

// OldestEntryTime returns the time of the oldest compliance history entry, or zero for an empty history.
func (v *View) OldestEntryTime(ctx context.Context) (time.Time, error) {
	return v.history.OldestEntry(ctx)
}
