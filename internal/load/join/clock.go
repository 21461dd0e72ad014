package join

import (
	"context"
	"time"
)

// exchanges is how often a clock is asked: the answer of the shortest round trip is the
// nearest to the truth, off by at most half of that.
const exchanges = 10

// offset is a follower's clock less the lead's, and how far that may be off.
type offset struct {
	ahead, within time.Duration
}

// between is what one question shows, asked and answered by the lead's clock.
func between(asked, answered, theirs time.Duration) offset {
	return offset{ahead: theirs - (asked+answered)/2, within: (answered - asked) / 2}
}

// nearest is the better of two; the zero one is none.
func (o offset) nearest(n offset) offset {
	if o == (offset{}) || n.within < o.within {
		return n
	}
	return o
}

// compare asks every follower's clock, one after the other.
func (l *Lead) compare(ctx context.Context) error {
	for _, p := range l.all() {
		best, err := l.ask(ctx, p)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		} else if err != nil {
			return l.broken(ctx, p, err)
		}
		l.mu.Lock()
		p.clock = best
		l.mu.Unlock()
	}
	return nil
}

// ask asks one clock.
func (l *Lead) ask(ctx context.Context, p *peer) (best offset, err error) {
	for range exchanges {
		l.mu.Lock()
		l.questions++
		question := l.questions
		l.mu.Unlock()
		asked := l.since()
		if err := p.conn.send(kindAsk, clock{Question: question}); err != nil {
			return best, err
		}
		var seen offset
		err := l.await(ctx, func() bool {
			if p.answer.Question != question {
				return false
			}
			seen = between(asked, p.answered, p.answer.At)
			return true
		})
		if err != nil {
			return best, err
		}
		best = best.nearest(seen)
	}
	return best, nil
}
