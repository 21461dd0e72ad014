package compliance

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/muster-fleet/muster/internal/expect"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/store/compliancelog"
	"github.com/muster-fleet/muster/internal/wire"
)

// View has the last run of each directive on each node, as state computed from the journal. Any goroutine may
// call its methods.
type View struct {
	shard      *shard.Shard
	history    *compliancelog.Store // nil: none
	partitions [model.Partitions]partition
	outcomes   outcomeCache
}

// partition has the runs of one partition (group of nodes), guarded by the mutex of the shard's partition.
type partition struct {
	*shard.Partition
	nodes   [][]Run          // by the shard's index of the node; ascending by unit
	chains  []*Chain         // likewise; nil: no signed run came
	changes changeList       // for TakeChanges
	taken   int64            // the latest time of TakeChanges, Unix ns; no snapshot has it
	changed journal.Position // of the last commit with an entry of history
	logged  journal.Position // of the last entry that history has
}

// Run is the last run of a directive on a node. A fleet has a million runs, so the part that many have in common
// is in an Outcome.
type Run struct {
	Unit       model.UnitID
	DurationMs uint32
	Executed   int64 // end of the run, Unix ns
	Changed    int64 // receive time of the first run with these codes, Unix ns
	*Outcome
}

// Outcome is the result of a run. Equal runs of many nodes share one, so nobody may change it.
type Outcome struct {
	Definition model.DefinitionID // definition that the run was of
	Enforced   bool
	Components int
	Codes      policy.Codes
	notes      *runTexts // nil: none
}

// runTexts has the messages of a run, stored only for runs with messages.
type runTexts struct {
	exceptions []wire.ReportException
	ended      string
}

// Exceptions returns the messages that the run has about single components, in the order of the components.
// Unexpected components have the positions after the last expected one. Nobody may change the result.
func (r *Outcome) Exceptions() []wire.ReportException {
	if r.notes == nil {
		return nil
	}
	return r.notes.exceptions
}

// EarlyEndReason returns why the run ended before its last component. It is empty if the run did not.
func (r *Outcome) EarlyEndReason() string {
	if r.notes == nil {
		return ""
	}
	return r.notes.ended
}

// SetTexts sets the run's messages about single components, and the reason if the run ended early. The run
// keeps exceptions, so the caller may not change them any more. ended is the reason why the run ended before
// its last component, or empty.
func (r *Outcome) SetTexts(exceptions []wire.ReportException, ended string) {
	if r.notes = nil; len(exceptions) > 0 || ended != "" {
		r.notes = &runTexts{exceptions, ended}
	}
}

// Message returns the run's message about the component at a position, or an empty text.
func (r *Outcome) Message(position int) string {
	i, ok := slices.BinarySearchFunc(r.Exceptions(), uint32(position), func(e wire.ReportException, at uint32) int { return cmp.Compare(e.Position, at) })
	if !ok {
		return ""
	}
	return r.notes.exceptions[i].Message
}

// New returns an empty compliance view to which a shard passes journal entries. The shard needs the event
// reducer, too, which reads each report first. Runs that differ from the ones before them become entries of
// history; nil: they do not.
func New(s *shard.Shard, history *compliancelog.Store) *View {
	v := &View{shard: s, history: history}
	s.Add(reducer{v})
	return v
}

// Runs returns copies of each directive's last run on a node, ascending by directive id. Their codes and
// exceptions are shared: nobody may change them.
func (v *View) Runs(node model.NodeID) []Run {
	of := v.shard.PartitionOf(node)
	if of == nil {
		return nil
	}
	p := &v.partitions[of.ID]
	p.Lock()
	defer p.Unlock()
	n, ok := p.Find(node)
	if !ok {
		return nil
	}
	return slices.Clone(p.nodes[n])
}

// LastRun returns the last run of one directive on a node. Nobody may change its codes and exceptions.
func (v *View) LastRun(node model.NodeID, directive model.UnitID) (run Run, ok bool) {
	of := v.shard.PartitionOf(node)
	if of == nil {
		return run, false
	}
	p := &v.partitions[of.ID]
	p.Lock()
	defer p.Unlock()
	n, ok := p.Find(node)
	if !ok {
		return run, false
	}
	at, ok := FindRun(p.nodes[n], directive)
	if ok {
		run = p.nodes[n][at]
	}
	return run, ok
}

