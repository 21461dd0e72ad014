package follow

import (
	"context"
	"errors"

	"github.com/muster-fleet/muster/internal/journal"
)

// Share is the part of the journal's budget that a follower may keep from being cut.
const Share = 0.25

// beyondShare reports whether the follower lags by more than its share of the journal.
func (f *Follower) beyondShare() bool {
	f.mu.Lock()
	at := f.shown.at
	f.mu.Unlock()
	return f.opts.Journal.SizeAfter(at) > f.opts.share()
}

// skip passes over the oldest results, until half of the share is left, and counts them.
// Waiting lines, and lines since the settled position on broken connections, count as skipped, too.
func (f *Follower) skip(ctx context.Context) error {
	from := f.pos
	if f.pool.look() || f.pool.waiting > 0 {
		from = f.settled.at()
	}
	f.pool.drop()
	var skipped uint64
	f.reader.take = func(*result) { skipped++ }
	half, at, looked := f.opts.share()/2, from, 0
	err := f.opts.Journal.Read(ctx, from, func(c journal.Commit) error {
		if looked++; looked%16 == 0 && f.opts.Journal.SizeAfter(at) <= half {
			return errEnough
		}
		if err := f.reader.commit(c); err != nil {
			return err
		}
		at = c.Position()
		f.pos = at
		f.passed(c)
		return nil
	})
	if errors.Is(err, journal.ErrTrimmed) {
		return f.restartAtTail()
	}
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	f.skipped(skipped)
	return nil
}

// restartAtTail continues with the oldest commit: the journal was cut beyond the follower, which only a repair
// does. The lost results cannot be counted.
func (f *Follower) restartAtTail() error {
	f.pos = f.opts.Journal.Tail()
	f.pos.Number--
	f.pool.drop()
	f.skipped(0)
	return nil
}

func (f *Follower) skipped(n uint64) {
	now := f.opts.Now()
	f.pool.mended()
	f.settled.reset(now, f.pos)
	f.show(func(s *State) { s.Skipped, s.SkippedAt, s.settled, s.at = s.Skipped+n, now, f.pos, f.pos })
	f.log.Error("a stream was too far behind: results were skipped", "results", n, "share", f.opts.share())
}
