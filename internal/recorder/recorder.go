// Package recorder appends the server's own records to the journal: results of the server about itself
// and about nodes, actions of people, marks. Package source/core appends the batches of agents.
package recorder

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/metric"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/wire"
)

// Recorder appends to the journal the records that the server itself makes. Records of agents come another way.
// Set its fields before the first use; after that the Recorder is safe for concurrent use.
type Recorder struct {
	Journal interface {
		Append(ctx context.Context, entries ...journal.Entry) error
	}
	Nodes interface {
		Node(id model.NodeID) *directory.Node // its UID is uuid.Nil where the node was deleted
	}
	Applied func(ctx context.Context, at journal.Position) error // waits until the event view has applied the commit at a position
	Log     *slog.Logger
}

// maxMarks bounds the marks in one call of Journal.Append: the deletion of a whole fleet makes very many marks.
const maxMarks = 1000

// Result is a check result about a node that the server itself records. Definition tells by which rules it is judged.
type Result struct {
	Node       model.NodeID
	Definition model.DefinitionID
	Status     model.Status
	Output     string
}

// commitWaiter is a channel that receives the journal position or error of a commit.
type commitWaiter chan commitOutcome

// commitOutcome is the journal position of a commit, or the error of the commit.
type commitOutcome struct {
	at  journal.Position
	err error
}

// Committed passes the position or error of the commit to the waiting goroutine.
func (w commitWaiter) Committed(_ uint64, at journal.Position, err error) {
	w <- commitOutcome{at, err}
}

// wait waits until the journal reports the commit, or ctx ends.
func (w commitWaiter) wait(ctx context.Context) (journal.Position, error) {
	select {
	case o := <-w:
		if o.err != nil {
			return o.at, fmt.Errorf("append a record to the journal: %w", o.err)
		}
		return o.at, nil
	case <-ctx.Done():
		return journal.Position{}, ctx.Err()
	}
}

// Append writes one record to the journal, and waits until the record is durable. The event states in memory have
// applied the record, too.
func (r *Recorder) Append(ctx context.Context, section journal.Section, record *wire.Record) error {
	w := make(commitWaiter, 1)
	if err := r.append(ctx, journal.Entry{Section: section, Data: wire.AppendRecord(nil, record), Waiter: w}); err != nil {
		return err
	}
	at, err := w.wait(ctx)
	if err != nil {
		return err
	}
	return r.Applied(ctx, at)
}

// append adds entries to the journal's queue, without waiting for the disk.
func (r *Recorder) append(ctx context.Context, entries ...journal.Entry) error {
	if err := r.Journal.Append(ctx, entries...); err != nil {
		return fmt.Errorf("append a record to the journal: %w", err)
	}
	return nil
}

// section returns the number of the journal section to which records about a node belong. For a deleted node it is the
// section for all partitions.
func (r *Recorder) section(node model.NodeID) journal.Section {
	if node == model.ServerNode {
		return 0
	}
	if uid := r.Nodes.Node(node).UID; uid != uuid.Nil {
		return journal.Section(model.PartitionOf(uid))
	}
	return journal.All
}

// RecordServerResult appends a built-in check's result about the server itself to the journal.
func (r *Recorder) RecordServerResult(ctx context.Context, check model.CheckID, status model.Status, output string) error {
	return r.RecordNodeResult(ctx, model.ServerNode, check, status, output)
}

// RecordNodeResult appends a built-in check's result about a node to the journal.
func (r *Recorder) RecordNodeResult(ctx context.Context, node model.NodeID, check model.CheckID, status model.Status, output string) error {
	return r.Append(ctx, r.section(node), &wire.Record{
		Kind: wire.RecordServerResult, Node: node,
		ServerResult: &wire.ServerResult{Definition: model.BuiltinDefinitionID(check), Status: status, Output: []byte(output)},
	})
}