// Definitions returns the ids of compiled directives that runs in memory or in compliance history refer to.
func (v *View) Definitions() map[model.DefinitionID]bool {
	named := map[model.DefinitionID]bool{}
	if v.history != nil {
		named = v.history.Definitions()
	}
	for i := range v.partitions {
		p := &v.partitions[i]
		p.Lock()
		for _, n := range p.SortedNodes() {
			for k := range p.nodes[n] {
				named[p.nodes[n][k].Definition] = true
			}
		}
		p.Unlock()
	}
	return named
}

// reducer applies journal entries to a compliance View, as the interface shard.Reducer demands. It implements
// shard.Reducer.
type reducer struct{ *View }

// SectionVersion is the version of the compliance view's section in snapshots.
const SectionVersion = 2

// Section returns the name and version of the compliance view's part of a snapshot. It implements shard.Reducer.
func (reducer) Section() shard.Section {
	return shard.Section{Name: "compliance", Version: SectionVersion}
}

// Claims lists the kinds of journal entries that the reducer receives, namely directive reports. It implements
// shard.Reducer. The event reducer claims the reports and tests them.
func (reducer) Claims() shard.Claims {
	return shard.Claims{Copies: []wire.SignalKind{wire.SignalReport}}
}

// Reset removes all runs of a partition from memory. It implements shard.Reducer.
func (v reducer) Reset(p *shard.Partition, _ *expect.Engine) {
	of := partition{Partition: p, changes: changeList{overflow: true}}
	if v.history != nil {
		of.logged = v.history.Last(p.ID)
	}
	v.partitions[p.ID] = of
}

// AddNode adds an empty list of runs for a new node of the partition. It implements shard.Reducer.
func (v reducer) AddNode(p *shard.Partition, n uint32) {
	if of := &v.partitions[p.ID]; int(n) == len(of.nodes) {
		of.nodes, of.chains = append(of.nodes, nil), append(of.chains, nil)
	}
}

// RemoveNode removes all runs of a node. It implements shard.Reducer.
func (v reducer) RemoveNode(p *shard.Partition, n uint32) {
	of := &v.partitions[p.ID]
	of.nodes[n], of.chains[n] = nil, nil
	of.changes.add(p.Node(n).ID, 0)
}

// MoveNode does nothing when a node changes its namespace, because runs do not depend on namespaces. It implements
// shard.Reducer.
func (reducer) MoveNode(*shard.Partition, uint32, model.NamespaceID) {}

// Encode appends the runs of all nodes of a partition to a snapshot. It implements shard.Reducer.
func (v reducer) Encode(p *shard.Partition, dst []byte) []byte { return v.partitions[p.ID].encode(dst) }

// Decode reads the runs of all nodes of a partition from a snapshot. It implements shard.Reducer.
func (v reducer) Decode(p *shard.Partition, d *shard.Decoder) {
	v.partitions[p.ID].decode(d, &v.outcomes)
}

// NewApplier returns a complianceApplier, with which one worker goroutine applies journal entries to the view.
// It implements shard.Reducer.
func (v reducer) NewApplier(w *shard.Worker) shard.Applier {
	return &complianceApplier{Worker: w, view: v.View}
}

// complianceApplier applies journal commits to the view. Each worker of the shard has one.
type complianceApplier struct {
	*shard.Worker
	view   *View
	p      *partition // being applied
	logged bool       // history has the entries of this commit in the partition already
	signed wire.SignedRun
	// changes are the entries of history in the partition.
	changes []compliancelog.Change
}

// EnterPartition tells the applier to which partition (group of nodes) the next journal entries belong. It
// implements shard.Applier.
func (w *complianceApplier) EnterPartition(p *shard.Partition) {
	w.storeHistory()
	w.p = &w.view.partitions[p.ID]
	w.prepareHistory()
}

