// Package rederive computes transitions of the event view again, for a dispatcher that fell so far
// behind that its queue dropped transitions.
//
// A Pass has a second event view. It begins at the newest snapshots of all partitions, none of which is ahead of
// history, and reads the journal once for all partitions: commit by commit, as fast as history records the transitions.
// The replay ends when it has caught up with the live view. It needs the memory of a second view and of the transitions
// of one commit, however much it reads.
//
// During a replay, snapshots are saved of its view, because the live view is ahead of history. So the journal can be cut
// behind the replay while new commits are appended.
//
// Goroutines: only the loaders of snapshots. One lock guards the replay in progress. Start reading
// at BeginReplay.
package rederive

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
)

// Replay reads the journal again to recompute changes of events (transitions) that were lost. It has its own copy of
// the event states. Only one goroutine uses it.
type Replay struct {
	source  *Source
	view    *event.View
	ready   atomic.Bool // true once every partition is restored
	at      atomic.Pointer[journal.Position]
	emitted []event.Transition
}

// BeginReplay starts a replay of the journal with a second copy of the event states, restored from snapshots. Until
// Close the journal is not cut beyond the replay.
func (s *Source) BeginReplay() (*Replay, error) {
	p := &Replay{source: s}
	p.at.Store(&journal.Position{}) // the journal is not cut while snapshots are chosen
	s.setReplay(p)
	p.view = event.New(shard.New(s.Options()), event.Options{
		Emit: func(ts []event.Transition) { p.emitted = append(p.emitted, ts...) },
	})
	if s.AddReducers != nil {
		s.AddReducers(p.view.Shard)
	}
	from, _, err := s.Snapshots.Restore(max(1, s.Parallel), p.view.Restore)
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("restore the event states for a replay: %w", err)
	}
	p.at.Store(&from)
	p.ready.Store(true)
	return p, nil
}

// At returns the journal position up to which the replay has read.
func (p *Replay) At() journal.Position { return *p.at.Load() }

// Read reads the next entries of the journal, from the position at which the last call ended. It returns the
// position of the journal's present end. It calls fn for every commit, also for one without transitions; the
// slice ts is reused once fn returns. After an error close the replay.
func (p *Replay) Read(ctx context.Context, fn func(at journal.Position, received int64, ts []event.Transition) error) (journal.Position, error) {
	head := p.source.Journal.Head()
	err := p.source.Journal.Read(ctx, p.At(), func(c journal.Commit) error {
		if err := p.view.Apply(c); err != nil {
			return err
		}
		at, ts := c.Position(), p.emitted
		p.at.Store(&at)
		err := fn(at, c.Received(), ts)
		clear(ts)
		p.emitted = ts[:0]
		return err
	})
	if err != nil {
		return journal.Position{}, fmt.Errorf("read the journal from commit %d: %w", p.At().Number, err)
	}
	return head, nil
}

// Close ends the replay and frees its copy of the event states.
func (p *Replay) Close() { p.source.setReplay(nil) }

// Journal has the methods of *journal.Log that a replay calls.
type Journal interface {
	Read(ctx context.Context, from journal.Position, fn func(journal.Commit) error) error
	Head() journal.Position
}

// Snapshots loads saved snapshots of the event states, with which a replay of the journal starts.
// *snapshot.Store implements it.
type Snapshots interface {
	Restore(parallel int, fn func(p model.Partition, at journal.Position, body []byte) error) (from journal.Position, restored int, err error)
}

// Source starts replays of the journal, and takes snapshots of the running replay's or the live event states.
// It takes the states of the running replay, or else the live states. It is safe for concurrent use.
type Source struct {
	Journal   Journal
	Snapshots Snapshots
	Live      *event.View          // the live view; snapshots are saved of it while no replay is in progress
	Options   func() shard.Options // returns the settings of the live view that decide the effects of a commit
	// AddReducers adds the other reducers of the live view to the shard of a second view, so that it reads and writes
	// their sections of snapshots. Nil: there are none.
	AddReducers func(*shard.Shard)
	Parallel    int // number of snapshots that are loaded at the same time

	mu     sync.Mutex
	replay *Replay // the replay in progress; nil: none
}

// Snapshot appends the encoded event states of one partition (share of the nodes) to dst. The states are from the
// running replay if one runs, else the live states.
func (s *Source) Snapshot(p model.Partition, dst []byte) (body []byte, at journal.Position) {
	if replay := s.currentReplay(); replay != nil && replay.ready.Load() {
		return replay.view.Snapshot(p, dst)
	}
	return s.Live.Snapshot(p, dst)
}

// Revision returns the revision of the declared resources in the live event states.
func (s *Source) Revision() int64 { return s.Live.Revision() }

// IsReplaying reports whether a replay of the journal is running.
func (s *Source) IsReplaying() bool { return s.currentReplay() != nil }

// Consumers returns the running replay, if any, as a journal reader whose unread segments must be kept. So the
// journal keeps the segments that the replay still needs.
func (s *Source) Consumers() []journal.Consumer {
	if replay := s.currentReplay(); replay != nil {
		return []journal.Consumer{{Name: "rederive", At: replay.At()}}
	}
	return nil
}

// currentReplay returns the running replay of the journal, or nil if none runs.
func (s *Source) currentReplay() *Replay {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replay
}

// setReplay sets the running replay of the journal. The value nil means that no replay runs.
func (s *Source) setReplay(p *Replay) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replay = p
}
