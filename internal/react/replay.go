package react

import (
	"context"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// rederive makes again what a full backlog dropped, until nothing is missing.
func (r *Reactor) rederive(ctx context.Context) error {
	if r.opts.Rederive == nil {
		panic("BUG: react: transitions were dropped and nothing can make them again")
	}
	began := time.Now()
	r.opts.Logger.Warn("history fell so far behind that the queue of changes is full; they are made again from the journal", "behind", r.Behind())
	for attempt := 0; ; attempt++ {
		r.metrics.rederived.Inc()
		err := r.replay(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			r.opts.Logger.Info("history has caught up with the journal", "took", time.Since(began))
			return nil
		}
		r.opts.Logger.Error("making changes again from the journal failed; trying again", "err", err)
		if err := sleep(ctx, backoff(attempt, 10*r.opts.again, time.Minute)); err != nil {
			return err
		}
	}
}

// replay is one way through the journal. A read that found little is the last but one:
// what comes during the next finds room in the backlog.
func (r *Reactor) replay(ctx context.Context) error {
	again, err := r.opts.Rederive()
	if err != nil {
		return err
	}
	defer again.Close()
	r.backlog.begin(again.At())
	defer r.backlog.end()
	for last := false; ; {
		if last {
			r.backlog.collect()
		}
		s := step{Reactor: r, ctx: ctx, began: time.Now()}
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

// stepTime is how long changes of a replay wait at most for a full transaction.
const stepTime = 250 * time.Millisecond

// step gathers what a replay makes into transactions: what they held is let go, and may be
// cut from the journal, one after another.
type step struct {
	*Reactor
	ctx      context.Context
	ts       []event.Transition
	waiting  int64 // bytes of ts
	bytes    int64 // of all that came
	at       journal.Position
	received int64
	began    time.Time
}

func (s *step) add(at journal.Position, received int64, ts []event.Transition) error {
	for i := range ts {
		s.waiting += cost(&ts[i])
	}
	s.ts, s.at, s.received = append(s.ts, ts...), at, received
	s.metrics.replayed.Inc()
	s.backlog.read(at)
	if len(s.ts) < s.opts.BatchSize && s.waiting < batchBytes && time.Since(s.began) < stepTime {
		return nil
	}
	return s.record()
}

// record writes what was gathered, and tells whom it is time to tell.
func (s *step) record() error {
	for ts := s.ts; len(ts) > 0; {
		n := some(ts, s.opts.BatchSize)
		if err := s.persist(s.ctx, ts[:n]); err != nil {
			return err
		}
		ts = ts[n:]
	}
	if s.at.Number > 0 {
		s.backlog.went(s.at, s.received)
	}
	clear(s.ts)
	s.ts, s.bytes, s.waiting = s.ts[:0], s.bytes+s.waiting, 0
	err := s.goOn(s.ctx)
	s.began = time.Now()
	return err
}
