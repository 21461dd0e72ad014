package metric

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/muster-fleet/muster/internal/discovery"
	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/prep"
	"github.com/muster-fleet/muster/internal/trigger"
	"github.com/muster-fleet/muster/internal/wire"
)

// metricApplier applies journal commits to the states of all items and triggers. Each worker of the shard has one.
type metricApplier struct {
	*shard.Worker
	view        *View
	p           *metricPartition     // being applied
	verdicts    uint32               // of this commit in it
	hasVerdicts bool                 // a partition of this commit has new verdicts
	stored      bool                 // the series store has the values of this commit in p
	name        sampleName           // of the value that is being stored
	labels      func() labels.Labels // seriesLabels, made once
	sender      uint32               // node of the last signal in this partition
	changes     uint32               // verdicts by its successive signals

	lists []ruleValue // values of rules in this signal

	charge   nodeTimer
	costs    *costTable
	measured bool // the value being applied is measured
	steps    []prep.StepResult

	block   blockRun
	parsed  prep.ParsedValue
	samples sampleDecoder
	numbers numberWriter
	result  wire.Result // being applied
	texts   textBuffer
	sending sendBuffer
}

// EnterPartition tells the applier to which partition (share of the nodes) the next entries of a commit belong.
func (w *metricApplier) EnterPartition(p *shard.Partition) {
	w.charge.stop(w.Worker)
	w.storeTexts()
	w.sendSamples()
	w.p, w.verdicts, w.sender = &w.view.partitions[p.ID], 0, shard.NoNode
	if w.block.budget = w.view.scriptSteps; len(w.p.deferred.nodes) > 0 {
		w.block.budget = 0 // new scripts wait behind those that wait already
	}
	w.recordStoredCommit()
	w.prepareTexts()
	w.prepareSamples()
}

// ApplySignal applies one agent's measured values, or the numbers in a result of a check. The values come in a value block.
// Numbers of checks are only stored.
func (w *metricApplier) ApplySignal(n uint32, s *wire.Signal, from *shard.SignalOrigin) shard.Outcome {
	if n != w.charge.node {
		w.charge.stop(w.Worker)
	}
	if s.Kind == wire.SignalResult {
		w.storeCheckValues(n, s, from)
		return shard.Applied
	}
	node, definition := w.p.Node(n), w.Definition(s.Definition)
	of := definition.AsTemplate()
	if of == nil {
		return shard.UnknownDefinition
	}
	w.charge.start(n, node.ID)
	if n != w.sender {
		w.sender, w.changes = n, 0
	}
	if err := w.block.reader.open(s.Body, 0); err != nil {
		return w.rejectValueBlock(node, from, err)
	}
	block := &w.block.reader.block
	w.p.nodes[n].setLogPosition(block.Log)
	if block.Rows == 0 {
		return shard.Applied
	}
	sent := int64(min(block.UnixNs, uint64(w.Received)))
	if block.UnixNs == 0 {
		sent = w.p.nodes[n].sendTime(w.Received, from)
		if from.Stream.Lane == wire.Live {
			w.p.nodes[n].timeOffset = sent - w.Listening
		}
		sent -= from.Age(s.AtMs)
	}
	w.block.fresh = deferredValues{definition: s.Definition, commit: w.Position.Number, body: s.Body, lane: from.Stream.Lane, sent: sent, received: w.Received}
	if err := applyFresh(w, n); err != nil {
		return w.rejectValueBlock(node, from, err)
	}
	w.setDeadline(n, &w.p.nodes[n])
	return shard.Applied
}

// rejectValueBlock logs an agent's block of values that cannot be decoded, and counts the block as malformed.
func (w *metricApplier) rejectValueBlock(node *shard.Node, from *shard.SignalOrigin, err error) shard.Outcome {
	w.Logger().Error("value block in the journal cannot be read and is left out", "commit", w.Position.Number, "node", node.ID, "number", from.Number, "error", err)
	return shard.Malformed
}

