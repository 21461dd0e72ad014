package load

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// mostWaiting is how many requests of one person may wait for the one under way; the
	// oldest beyond that are given up.
	mostWaiting = 1000
	// cutOff is how late something must be, at the end of a run, to count as left
	// unanswered: the end breaks off what is younger.
	cutOff = int64(time.Second)
)

// atRate lets somebody ask until ctx ends, at times that the seed alone decides: so often,
// the first a part of the time between two after the timetable began. Whoever has to wait
// for an answer asks late, one request behind the other, and each is timed from when it
// was meant.
func (p *people) atRate(ctx context.Context, what string, random *rand.Rand, rate float64, ask func() error) {
	if rate <= 0 {
		return
	}
	each := max(int64(float64(time.Second)/rate), int64(time.Millisecond))
	meant := p.run.begin.Load() + int64(random.Float64()*float64(each))
	due := func(until int64) int64 { return (until-meant)/each + 1 } // requests meant by then and not asked
	for {
		pause(ctx, p.run.until(time.Duration(meant)))
		if ctx.Err() != nil {
			break
		}
		if over := due(p.run.now()) - 1 - mostWaiting; over > 0 {
			p.giveUp(what, meant, each, over)
			meant += over * each
		}
		err := ask()
		if err != nil && ctx.Err() != nil {
			break // the end of the run, no answer
		}
		p.note(what, meant, p.run.now()-meant, err)
		meant += each
	}
	if end := p.run.now() - cutOff; end >= meant {
		p.giveUp(what, meant, each, due(end))
	}
}

// giveUp counts so many requests, each meant a while after the one before, that nobody
// waits for any more: they took at least as long as until now.
func (p *people) giveUp(what string, meant, each, n int64) {
	now := p.run.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.of(what)
	for ; n > 0; n-- {
		w.unanswered++
		record(w.took, now-meant, 1)
		p.run.waited(what+"-p99", meant, now-meant, 1)
		meant += each
	}
}

// note counts an answer to what was meant at an instant of the run.
func (p *people) note(what string, meant, took int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.of(what)
	w.requests++
	if err != nil {
		if w.failed++; w.why == "" {
			w.why = err.Error()
		}
		return
	}
	record(w.took, took, 1)
	p.run.waited(what+"-p99", meant, took, 1)
}

// of is what one kind of operator did so far. Caller holds the lock.
func (p *people) of(what string) *work {
	if p.works[what] == nil {
		p.works[what] = &work{took: hdrhistogram.New(1, maxLatency, 3)}
	}
	return p.works[what]
}