// ApplySignal stores the run of a directive report, unless the view has a newer run already. It implements
// shard.Applier. The event reducer has tested the report.
func (w *complianceApplier) ApplySignal(n uint32, s *wire.Signal, from *shard.SignalOrigin) shard.Outcome {
	c := w.Definition(s.Definition).AsDirective()
	r, err := w.Report()
	if c == nil || err != nil {
		return shard.Malformed
	}
	signed, linked := &w.signed, false
	if err := signed.Decode(r.Signed); err != nil {
		return shard.Malformed
	}
	executed := w.Received - from.Age(s.AtMs)
	runs := w.p.nodes[n]
	at, found := FindRun(runs, c.Unit)
	if !found {
		runs = insertRun(runs, at, Run{Unit: c.Unit, Outcome: &Outcome{}})
		w.p.nodes[n] = runs
	}
	run := &runs[at]
	if found && executed < run.Executed {
		return shard.Late
	}
	if len(r.Signed) > 0 {
		linked = w.extendChain(n, signed, &policy.LinkedRun{
			UnixMs: signed.UnixMs, Definition: w.Definition(s.Definition).Hash, Enforced: r.Enforced, Ended: r.Ended != "", Components: len(c.Components), Codes: r.Codes,
		}, from.Stream.Stream)
	}
	before := *run
	changed := !found || run.Definition != c.ID || !bytes.Equal(run.Codes, r.Codes)
	if changed {
		run.Changed = w.Received
	}
	run.Executed, run.DurationMs = executed, r.DurationMs
	texts := run.EarlyEndReason() != r.Ended || !slices.Equal(run.Exceptions(), r.Exceptions)
	if changed || texts || run.Enforced != r.Enforced {
		run.Outcome = w.view.outcomes.share(c, r)
	}
	changed = changed || texts
	if changed || before.mayBeOverdue(c, max(w.Received, w.p.taken)) {
		w.p.changes.add(w.p.Node(n).ID, c.Unit)
	}
	if linked {
		w.recordSignedRun(w.p.Node(n).ID, &before, run, int64(signed.UnixMs))
	} else {
		w.recordChange(w.p.Node(n).ID, &before, run)
	}
	return shard.Applied
}

// FindRun returns the index at which a run of a directive is, or belongs, in a sorted list. For a missing run
// it returns the index where to insert the run. The list ascends by directive. It is a loop of its own, because
// slices.BinarySearchFunc copies a run per step.
func FindRun(runs []Run, unit model.UnitID) (int, bool) {
	low, high := 0, len(runs)
	for low < high {
		if mid := int(uint(low+high) >> 1); runs[mid].Unit < unit {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, low < len(runs) && runs[low].Unit == unit
}

// insertRun inserts a run at an index of a node's sorted list. The list grows by a sixteenth, because it seldom
// changes after the first runs.
func insertRun(runs []Run, at int, r Run) []Run {
	if len(runs) == cap(runs) {
		runs = append(make([]Run, 0, len(runs)+len(runs)/16+1), runs...)
	}
	return slices.Insert(runs, at, r)
}

// ApplyRecord does nothing, because compliance depends on agents' reports only. It implements shard.Applier.
func (*complianceApplier) ApplyRecord(*wire.Record) {}

// ApplyLoss does nothing about reports that an agent lost, because the shard counts lost reports. It implements
// shard.Applier.
func (*complianceApplier) ApplyLoss(uint32, *wire.Gap) {}

// RemoveStates deletes the runs of one directive, or of all, on one node, or on all nodes. It implements
// shard.Applier.
func (w *complianceApplier) RemoveStates(id model.NodeID, n uint32, m *wire.ForgetRecord) {
	for _, n := range w.p.AffectedNodes(id, n) {
		runs := w.p.nodes[n]
		for at := len(runs) - 1; at >= 0; at-- {
			if m.Check == 0 || runs[at].Unit == m.Check {
				w.recordChange(w.p.Node(n).ID, &runs[at], &Run{Unit: runs[at].Unit, Executed: w.Received, Outcome: &Outcome{}})
				w.p.changes.add(w.p.Node(n).ID, runs[at].Unit)
				runs = slices.Delete(runs, at, at+1)
			}
		}
		w.p.nodes[n] = runs
	}
}

// ApplyLivenessChange does nothing, because runs do not depend on the connection of a node. It implements
// shard.Applier.
func (*complianceApplier) ApplyLivenessChange(uint32, shard.LivenessChange) {}

// DeadlinePeriod returns zero, because compliance runs have no time-outs. It implements shard.Applier.
func (*complianceApplier) DeadlinePeriod(uint32) int64 { return 0 }

// Expire does nothing, because the compliance view has no time-outs. It implements shard.Applier.
func (*complianceApplier) Expire([]uint32) {}

// EndCommit passes a commit's compliance history entries to the history writer, and waits for a slow writer. It
// waits while the writer is too far behind. It implements shard.Applier.
func (w *complianceApplier) EndCommit() {
	w.storeHistory()
	if w.view.history != nil {
		w.view.history.AwaitCapacity()
	}
}
