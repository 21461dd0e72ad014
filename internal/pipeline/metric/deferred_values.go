package metric

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/wire"
)

// Bounds of the time that scripts hold a partition. One step of JavaScript takes at most 100 ms, and often 50 µs.
const (
	// scriptSteps is the number of script steps that a commit runs on new values of a partition, and a record on deferred ones.
	scriptSteps = 10
	// turnTime is the time that one append of records gives to the deferred values of all nodes of a worker together.
	turnTime = 100 * time.Millisecond
	// turnPause is the pause between two appends while no node waits for a later turn, so that scripts make few commits.
	turnPause = 80 * time.Millisecond
	// leastTurn is the time that it gives to one node at least.
	leastTurn = time.Millisecond
	// unknownStep is the assumed time of a script step on a node before the first measurement.
	unknownStep = turnTime / 10
	// maxDeferred bounds the deferred values of a partition, in bytes. Above it, blocks are applied whole.
	maxDeferred = 1 << 20
)

// deferredPartition has the deferred values of the nodes of one partition, by the shard's index of the node.
type deferredPartition struct {
	nodes     map[uint32][]deferredValues // in the order in which they are applied; only of nodes that have some
	bytes     int
	stepTimes map[uint32]time.Duration // of a script step in the last turns; not in snapshots
}

// deferredValues is a part of a node's values that waits for a resume record. It is a value block, the rest of one, or
// the value of a master item some of whose dependent items wait.
type deferredValues struct {
	definition model.DefinitionID
	commit     uint64 // in which the block came

	// Of a value block:
	body     []byte // nil: the value of a master item
	lane     wire.Lane
	sent     int64        // Unix ns
	received int64        // receive time of the commit, Unix ns
	applied  uint32       // values of the block that are applied
	reader   *blockReader // behind these values; nil: not opened yet; not in snapshots

	// Of the value of a master item:
	key    string
	after  string // key of the last dependent item that has the value; empty: none has it
	sample item.Sample
}

// blockReader reads the values of one value block, with the next one in advance.
type blockReader struct {
	block   wire.ValueBlock
	columns wire.ColumnReader
	value   wire.BlockValue // the next one
	more    bool            // there is a next one
}

// open decodes the head of a value block and skips its applied values.
func (r *blockReader) open(body []byte, applied uint32) error {
	if err := r.block.Decode(body); err != nil || r.block.Rows == 0 {
		return err
	}
	if err := r.columns.Reset(&r.block); err != nil {
		return err
	}
	r.more = r.columns.Next(&r.value)
	for ; applied > 0 && r.more; applied-- {
		r.more = r.columns.Next(&r.value)
	}
	return nil
}

// size returns the approximate memory of deferred values, in bytes.
func (d *deferredValues) size() int {
	n := 200 + len(d.body)
	if d.sample.Value.Kind() == item.TextValue {
		n += len(d.sample.Value.String())
	}
	return n
}

// blockRun has the value block that is being applied, and its limits.
type blockRun struct {
	budget   int // script steps that the commit may still run in the partition
	reader   blockReader
	fresh    deferredValues   // the block of the present signal
	current  *deferredValues  // the values being applied
	after    string           // of these
	cut      []deferredValues // left over of them
	deferred bool             // the commit deferred values
}

// startScripts takes the script steps of an item from the budget of the commit. It returns false if nothing is left:
// then the value has to wait.
func (b *blockRun) startScripts(steps int) bool {
	if steps == 0 {
		return true
	}
	if b.budget <= 0 {
		return false
	}
	b.budget -= steps
	return true
}

// waits reports whether a node has deferred values.
func (p *deferredPartition) waits(n uint32) bool { return len(p.nodes) > 0 && p.nodes[n] != nil }

// push adds deferred values of a node, at the front or at the end.
func (p *deferredPartition) push(n uint32, front bool, list ...deferredValues) {
	if p.nodes == nil {
		p.nodes, p.stepTimes = map[uint32][]deferredValues{}, map[uint32]time.Duration{}
	}
	for i := range list {
		p.bytes += list[i].size()
	}
	at := len(p.nodes[n])
	if front {
		at = 0
	}
	p.nodes[n] = slices.Insert(p.nodes[n], at, list...)
}

