package dispatch

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// consumer reads event changes from one queue, and writes the resulting rows to the history database. The order
// is kept in each partition. It also derives the transitions that a full backlog dropped from the journal
// again. One consumer records history and problems, another one evaluates pipelines.
type consumer struct {
	recorder
	name    string // name in logs, and as a consumer of the journal
	opts    *Options
	metrics *metrics
	backlog *transitionQueue
	batch   int // most transitions in one transaction
	replays *replayLimiter
	yields  bool // a replay of this consumer ends when another consumer waits for one
}

// recorder is the interface by which a consumer of a queue writes event changes to the database.
type recorder interface {
	// persist records transitions, and repeats a write that fails. It returns only the context's error.
	persist(ctx context.Context, ts []event.Transition) error
	// sendDueMessages sends due messages; the consumer calls it between the batches of a replay.
	sendDueMessages(ctx context.Context) error
}

// replayLimiter lets only one consumer at a time replay the journal. Each replay keeps a second copy of all event
// states in memory.
type replayLimiter struct {
	admitted chan struct{} // capacity 1: full while a replay runs
	wanted   atomic.Bool   // the consumer that does not yield waits for its replay
}

// errYield ends a replay because the other consumer waits for one.
var errYield = errors.New("the replay of the other consumer goes first")

// start marks the consumer as running, so that writers from now on wait when the queue is full. The blocking
// ends when stop is called or ctx ends.
func (l *consumer) start(ctx context.Context) (stop func()) {
	l.backlog.setConsumerRunning(true)
	release := context.AfterFunc(ctx, func() { l.backlog.setConsumerRunning(false) })
	return func() {
		release()
		l.backlog.setConsumerRunning(false)
	}
}

// processBatch records one batch of queued event changes. After dropped event changes, it replays the journal. False: no
// transitions waited.
func (l *consumer) processBatch(ctx context.Context) (worked bool, err error) {
	if ts := l.backlog.takeBatch(l.batch); len(ts) > 0 {
		if err := l.persist(ctx, ts); err != nil {
			return true, err
		}
		l.backlog.release(ts)
		return true, nil
	}
	if l.backlog.needsReplay() {
		return true, l.recomputeDropped(ctx)
	}
	return false, nil
}