// ensureTemplateState returns the item and trigger states of a Template on a node, creating missing states.
// Live values with another definition or other macros than the state's put these in force; values from the
// backlog do not. A node that changes them too often keeps those that it has for a while.
func (w *metricApplier) ensureTemplateState(n uint32, of *model.TemplateDefinition, macros string, lane wire.Lane) *templateState {
	node := &w.p.nodes[n]
	at, u := node.findTemplate(of.Unit)
	switch {
	case u == nil:
		u = newTemplateState(w.view.template(of, macros), w.p.nodes[n].valueTime(w.Received, w.Listening))
		node.units = slices.Insert(node.units, at, u)
		return u
	case (u.ID != of.ID || u.macros != macros) && lane == wire.Live && u.limit.allows(w.Received):
		base := w.view.template(of, macros)
		return w.replaceTemplateState(n, u, base, copyRuleStates(base, u))
	}
	return w.createDiscoveredItems(n, u)
}

// replaceTemplateState replaces the item and trigger states of a Template on a node after an edit or discovery.
// The new state keeps the values of unchanged items.
func (w *metricApplier) replaceTemplateState(n uint32, old *templateState, of *template, found []*discovery.State) *templateState {
	node := &w.p.nodes[n]
	at, _ := node.findTemplate(of.Unit)
	u := transferState(w.view.withEntities(of, found), old, w.p.nodes[n].valueTime(w.Received, w.Listening))
	u.setEntities(found)
	u.limit, u.grew = old.limit.add(w.Received), old.grew
	if u.discoveredItems() != old.discoveredItems() {
		w.view.discoveries.Add(1)
	}
	if u.discoveredItems() > old.discoveredItems() {
		u.grew = w.Received
	}
	node.units[at] = u
	for i := range old.Triggers {
		name := old.Triggers[i].Name
		if _, stays := slices.BinarySearchFunc(u.Triggers, name, compareTrigger); old.triggers[i].judged && !stays {
			w.queueTriggerChange(n, wire.Verdict{Definition: u.ID, Trigger: name, Removed: true, Executed: w.Received})
		}
	}
	for i := range u.Triggers {
		if u.hasOtherTexts(i, old) {
			w.queueTriggerChange(n, u.verdict(i, true, w.Received))
		}
	}
	return u
}

// applyValue preprocesses one raw value of an item and applies the result. Items that are computed from the value
// follow.
func (w *metricApplier) applyValue(n uint32, u *templateState, position int, raw item.Sample) {
	of, s := &u.items[position], &u.slots[position]
	if of.chain == nil {
		w.applyFailure(n, u, position, raw.At, of.fault)
		return
	}
	if w.costs.isDue() {
		w.measureValue(n, u, position, raw)
		return
	}
	value, err := of.chain.Run(s.prep, raw)
	w.applyOutcome(n, u, position, raw.At, value, err)
}

// applyFailure applies the error of an item's collection to the item. A preprocessing step may replace the error by a
// value.
func (w *metricApplier) applyFailure(n uint32, u *templateState, position int, at int64, reason string) {
	of, s := &u.items[position], &u.slots[position]
	if of.chain == nil {
		w.applyOutcome(n, u, position, at, item.Value{}, fmt.Errorf("%s", reason))
		return
	}
	value, err := of.chain.RunFailed(s.prep, at, reason)
	w.applyOutcome(n, u, position, at, value, err)
}

// applyOutcome applies a preprocessed value or its error to the item. It then updates the items and triggers that use
// the value. Kind None without error is a value that a step discarded.
func (w *metricApplier) applyOutcome(n uint32, u *templateState, position int, at int64, value item.Value, err error) {
	of, s := &u.items[position], &u.slots[position]
	if err != nil {
		if s.reason = copyText(err.Error(), maxReason); at >= s.at {
			s.at = at
		}
		w.view.unsupported.Add(1)
		return
	}
	s.reason = ""
	if value.Kind() == item.None {
		return
	}
	if len(of.dependents) > 0 && !w.applyDependents(n, u, position, item.Sample{At: at, Value: value}) {
		return // it waits for them
	}
	if of.rule >= 0 {
		w.queueEntityList(ruleValue{u.Items[position].Key, at, value.String()})
		return
	}
	if value.Kind() == item.TextValue {
		value = item.FromText(copyText(value.String(), maxText))
	}
	if at >= s.at {
		s.at, s.value = at, value
	}
	w.storeValue(n, u, position, at, value)
	for _, i := range of.formulas {
		u.formulas[i].program.Add(u.windows[i], position, item.Sample{At: at, Value: value})
	}
	for _, i := range of.triggers {
		w.addTriggerValue(n, u, i, position, item.Sample{At: at, Value: value})
	}
}

