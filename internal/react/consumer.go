package react

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// consumer takes transitions of some kinds from a backlog, in order per partition, and derives dropped ones
// again. One records history and problems, one evaluates pipelines.
type consumer struct {
	opts    *Options
	metrics *metrics
	backlog *backlog
	batch   int // transitions that are recorded together, at most
	// persist records transitions, and afterBatch sends due messages between batches.
	persist    func(ctx context.Context, ts []event.Transition) error
	afterBatch func(ctx context.Context) error
	subject    string // is behind, for logs
	passes     *passes
	yields     bool // its pass gives way to that of the other lane
}

// passes admits one pass at a time: there is one second view.
type passes struct {
	turn   chan struct{} // capacity 1: full while one is under way
	wanted atomic.Bool   // by the lane that does not yield
}

// errYield: another lane wants to make transitions again.
var errYield = errors.New("another pass goes first")

// rederive derives the transitions again that a full backlog dropped, until none is missing.
func (r *consumer) rederive(ctx context.Context) error {
	if r.opts.Rederive == nil {
		panic("BUG: react: transitions were dropped and nothing can make them again")
	}
	began := time.Now()
	r.opts.Logger.Warn(r.subject+" fell so far behind that the queue of changes is full; they are made again from the journal", "behind", r.behind(r.opts.Now()))
	for attempt := 0; ; attempt++ {
		r.metrics.rederived.Inc()
		err := r.replay(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			r.opts.Logger.Info(r.subject+" has caught up with the journal", "took", time.Since(began))
			return nil
		case errors.Is(err, errYield):
			attempt = -1
			if err := sleep(ctx, 10*r.opts.retryFirst); err != nil {
				return err
			}
			continue
		}
		r.opts.Logger.Error("making changes again from the journal failed; trying again", "err", err)
		if err := sleep(ctx, backoff(attempt, 10*r.opts.retryFirst, time.Minute)); err != nil {
			return err
		}
	}
}

// replay reads the journal once, to its head. When a read found little, the next is the last: transitions
// emitted during it have room in the backlog.
func (r *consumer) replay(ctx context.Context) error {
	if !r.yields {
		r.passes.wanted.Store(true)
		defer r.passes.wanted.Store(false)
	}
	select {
	case r.passes.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.passes.turn }()
	again, err := r.opts.Rederive()
	if err != nil {
		return err
	}
	defer again.Close()
	r.backlog.beginPass(again.At())
	defer r.backlog.endPass()
	for last := false; ; {
		if last {
			r.backlog.collect()
		}
		s := step{consumer: r, ctx: ctx, began: time.Now()}
		if _, err := again.Read(ctx, s.add); err != nil {
			return err
		}
		if err := s.record(); err != nil {
			return err
		}
		if last && r.backlog.caughtUp() {
			return nil
		}
		last = s.bytes <= r.backlog.capacity/2
	}
}

// stepTime bounds how long a replay waits for a full transaction.
const stepTime = 250 * time.Millisecond

// step gathers a pass's transitions into transactions.
type step struct {
	*consumer
	ctx      context.Context
	ts       []event.Transition
	waiting  int64 // bytes of ts
	bytes    int64 // of all that came
	at       journal.Position
	received int64
	began    time.Time
}

func (s *step) add(at journal.Position, received int64, ts []event.Transition) error {
	if s.yields && s.passes.wanted.Load() {
		return errYield
	}
	for i := range ts {
		if s.backlog.accepts(ts[i].Kind) {
			s.waiting += cost(&ts[i])
			s.ts = append(s.ts, ts[i])
		}
	}
	s.at, s.received = at, received
	s.metrics.replayed.Inc()
	s.backlog.passRead(at)
	if len(s.ts) < s.batch && s.waiting < batchBytes && time.Since(s.began) < stepTime {
		return nil
	}
	return s.record()
}

// record writes what was gathered, and tells whom it is time to tell.
func (s *step) record() error {
	for ts := s.ts; len(ts) > 0; {
		n := batchLength(ts, s.batch)
		if err := s.persist(s.ctx, ts[:n]); err != nil {
			return err
		}
		ts = ts[n:]
	}
	if s.at.Number > 0 {
		s.backlog.passRecorded(s.at, s.received)
	}
	clear(s.ts)
	s.ts, s.bytes, s.waiting = s.ts[:0], s.bytes+s.waiting, 0
	err := s.afterBatch(s.ctx)
	s.began = time.Now()
	return err
}