// awaitRecorded waits until all event changes up to a commit of the journal are in the database. The commit itself is
// included.
func (l *consumer) awaitRecorded(ctx context.Context, at journal.Position) error {
	for {
		oldest, _, waits, moved := l.backlog.oldestUnrecorded()
		if !waits || oldest.Number > at.Number {
			return nil
		}
		if l.backlog.isBeyondReplay(at) {
			return ErrFarBehind
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// oldestAge returns how long ago the oldest unrecorded event change was received.
func (l *consumer) oldestAge(now time.Time) time.Duration {
	if _, since, waits, _ := l.backlog.oldestUnrecorded(); waits {
		return max(0, now.Sub(time.Unix(0, since)))
	}
	return 0
}

// retry calls a function with growing pauses until the function succeeds or ctx ends. The pauses between the
// calls grow, and each error is logged. It returns only the context's error.
func (l *consumer) retry(ctx context.Context, trouble string, transitions int, step func() error) error {
	for attempt := 0; ; attempt++ {
		err := step()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l.metrics.recordFailed.Inc()
		wait := backoff(attempt, l.opts.retryFirst, 10*time.Second)
		l.opts.Logger.Warn(trouble+"; trying again", "transitions", transitions, "wait", wait, "err", err)
		if err := pause.For(ctx, wait); err != nil {
			return err
		}
	}
}

// recomputeDropped reads the journal again to recover the event changes that the full queue dropped.
func (l *consumer) recomputeDropped(ctx context.Context) error {
	if l.opts.Rederive == nil {
		panic("BUG: dispatch: dropped transitions cannot be derived again")
	}
	began := time.Now()
	l.opts.Logger.Warn("the queue of transitions is full; the server reads the lost transitions from the journal again", "lane", l.name, "behind", l.oldestAge(l.opts.Now()))
	for attempt := 0; ; attempt++ {
		l.metrics.rederived.Inc()
		err := l.replay(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			l.opts.Logger.Info("history has caught up with the journal", "lane", l.name, "took", time.Since(began))
			return nil
		case errors.Is(err, errYield):
			attempt = -1
			if err := pause.For(ctx, 10*l.opts.retryFirst); err != nil {
				return err
			}
			continue
		}
		l.opts.Logger.Error("cannot read transitions from the journal again; the server retries", "lane", l.name, "err", err)
		if err := pause.For(ctx, backoff(attempt, 10*l.opts.retryFirst, time.Minute)); err != nil {
			return err
		}
	}
}

// replay reads the journal to its end, and records the event changes that history lacks. After a read that found few
// transitions the next read is the last one: transitions emitted meanwhile fit in the backlog.
func (l *consumer) replay(ctx context.Context) error {
	if !l.yields {
		l.replays.wanted.Store(true)
		defer l.replays.wanted.Store(false)
	}
	select {
	case l.replays.admitted <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.replays.admitted }()
	replay, err := l.opts.Rederive()
	if err != nil {
		return err
	}
	defer replay.Close()
	l.backlog.beginReplay(replay.At())
	defer l.backlog.endReplay()
	for last := false; ; {
		if last {
			l.backlog.acceptDuringReplay()
		}
		s := replayBatch{consumer: l, ctx: ctx, startedAt: time.Now()}
		if _, err := replay.Read(ctx, s.addCommit); err != nil {
			return err
		}
		if err := s.record(); err != nil {
			return err
		}
		if last && l.backlog.endOverflow() {
			return nil
		}
		last = s.bytes <= l.backlog.capacity/2
	}
}

const (
	// replayBatchTime is the longest time that a replay waits for a full batch.
	replayBatchTime = 250 * time.Millisecond
	// batchBytes is the largest size of one batch, however long the outputs of results are.
	batchBytes = 4 << 20
)

// replayBatch collects event changes from a replay of the journal, to write many in one transaction.
type replayBatch struct {
	*consumer
	ctx       context.Context
	ts        []event.Transition
	size      int64 // size of ts in bytes
	bytes     int64 // size of all transitions of the current read, in bytes
	at        journal.Position
	received  int64
	startedAt time.Time
}

// addCommit adds the event changes of one journal commit to the batch, and writes the batch when full.
func (s *replayBatch) addCommit(at journal.Position, received int64, ts []event.Transition) error {
	if s.yields && s.replays.wanted.Load() {
		return errYield
	}
	for i := range ts {
		if s.backlog.accepts(ts[i].Kind) {
			s.size += transitionSize(&ts[i])
			s.ts = append(s.ts, ts[i])
		}
	}
	s.at, s.received = at, received
	s.metrics.replayed.Inc()
	s.backlog.setReplayRead(at)
	if len(s.ts) < s.batch && s.size < batchBytes && time.Since(s.startedAt) < replayBatchTime {
		return nil
	}
	return s.record()
}

// record writes the collected event changes to history, and then starts the delivery of due messages.
func (s *replayBatch) record() error {
	for ts := s.ts; len(ts) > 0; {
		n := batchLength(ts, s.batch)
		if err := s.persist(s.ctx, ts[:n]); err != nil {
			return err
		}
		ts = ts[n:]
	}
	if s.at.Number > 0 {
		s.backlog.setReplayRecorded(s.at, s.received)
	}
	clear(s.ts)
	s.ts, s.bytes, s.size = s.ts[:0], s.bytes+s.size, 0
	err := s.sendDueMessages(s.ctx)
	s.startedAt = time.Now()
	return err
}

// batchLength returns how many event changes from the start of a list fit in one transaction. At least one fits.
func batchLength(ts []event.Transition, most int) int {
	bytes := int64(0)
	for i := range ts {
		if bytes += transitionSize(&ts[i]); i > 0 && (bytes > batchBytes || i == most) {
			return i
		}
	}
	return len(ts)
}

// backoff returns a random pause before the next attempt, which grows with the number of attempts. The upper
// bound doubles with each attempt, and the pause is at least half of it.
func backoff(attempt int, first, most time.Duration) time.Duration {
	d := min(first<<min(attempt, 20), most)
	if d <= 0 {
		d = most
	}
	return d/2 + rand.N(d/2+1)
}
