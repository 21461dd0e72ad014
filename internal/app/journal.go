package app

import (
	"context"
	"time"

	"github.com/muster-fleet/muster/internal/datadir"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/metrics"
	"github.com/muster-fleet/muster/internal/store/snapshot"
)

// openJournal opens the journal, after the positions that snapshots and history have seen, and tells
// the intent store its incarnation.
func (s *Server) openJournal(ctx context.Context) error {
	o := datadir.JournalOptions(s.cfg)
	names, err := snapshot.ReadNames(disk.OS{}, datadir.Snapshots(s.cfg))
	if err != nil {
		return err
	}
	o.KnownPositions, o.VerifyFrom = names.Seen, names.Oldest
	places, err := s.history.Places(ctx)
	if err != nil {
		return err
	}
	for _, place := range places {
		o.KnownPositions = append(o.KnownPositions, place.At)
	}
	o.Linger = journal.ServerLinger
	o.QueueBytes, _ = s.queues.Bounds("journal")
	o.Clock = journalClock{now: s.now, began: s.now()}
	o.Deliver, o.Queues, o.Logger = s.deliver, s.queues, s.log
	shown := metrics.NewJournal(s.registry, "server")
	o.ObserveCommit = shown.Committed
	if s.journal, err = journal.Open(datadir.Journal(s.cfg), o); err != nil {
		return err
	}
	shown.Open(s.journal)
	s.recorder.Journal = s.journal
	return s.intent.Store().BeginLife(ctx, s.journal.Incarnation().ID)
}

// journalClock is the server's clock as the journal wants it.
type journalClock struct {
	now   func() time.Time
	began time.Time
}

func (c journalClock) Wall() int64         { return c.now().UnixNano() }
func (c journalClock) Mono() time.Duration { return c.now().Sub(c.began) }

// deliver hands a durable commit to the view. It blocks the committer until the replay has ended, so
// that the view gets commits in their order.
func (s *Server) deliver(c journal.Commit) {
	<-s.replay
	if c.Position().Number > s.replayed {
		s.view.Deliver(c)
	}
}

// releaseReplay lets a committer go that waits for a replay which failed.
func (s *Server) releaseReplay() {
	select {
	case <-s.replay:
	default:
		s.replayed = ^uint64(0)
		close(s.replay)
	}
}
