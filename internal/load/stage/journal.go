package stage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/spine"
	"github.com/muster-fleet/muster/internal/metrics"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/wire"
)

// appender is what entries are given to: a journal, or what stands for one.
type appender interface {
	Append(ctx context.Context, entries ...journal.Entry) error
}

// entries makes of what agents send the entries that a server's sessions make
// (internal/source/muster), without what a session does before: no socket, no judging.
type entries struct {
	fleet   *spine.Fleet
	to      appender
	records sync.Pool // *[]byte
}

func newEntries(fleet *spine.Fleet, to appender) *entries {
	e := &entries{fleet: fleet, to: to}
	e.records.New = func() any { return new([]byte) }
	return e
}

// answered is a Waiter with room for its one answer.
type answered chan error

func (a answered) Committed(_ uint64, _ journal.Position, err error) { a <- err }

// Enter implements load.Stage: a session begins with a mark.
func (e *entries) Enter(ctx context.Context, uid uuid.UUID, _ journal.Waiter) (model.NodeID, *link.Assignment, error) {
	node, ok := e.fleet.Lookup(uid)
	if !ok {
		return 0, nil, model.Errorf(model.NotFound, "node %s is not of the fleet", uid)
	}
	kept := make(answered, 1)
	mark := wire.Record{Kind: wire.RecordSession, Node: node.ID, Session: &wire.SessionMark{Session: rand.Uint64(), Begun: true, Namespace: node.Namespace,
		KeepaliveMs: uint32(model.DefaultKeepalive.Milliseconds()), TimeoutMs: uint32(model.DefaultKeepaliveTimeout.Milliseconds())}}
	err := e.to.Append(ctx, journal.Entry{Section: e.section(node.ID), Data: wire.AppendRecord(nil, &mark), Waiter: kept})
	if err != nil {
		return 0, nil, err
	}
	select {
	case err = <-kept:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return node.ID, e.fleet.Held(node.ID), err
}

// Take implements load.Stage.
func (e *entries) Take(ctx context.Context, node model.NodeID, batch []byte, w journal.Waiter, token uint64) error {
	record := e.records.Get().(*[]byte)
	defer e.records.Put(record)
	*record = append(wire.AppendBatchRecord((*record)[:0], node), batch...)
	return e.to.Append(ctx, journal.Entry{Section: e.section(node), Data: *record, Waiter: w, Token: token})
}

func (e *entries) section(node model.NodeID) journal.Section {
	return journal.Section(e.fleet.Partition(node))
}

// began is what a server writes before anything else.
func began(ctx context.Context, to appender) error {
	for _, r := range []wire.Record{{Kind: wire.RecordStarted}, {Kind: wire.RecordIntent, Intent: &wire.IntentMark{Revision: 1}}} {
		if err := to.Append(ctx, journal.Entry{Section: journal.All, Data: wire.AppendRecord(nil, &r)}); err != nil {
			return err
		}
	}
	return nil
}

// journal is the journal alone: nothing is delivered to a view. What it kept is what a view
// makes of it once the run is over.
func (d *Driven) journal(ctx context.Context, fleet *spine.Fleet) error {
	shown := metrics.NewJournal(d.metric, "journal")
	log, err := journal.Open(filepath.Join(d.dir, "journal"), journal.Options{Reserve: -1, Budget: unlimited, Linger: journal.ServerLinger,
		Deliver: func(journal.Commit) {}, ObserveCommit: shown.Committed, Queues: &queue.Registry{}})
	if err != nil {
		return err
	}
	d.end(log.Close)
	shown.Open(log)
	d.config.Stage, d.config.Before = newEntries(fleet, log), replay{fleet, log}
	return began(ctx, log)
}

// replay implements load.View: an event view made of all that a journal holds.
type replay struct {
	fleet *spine.Fleet
	log   journal.Journal
}

func (r replay) Each(ctx context.Context, fn func(load.Kept) error) error {
	view := event.New(shard.New(shard.Options{Definitions: r.fleet.Definition, Workers: runtime.GOMAXPROCS(0)}), event.Options{})
	life, end := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = view.Run(life) })
	defer running.Wait()
	defer end()
	head := r.log.Head() // ticks go on: what comes after this may be read or not
	err := r.log.Read(ctx, journal.Position{}, func(c journal.Commit) error { view.Deliver(c); return nil })
	if err == nil {
		err = view.WaitApplied(ctx, head)
	}
	if err != nil {
		return fmt.Errorf("replay the journal: %w", err)
	}
	return load.InProcess(view).Each(ctx, fn)
}
