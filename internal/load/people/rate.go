package people

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/pause"
)

const (
	// mostWaiting is how many requests of one person may wait for the one under way; the
	// oldest beyond that are given up.
	mostWaiting = 1000
	// CutOff is how late something must be, at the end of a run, to count as left
	// unanswered: the end breaks off what is younger.
	CutOff = int64(time.Second)
)

// errNobody is of what could not be asked, for whom it is about is not there: no answer, and no failure.
var errNobody = errors.New("nobody is there to be asked about")

// atRate lets somebody ask until ctx ends, at the times of eachDue. Whoever has to wait for an
// answer asks late, one request behind the other, and each is timed from when it was meant.
func (p *People) atRate(ctx context.Context, what string, random *rand.Rand, rate float64, ask func() error) {
	p.eachDue(ctx, what, random, rate, func(meant int64) bool {
		err := ask()
		switch {
		case err != nil && ctx.Err() != nil:
			return false // the end of the run, no answer
		case errors.Is(err, errNobody):
			return true
		}
		p.note(what, meant, p.Run.Now()-meant, err)
		return true
	})
}

// eachDue calls do until ctx ends, with times that the scenario and its seed alone decide: so
// often, the first a part of the time between two after the timetable began, and more often
// where a phase speeds people up. What do did not come to is given up; false: nor to this one.
func (p *People) eachDue(ctx context.Context, what string, random *rand.Rand, rate float64, do func(meant int64) bool) {
	if rate <= 0 {
		return
	}
	each := max(int64(float64(time.Second)/rate), int64(time.Millisecond)) // of virtual time, as next is
	next := int64(random.Float64() * float64(each))
	due := func(until int64) int64 { // meant by then and not done
		if v := p.Run.Virtual(until); v >= next {
			return (v-next)/each + 1
		}
		return 0
	}
	for ctx.Err() == nil {
		meant := p.Run.Meant(next)
		if wait := time.Duration(meant - p.Run.Now()); wait > 0 {
			pause.For(ctx, min(wait, time.Second)) // a phase may end early
			continue
		}
		if over := due(p.Run.Now()) - 1 - mostWaiting; over > 0 {
			p.giveUp(what, next, each, over)
			next += over * each
			continue
		}
		if !do(meant) {
			break
		}
		next += each
	}
	p.giveUp(what, next, each, due(p.Run.Now()-CutOff))
}

// giveUp counts so many requests, each due a while of virtual time after the one before,
// that nobody waits for any more: they took at least as long as until now.
func (p *People) giveUp(what string, next, each, n int64) {
	now := p.Run.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.of(what)
	for ; n > 0; n-- {
		meant := min(p.Run.Meant(next), now)
		w.unanswered++
		if p.Run.Away(meant, now) {
			w.unansweredAway++
		}
		report.Record(w.took, now-meant, 1)
		p.Run.Waited(what+"-p99", meant, now-meant)
		next += each
	}
}

// note counts an answer to what was meant at an instant of the run.
func (p *People) note(what string, meant, took int64, err error) {
	away := err != nil && p.Run.Away(meant, p.Run.Now())
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.of(what)
	w.requests++
	switch {
	case away:
		w.failed, w.failedAway = w.failed+1, w.failedAway+1
		return
	case err != nil:
		if w.failed++; w.why == "" {
			w.why = err.Error()
		}
		return
	}
	report.Record(w.took, took, 1)
	p.Run.Waited(what+"-p99", meant, took)
}

// of is what one kind of operator did so far. Caller holds the lock.
func (p *People) of(what string) *work {
	if p.works[what] == nil {
		p.works[what] = &work{took: hdrhistogram.New(1, report.MaxLatency, 3)}
	}
	return p.works[what]
}