// Bounds of the texts that the view keeps, in bytes. A block may have longer ones.
const (
	maxText   = 64 << 10 // of a value, in a slot and in windows of triggers
	maxReason = 2 << 10  // of the reason why an item has no value
)

// copyText copies at most the first `most` bytes of a text. The text may be a part of a block, whose memory is used
// again.
func copyText(text string, most int) string { return strings.Clone(model.Truncate(text, most)) }

// applyDependents applies the value of a master item to its dependent items. All share the parsed form of the value. It
// returns false if the budget of script steps ended before: then the other dependent items wait.
func (w *metricApplier) applyDependents(n uint32, u *templateState, position int, master item.Sample) bool {
	parsed, all, after := &w.parsed, true, w.block.after
	w.block.after = ""
	parsed.Reset(master)
	for _, i := range u.items[position].dependents {
		of, s := &u.items[i], &u.slots[i]
		if u.Items[i].Key <= after {
			continue
		}
		if all = len(w.block.cut) == 0 && w.block.startScripts(of.scripts); !all {
			break
		}
		after = u.Items[i].Key
		if of.chain == nil {
			w.applyFailure(n, u, i, master.At, of.fault)
			continue
		}
		var value item.Value
		var err error
		if w.measured {
			value, err = w.runMeasured(u, i, master, parsed)
		} else {
			value, err = of.chain.RunDependent(s.prep, parsed)
		}
		if len(of.dependents) > 0 { // they use the parsed form for another master
			w.parsed = prep.ParsedValue{}
			w.applyOutcome(n, u, i, master.At, value, err)
			parsed.Reset(master)
			continue
		}
		w.applyOutcome(n, u, i, master.At, value, err)
	}
	if all && len(w.block.cut) == 0 {
		return true
	}
	w.block.cutMaster(u.Items[position].Key, after, master)
	return false
}

// maxChanges limits how many verdicts the successive signals of one node make in one commit. A batch may have a value
// in two bytes, and a verdict for each would cost the server a thousand times as much.
const maxChanges = 1000

// addTriggerValue adds a value to a trigger's recent values and evaluates the trigger. A node that has made its verdicts of this
// commit waits for an evaluation until its next batch.
func (w *metricApplier) addTriggerValue(n uint32, u *templateState, i, position int, s item.Sample) {
	if began := w.beginCost(); !began.IsZero() {
		defer w.endCost(costKey{kind: TriggerCost, template: u.Unit, name: u.Triggers[i].Name}, began)
	}
	of, state := &u.template.triggers[i], &u.triggers[i]
	of.problem.Add(state.problem, position, s)
	if of.recovery != nil {
		of.recovery.Add(state.recovery, position, s)
	}
	if w.changes < maxChanges {
		before := w.verdicts
		w.evaluate(n, u, i, s.At)
		w.changes += w.verdicts - before
	}
}

// evaluate evaluates a trigger at a given time, and records any change of its state. A verdict is the record of the
// changed state. A true problem expression always wins over the recovery expression; an unknown one changes nothing.
func (w *metricApplier) evaluate(n uint32, u *templateState, i int, now int64) {
	of, state := &u.template.triggers[i], &u.triggers[i]
	result, reason := of.problem.Eval(state.problem, now)
	was, is := state.problem.Problem, result == trigger.True
	if state.unknown = reason; result == trigger.Unknown {
		return
	}
	if was && !is && of.recovery != nil {
		recovered, reason := of.recovery.Eval(state.recovery, now)
		state.unknown = reason
		is = recovered != trigger.True
	}
	if was == is && state.judged {
		return
	}
	state.judged, state.problem.Problem = true, is
	if state.recovery != nil {
		state.recovery.Problem = is
	}
	w.queueTriggerChange(n, u.verdict(i, is, now))
}