// RecordResults appends several results of checks about nodes to the journal at once, in order. durable waits until
// they are durable.
func (r *Recorder) RecordResults(ctx context.Context, results []Result) (durable func(context.Context) error, err error) {
	entries := make([]journal.Entry, len(results))
	for i, x := range results {
		entries[i] = journal.Entry{Section: r.section(x.Node), Data: wire.AppendRecord(nil, &wire.Record{
			Kind: wire.RecordServerResult, Node: x.Node, ServerResult: &wire.ServerResult{Definition: x.Definition, Status: x.Status, Output: []byte(x.Output)},
		})}
	}
	if len(entries) == 0 {
		return func(context.Context) error { return nil }, nil
	}
	w := make(commitWaiter, 1)
	entries[len(entries)-1].Waiter = w
	if err := r.append(ctx, entries...); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { _, err := w.wait(ctx); return err }, nil
}

// RecordVerdicts appends changed trigger states (verdicts) to the journal, and waits until the records are on disk.
// After an error none of them is in the journal.
func (r *Recorder) RecordVerdicts(ctx context.Context, list []metric.Verdict, partitions []model.Partition) error {
	entries := make([]journal.Entry, len(list))
	for i := range list {
		entries[i] = journal.Entry{Section: journal.Section(partitions[i]), Data: wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordVerdict, Node: list[i].Node, Verdict: &list[i].Verdict})}
	}
	w := make(commitWaiter, 1)
	entries[len(entries)-1].Waiter = w
	if err := r.append(ctx, entries...); err != nil {
		return err
	}
	_, err := w.wait(ctx)
	return err
}

// RecordAndApply appends entries that the server computed to the journal, and waits until all are applied in memory.
// The entries are durable then.
func (r *Recorder) RecordAndApply(ctx context.Context, entries []journal.Entry) error {
	w := make(commitWaiter, 1)
	entries[len(entries)-1].Waiter = w
	if err := r.append(ctx, entries...); err != nil {
		return err
	}
	at, err := w.wait(ctx)
	if err != nil {
		return err
	}
	return r.Applied(ctx, at)
}

// RecordRemoval records in the journal that checks or nodes were removed. Then the views of the journal delete the states of
// these checks and nodes. The planner calls it before a change is in force. After an error the next start writes the
// missing marks.
func (r *Recorder) RecordRemoval(list []plan.Removal) {
	for part := range slices.Chunk(list, maxMarks) {
		entries := make([]journal.Entry, len(part))
		for i, f := range part {
			section := journal.All
			switch {
			case f.UID != uuid.Nil:
				section = journal.Section(model.PartitionOf(f.UID))
			case f.Node != 0 && !f.Mark.Deleted:
				section = r.section(f.Node)
			}
			entries[i] = journal.Entry{Section: section, Data: wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordForget, Node: f.Node, Forget: &f.Mark})}
		}
		if err := r.append(context.Background(), entries...); err != nil {
			r.Log.Error("cannot record ended expectations of results; the next start records them", "err", err)
			return
		}
	}
}

// RecordStart records in the journal that the server receives results again. Deadlines count from that moment.
func (r *Recorder) RecordStart(ctx context.Context) error {
	return r.Append(ctx, journal.All, &wire.Record{Kind: wire.RecordStarted})
}

// RecordRevision records the revision and highest id of the declared resources in the journal once. The highest
// id is recorded, too.
func (r *Recorder) RecordRevision(ctx context.Context, mark wire.IntentRecord) error {
	return r.Append(ctx, journal.All, &wire.Record{Kind: wire.RecordIntent, Intent: mark})
}

// RecordRevisionChanges records each new revision of the declared resources in the journal, until ctx ends. It
// looks once a second, and records only changes. So a start after a crash knows from which revision on it must
// look for results to forget, and which stores belong to the journal.
func (r *Recorder) RecordRevisionChanges(ctx context.Context, mark func() wire.IntentRecord) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var last wire.IntentRecord
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := mark()
		if now == last {
			continue
		}
		if err := r.RecordRevision(ctx, now); err == nil {
			last = now
		} else if ctx.Err() == nil {
			r.Log.Warn("cannot record the intent in force; trying again", "err", err)
		}
	}
}

// Act records a person's action on an event in the journal, for example an acknowledgement. It implements api.Actions.
func (r *Recorder) Act(ctx context.Context, node model.NodeID, action wire.Action) error {
	return r.Append(ctx, r.section(node), &wire.Record{Kind: wire.RecordAction, Node: node, Action: &action})
}
