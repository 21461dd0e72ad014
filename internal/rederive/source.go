// Package rederive makes the event view's transitions again, for reactions that fell so
// far behind that their queue dropped some.
//
// A Pass is a second event view. It begins at the newest snapshots of all partitions, none of
// which is ahead of what history has recorded, and reads the journal once, for all partitions
// together: commit by commit, as fast as whoever takes its transitions records them. It
// ends when it has caught up with the first view. Its memory is that of a second
// view and of the transitions of one commit, however much it has to read.
//
// While there is a pass, snapshots are made of its view instead of the first one's, which is
// ahead of what history holds: so the journal is cut behind the pass, and takes new commits
// while the pass is still on its way.
//
// Start reading at source.go (what the server asks), then pass.go. No goroutines but those
// that load snapshots; one lock, over which pass is under way.
package rederive

import (
	"context"
	"sync"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
)

// Journal is what is read: *journal.Log.
type Journal interface {
	Read(ctx context.Context, from journal.Position, fn func(journal.Commit) error) error
	Head() journal.Position
}

// Snapshots are where a pass begins: *snapshot.Store.
type Snapshots interface {
	Restore(parallel int, fn func(p model.Partition, at journal.Position, body []byte) error) (from journal.Position, restored int, err error)
}

// Source is where passes begin, and where snapshots are made meanwhile. Its methods may be
// called by any goroutine.
type Source struct {
	Journal   Journal
	Snapshots Snapshots
	Live      *event.View          // the first view: of it snapshots are made while there is no pass
	Options   func() shard.Options // of the first view's shard: those that decide what a commit does
	Parallel  int                  // snapshots that are loaded at the same time

	mu   sync.Mutex
	pass *Pass // under way; nil: none
}

// Snapshot is that of the view which history keeps up with.
func (s *Source) Snapshot(p model.Partition, dst []byte) (body []byte, at journal.Position) {
	if pass := s.underway(); pass != nil && pass.ready.Load() {
		return pass.view.Snapshot(p, dst)
	}
	return s.Live.Snapshot(p, dst)
}

// Revision is the intent revision in force.
func (s *Source) Revision() int64 { return s.Live.Revision() }

// Underway says whether changes are made again now.
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