// pop removes and returns the first deferred values of a node.
func (p *deferredPartition) pop(n uint32) deferredValues {
	list := p.nodes[n]
	first := list[0]
	p.bytes -= first.size()
	list[0] = deferredValues{}
	if p.nodes[n] = list[1:]; len(list) == 1 {
		delete(p.nodes, n)
	}
	return first
}

// drop removes the deferred values of a node that match.
func (p *deferredPartition) drop(n uint32, match func(*deferredValues) bool) {
	for range p.nodes[n] {
		if d := p.pop(n); !match(&d) {
			p.push(n, false, d)
		}
	}
}

// applyFresh applies a new value block, or defers the block behind deferred values of its node. Where the partition has
// too many of these, it applies all values of the node, however long they take.
func applyFresh(w *metricApplier, n uint32) error {
	switch {
	case w.p.deferred.bytes >= maxDeferred:
		budget := w.block.budget
		defer func() { w.block.budget = budget }()
		w.block.budget = math.MaxInt
		resume(w, n)
	case w.p.deferred.waits(n):
		deferValues(w, n, false, w.block.fresh)
		return nil
	}
	err := applyBlock(w, n, &w.block.fresh, &w.block.reader)
	deferCut(w, n)
	return err
}

// applyBlock applies the values of a block in their order. If the budget of script steps ends before, the rest is cut.
func applyBlock(w *metricApplier, n uint32, b *deferredValues, r *blockReader) error {
	of := w.Definition(b.definition).AsTemplate()
	u := w.ensureTemplateState(n, of, r.block.Macros, b.lane)
	w.block.current = b
	values, times := uint64(0), r.columns.Times()
	for r.more && len(w.block.cut) == 0 {
		v := &r.value
		if position, ok := u.itemIndexOf(of, int(v.Position), r.block.Keys); ok {
			if !w.block.startScripts(u.items[position].scripts) {
				break
			}
			at := min(b.sent+times[v.Row], b.received)
			if values++; v.Unsupported {
				w.applyFailure(n, u, position, at, v.Value.String())
			} else {
				w.applyValue(n, u, position, item.Sample{At: at, Value: v.Value})
			}
		}
		b.applied++
		r.more = r.columns.Next(v)
	}
	if r.more {
		w.block.cut = append(w.block.cut, *b)
	}
	w.view.values.Add(values)
	w.applyQueuedLists(n, u)
	return r.columns.Err()
}

// deferValues adds deferred values of a node. The node's time functions are evaluated when all are applied.
func deferValues(w *metricApplier, n uint32, front bool, list ...deferredValues) {
	for i := range list {
		if list[i].body != nil && list[i].reader == nil {
			list[i].body = bytes.Clone(list[i].body) // of the commit, whose memory is used again
		}
	}
	w.p.deferred.push(n, front, list...)
	w.block.deferred = true
}

// resume applies deferred values of a node until the budget of script steps is used up.
func resume(w *metricApplier, n uint32) {
	for w.block.budget > 0 && w.p.deferred.waits(n) {
		d := w.p.deferred.pop(n)
		if d.body == nil {
			resumeMaster(w, n, &d)
			deferCut(w, n)
			continue
		}
		var err error
		if d.reader == nil {
			d.reader = &blockReader{}
			err = d.reader.open(d.body, d.applied)
		}
		if err == nil {
			err = applyBlock(w, n, &d, d.reader)
		}
		if deferCut(w, n); err != nil {
			w.Logger().Error("deferred value block cannot be read and is left out", "commit", d.commit, "node", w.p.Node(n).ID, "error", err)
		}
	}
	w.setDeadline(n, &w.p.nodes[n])
}

// resumeMaster goes on with the value of a master item, whose other dependent items wait.
func resumeMaster(w *metricApplier, n uint32, d *deferredValues) {
	_, u := w.p.nodes[n].findTemplate(w.Definition(d.definition).AsTemplate().Unit)
	if u == nil {
		return
	}
	if position, ok := u.ItemIndex(d.key); ok {
		w.block.current, w.block.after = d, d.after
		w.applyOutcome(n, u, position, d.sample.At, d.sample.Value, nil)
		w.block.after = ""
		w.applyQueuedLists(n, u)
	}
}

