// Package rederive makes the event view's transitions again, for reactions that fell so
// far behind that their queue dropped some.
//
// A Pass is a second event view. It begins at the newest snapshots of all partitions, none of them ahead of history,
// and reads the journal once, for all partitions together: commit by commit, as fast as its transitions are recorded.
// It ends when it has caught up with the first view. Its memory is a second view and the transitions of one commit,
// however much it reads.
//
// During a pass, snapshots are made of its view: the first view is ahead of history. So the
// journal is cut behind the pass, and takes new commits meanwhile.
//
// Goroutines: only the loaders of snapshots. One lock guards the pass in progress. Start reading
// at pass.go (the calls of the server), then pass.go.
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

// Pass is one way through the journal. It has one caller.
type Pass struct {
	source  *Source
	view    *event.View
	ready   atomic.Bool // every partition is restored
	at      atomic.Pointer[journal.Position]
	emitted []event.Transition
}

// BeginPass restores a view from snapshots. Until Close the journal is not cut beyond the pass.
func (s *Source) BeginPass() (*Pass, error) {
	p := &Pass{source: s}
	p.at.Store(&journal.Position{}) // nothing is cut while snapshots are chosen
	s.set(p)
	p.view = event.New(shard.New(s.Options()), event.Options{
		Emit: func(ts []event.Transition) { p.emitted = append(p.emitted, ts...) },
	})
	from, _, err := s.Snapshots.Restore(max(1, s.Parallel), p.view.Restore)
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("restore a second view: %w", err)
	}
	p.at.Store(&from)
	p.ready.Store(true)
	return p, nil
}

// At is up to where the pass has come.
func (p *Pass) At() journal.Position { return *p.at.Load() }

// Read goes on from where the last Read ended to the journal's head of now, which it returns. fn hears of every commit,
// also of one that changed nothing; ts is used again once fn returns. After an error the pass has to be closed.
func (p *Pass) Read(ctx context.Context, fn func(at journal.Position, received int64, ts []event.Transition) error) (journal.Position, error) {
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

// Close ends the pass and lets go of its view.
func (p *Pass) Close() { p.source.set(nil) }

// Journal is the part of *journal.Log that a pass reads.
type Journal interface {
	Read(ctx context.Context, from journal.Position, fn func(journal.Commit) error) error
	Head() journal.Position
}

// Snapshots are where a pass begins: *snapshot.Store.
type Snapshots interface {
	Restore(parallel int, fn func(p model.Partition, at journal.Position, body []byte) error) (from journal.Position, restored int, err error)
}

// Source is where passes begin, and where snapshots are made meanwhile. Its methods may be called by any goroutine.
type Source struct {
	Journal   Journal
	Snapshots Snapshots
	Live      *event.View          // the first view; snapshots are made of it while there is no pass
	Options   func() shard.Options // of the first view's shard: settings that decide the effects of a commit
	Parallel  int                  // snapshots that are loaded at the same time

	mu   sync.Mutex
	pass *Pass // under way; nil: none
}

// Snapshot returns a partition of the pass, else of the first view.
func (s *Source) Snapshot(p model.Partition, dst []byte) (body []byte, at journal.Position) {
	if pass := s.underway(); pass != nil && pass.ready.Load() {
		return pass.view.Snapshot(p, dst)
	}
	return s.Live.Snapshot(p, dst)
}

// Revision is the intent revision in force.
func (s *Source) Revision() int64 { return s.Live.Revision() }

// Underway reports whether a pass is in progress.
func (s *Source) Underway() bool { return s.underway() != nil }

// Consumers lists a pass in progress as a consumer of the journal: it reads on from where it is.
func (s *Source) Consumers() []journal.Consumer {
	if pass := s.underway(); pass != nil {
		return []journal.Consumer{{Name: "rederive", At: pass.At()}}
	}
	return nil
}

func (s *Source) underway() *Pass {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pass
}

func (s *Source) set(p *Pass) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass = p
}