// queueTriggerChange queues the changed state of a trigger, to be written to the journal.
func (w *metricApplier) queueTriggerChange(n uint32, v wire.Verdict) {
	v.Commit, v.Index = w.Position.Number, w.verdicts
	w.verdicts++
	w.p.sequence++
	w.p.pending = append(w.p.pending, Verdict{Node: w.p.Node(n).ID, Verdict: v, sequence: w.p.sequence})
	w.hasVerdicts = true
}

// ApplyRecord applies one journal record, such as a trigger change, to the items and triggers. It stores samples, holds or
// releases discovered items, goes on with deferred values, or removes a recorded verdict from the verdicts that wait to be written.
func (w *metricApplier) ApplyRecord(r *wire.Record) {
	switch r.Kind {
	case wire.RecordSamples:
		w.storeSamples(r.Samples)
	case wire.RecordDiscovery:
		applyDiscoveryPause(w, r.Node, r.Discovery)
	case wire.RecordVerdict:
		w.removeJournaledChanges(r.Node, r.Verdict)
	case wire.RecordResume:
		applyResume(w, r.Node, int(r.Resume.Steps))
	}
}

// removeJournaledChanges removes from the queue all trigger changes up to the last change that the journal
// contains. Another release may have judged otherwise before the restart: its verdicts stay, and the triggers
// go on from them.
func (w *metricApplier) removeJournaledChanges(node model.NodeID, last *wire.Verdict) {
	recorded, known := 0, false
	for recorded < len(w.p.pending) {
		if v := &w.p.pending[recorded]; v.Commit > last.Commit || v.Commit == last.Commit && v.Index > last.Index {
			break
		}
		recorded++
	}
	for i := recorded - 1; i >= 0; i-- { // from the newest, so that a trigger has its state from before the oldest in the end
		v := &w.p.pending[i]
		if v.Node == node && v.Definition == last.Definition && v.Trigger == last.Trigger && v.Problem == last.Problem && v.Removed == last.Removed {
			known = true
		} else {
			w.p.restoreTriggerState(v.Node, w.Definition(v.Definition).AsTemplate(), &v.Verdict, !v.Problem)
		}
	}
	clear(w.p.pending[:recorded])
	if w.p.pending = w.p.pending[recorded:]; !known {
		w.p.restoreTriggerState(node, w.Definition(last.Definition).AsTemplate(), last, last.Problem)
	}
}

// restoreTriggerState sets the state of a trigger to the state that the journal recorded. The next evaluation
// makes a verdict only for another decision. An alert of a rule has no Template.
func (p *metricPartition) restoreTriggerState(node model.NodeID, of *model.TemplateDefinition, v *wire.Verdict, problem bool) {
	n, ok := p.Find(node)
	if !ok || of == nil {
		return
	}
	_, u := p.nodes[n].findTemplate(of.Unit)
	if u == nil {
		return
	}
	i, ok := slices.BinarySearchFunc(u.Triggers, v.Trigger, compareTrigger)
	if !ok || u.triggers[i].problem == nil {
		return
	}
	state := &u.triggers[i]
	state.judged, state.problem.Problem = !v.Removed, problem
	if state.recovery != nil {
		state.recovery.Problem = problem
	}
}

// ApplyLoss does nothing about values that an agent lost, because the shard counts lost values.
func (w *metricApplier) ApplyLoss(uint32, *wire.Gap) {}