// deferCut defers what the last values left over, in front of the node's other deferred values.
func deferCut(w *metricApplier, n uint32) {
	if len(w.block.cut) > 0 {
		deferValues(w, n, true, w.block.cut...)
		clear(w.block.cut)
		w.block.cut = w.block.cut[:0]
	}
}

// cutMaster defers the value of a master item for the dependent items behind a given one.
func (b *blockRun) cutMaster(key, after string, s item.Sample) {
	if s.Value.Kind() == item.TextValue {
		s.Value = item.FromText(strings.Clone(s.Value.String())) // it may be a part of the block
	}
	b.cut = append(b.cut, deferredValues{definition: b.current.definition, commit: b.current.commit, key: key, after: after, sample: s})
}

// applyResume applies deferred values of a node for a number of script steps, as a resume record says. It measures the time
// of a step for later records.
func applyResume(w *metricApplier, id model.NodeID, steps int) {
	n, ok := w.p.Find(id)
	if !ok || !w.p.deferred.waits(n) {
		return
	}
	w.charge.stop(w.Worker)
	w.charge.start(n, id)
	if n != w.sender {
		w.sender, w.changes = n, 0
	}
	began := w.view.now()
	w.block.budget = steps
	resume(w, n)
	took := w.view.now().Sub(began) / time.Duration(max(1, steps-w.block.budget))
	w.p.deferred.stepTimes[n] = max(took, w.p.deferred.stepTimes[n]/2, 1)
	w.block.budget = 0
}

// ResumeDeferred writes resume records to the journal until ctx ends, so that deferred values are applied. The clock decides
// how many script steps a record has, so that the values of other nodes wait for about turnTime. record returns when its
// entries are durable and applied. Call it when the replay of the journal has ended.
func (v *View) ResumeDeferred(ctx context.Context, record func(context.Context, []journal.Entry) error, log *slog.Logger) error {
	last := make([]model.NodeID, v.shard.Workers())
	for {
		var entries []journal.Entry
		urgent := false
		for worker := range last {
			var more bool
			entries, more = v.appendTurns(entries, worker, &last[worker])
			urgent = urgent || more
		}
		if len(entries) == 0 {
			select {
			case <-ctx.Done():
				return nil
			case <-v.deferred:
			}
			continue
		}
		if !urgent && pause.For(ctx, turnPause) != nil {
			return nil
		}
		if err := record(ctx, entries); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			log.Warn("cannot write to the journal which deferred values are next; trying again", "nodes", len(entries), "err", err)
			if pause.For(ctx, retryAppend) != nil {
				return nil
			}
		}
	}
}

// deferredNode is a node with deferred values.
type deferredNode struct {
	id        model.NodeID
	partition model.Partition
	stepTime  time.Duration // of a script step, as far as known
}

// deferredNodes returns the nodes with deferred values in every step'th partition from the first one on, by id.
func (v *View) deferredNodes(first, step int) (list []deferredNode) {
	for i := first; i < len(v.partitions); i += step {
		p := &v.partitions[i]
		p.Lock()
		for n := range p.deferred.nodes {
			list = append(list, deferredNode{p.Node(n).ID, p.ID, cmp.Or(p.deferred.stepTimes[n], unknownStep)})
		}
		p.Unlock()
	}
	slices.SortFunc(list, func(a, b deferredNode) int { return cmp.Compare(a.id, b.id) })
	return list
}

// appendTurns appends the next resume records for the partitions of a worker. Nodes take turns in the order of their ids,
// from the one behind last. more reports that some node has to wait for a later turn.
func (v *View) appendTurns(entries []journal.Entry, worker int, last *model.NodeID) (_ []journal.Entry, more bool) {
	nodes := v.deferredNodes(worker, v.shard.Workers())
	if len(nodes) == 0 {
		return entries, false
	}
	first, _ := slices.BinarySearchFunc(nodes, *last+1, func(a deferredNode, id model.NodeID) int { return cmp.Compare(a.id, id) })
	nodes = slices.Concat(nodes[first:], nodes[:first])
	share, total, count := max(turnTime/time.Duration(len(nodes)), leastTurn), time.Duration(0), 0
	steps := func(of *deferredNode) time.Duration { return max(1, min(share/of.stepTime, scriptSteps)) }
	for i := range nodes {
		if total += steps(&nodes[i]) * nodes[i].stepTime; total > turnTime && i > 0 {
			break
		}
		count++
	}
	*last = nodes[count-1].id
	for _, of := range nodes[:count] {
		entries = append(entries, journal.Entry{Section: journal.Section(of.partition), Data: wire.AppendRecord(nil, &wire.Record{
			Kind: wire.RecordResume, Node: of.id, Resume: wire.ResumeRecord{Steps: uint32(steps(&of))},
		})})
	}
	return entries, count < len(nodes)
}

// deferredPoll is the pause between two looks at deferred values that somebody waits for.
const deferredPoll = 10 * time.Millisecond

// WaitDeferred waits until all values of some nodes are applied that the commits applied so far have brought.
func (v *View) WaitDeferred(ctx context.Context, nodes map[model.NodeID]model.Partition) error {
	to := v.shard.Applied().Number
	for id, partition := range nodes {
		for v.partitions[partition].hasDeferred(id, to) {
			if err := pause.For(ctx, deferredPoll); err != nil {
				return err
			}
		}
	}
	return nil
}

// OldestDeferred returns the receive time of a node's first value that waits for slow scripts. It returns zero if no value waits.
func (v *View) OldestDeferred(node model.NodeID) time.Time {
	of := v.shard.PartitionOf(node)
	if of == nil {
		return time.Time{}
	}
	p := &v.partitions[of.ID]
	p.Lock()
	defer p.Unlock()
	n, ok := p.Find(node)
	if !ok || !p.deferred.waits(n) {
		return time.Time{}
	}
	first := &p.deferred.nodes[n][0]
	return time.Unix(0, cmp.Or(first.received, first.sample.At)).UTC()
}

// hasDeferred reports whether values of a node wait that came in a commit up to a number.
func (p *metricPartition) hasDeferred(id model.NodeID, to uint64) bool {
	p.Lock()
	defer p.Unlock()
	n, ok := p.Find(id)
	return ok && p.deferred.waits(n) && p.deferred.nodes[n][0].commit <= to
}

// encodeDeferred appends the deferred values of a partition to a snapshot, by node.
func (p *metricPartition) encodeDeferred(b []byte) []byte {
	count := 0
	for _, list := range p.deferred.nodes {
		count += len(list)
	}
	if b = binary.AppendUvarint(b, uint64(count)); count == 0 {
		return b
	}
	for _, n := range p.SortedNodes() {
		for i := range p.deferred.nodes[n] {
			d := &p.deferred.nodes[n][i]
			b = binary.AppendUvarint(b, uint64(p.Node(n).ID))
			b = binary.AppendUvarint(b, uint64(d.definition))
			b = binary.AppendUvarint(b, d.commit)
			b = shard.AppendText(b, string(d.body))
			b = append(b, byte(d.lane))
			b = binary.AppendVarint(b, d.sent)
			b = binary.AppendVarint(b, d.received)
			b = binary.AppendUvarint(b, uint64(d.applied))
			b = shard.AppendText(b, d.key)
			b = shard.AppendText(b, d.after)
			b = binary.AppendVarint(b, d.sample.At)
			b = appendValue(b, d.sample.Value)
		}
	}
	return b
}

// decodeDeferred reads the deferred values of a partition from a snapshot. Those whose definition is no longer known are
// left out.
func (p *metricPartition) decodeDeferred(v *View, d *shard.Decoder) {
	for range d.Count() {
		n, known := p.Find(model.NodeID(d.Uint32()))
		one := deferredValues{definition: model.DefinitionID(d.Uint32()), commit: d.Uint(), body: bytes.Clone(d.Bytes()), lane: wire.Lane(d.Byte()), sent: d.Int(), received: d.Int(), applied: d.Uint32()}
		one.key, one.after = string(d.Bytes()), string(d.Bytes())
		one.sample = item.Sample{At: d.Int(), Value: decodeValue(d)}
		if len(one.body) == 0 {
			one.body = nil
		}
		if !known || (one.body == nil) == (one.key == "") {
			d.Fail("deferred values")
		}
		if d.Err() != nil {
			return
		}
		if v.opts.Definitions(one.definition).AsTemplate() != nil {
			p.deferred.push(n, false, one)
		}
	}
}