// RemoveStates deletes the item and trigger states of removed Templates, on one node or on all nodes.
func (w *metricApplier) RemoveStates(id model.NodeID, n uint32, m *wire.ForgetRecord) {
	w.view.discoveries.Add(1)
	for _, n := range w.p.AffectedNodes(id, n) {
		node := &w.p.nodes[n]
		w.p.deleteRejected(n, m.Check)
		w.p.deferred.drop(n, func(d *deferredValues) bool {
			return m.Check == 0 || w.Definition(d.definition).AsTemplate().Unit == m.Check
		})
		if m.Check == 0 {
			node.units = nil
		} else if at, u := node.findTemplate(m.Check); u != nil {
			node.units = slices.Delete(node.units, at, at+1)
		}
		w.setDeadline(n, node)
	}
}

// ApplyLivenessChange does nothing, because items do not depend on a node's connection.
func (w *metricApplier) ApplyLivenessChange(uint32, shard.LivenessChange) {}

// DeadlinePeriod returns zero, because time functions of triggers have no fixed time-out.
func (w *metricApplier) DeadlinePeriod(uint32) int64 { return 0 }

// setDeadline sets the next time at which a node's formulas and time functions are evaluated. A time function is part
// of a trigger and may change without new values.
func (w *metricApplier) setDeadline(n uint32, node *nodeState) {
	if w.p.deferred.waits(n) {
		w.p.deadlines.Clear(n) // until all values are applied
		return
	}
	next, soonest, now := int64(0), int64(1), w.p.nodes[n].valueTime(w.Received, w.Listening)
	for _, u := range node.units {
		if !u.timed {
			continue
		}
		if at := u.nextFormulaTime(w.p.Node(n).ID); at > 0 && (next == 0 || at < next) {
			next = at
			if at <= now {
				soonest = 0 // with this commit: the next one may have values again
			}
		}
		for i := range u.triggers {
			of, state := &u.template.triggers[i], &u.triggers[i]
			if state.problem == nil || !of.isTimed() {
				continue
			}
			for _, at := range [...]int64{of.problem.Deadline(state.problem), recoveryDeadline(of, state)} {
				if at > 0 && (next == 0 || at < next) {
					next = at
				}
			}
		}
	}
	if next == 0 {
		w.p.deadlines.Clear(n)
		return
	}
	w.p.deadlines.Set(n, w.Listening+max(next-now, soonest))
}

// recoveryDeadline returns the next time at which the result of a recovery expression may change without new
// values. Zero means never.
func recoveryDeadline(of *compiledTrigger, state *triggerState) int64 {
	if of.recovery == nil {
		return 0
	}
	return of.recovery.Deadline(state.recovery)
}

// Expire computes due formulas and evaluates due triggers with time functions
func (w *metricApplier) Expire(ids []uint32) {
	w.charge.stop(w.Worker)
	w.block.budget = math.MaxInt // formulas are not deferred
	slices.SortFunc(ids, func(a, b uint32) int { return int(int64(w.p.Node(a).ID) - int64(w.p.Node(b).ID)) })
	for _, n := range ids {
		if until, why := w.Postpone(w.p.Partition, n); why != shard.NotPostponed {
			if until > 0 {
				w.p.deadlines.Set(n, until)
			}
			continue // without a time: the next values set a deadline
		}
		node, now := &w.p.nodes[n], w.p.nodes[n].valueTime(w.Received, w.Listening)
		for at := range node.units {
			w.calculate(n, node.units[at], now)
			u := node.units[at] // discovered entities may have replaced it
			for i := range u.triggers {
				if u.triggers[i].problem != nil && u.template.triggers[i].isTimed() {
					w.evaluate(n, u, i, now)
				}
			}
		}
		w.setDeadline(n, node)
	}
}

// EndCommit passes a commit's samples and texts to their stores, and wakes the writer of trigger changes. It waits
// while too many texts wait for the disk.
func (w *metricApplier) EndCommit() {
	w.charge.stop(w.Worker)
	w.sendSamples()
	if w.storeTexts(); w.view.opts.Texts != nil {
		w.view.opts.Texts.AwaitCapacity()
	}
	if w.hasVerdicts {
		w.hasVerdicts = false
		w.view.wakeWriter()
	}
	if w.block.deferred {
		w.block.deferred = false
		pause.Wake(w.view.deferred)
	}
}
