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
	// maxWaiting bounds the requests of one user that wait for the present one; older ones are given up.
	maxWaiting = 1000
	// CutOff is the smallest age in ns of a request that counts as unanswered at the end of a run.
	CutOff = int64(time.Second)
)

// errAbsent is the error of a request about an absent machine: no answer, and no failure.
var errAbsent = errors.New("the machine is absent")

// atRate sends requests until ctx ends, at the times of eachDue. A user sends one request after the other; latency runs
// from the scheduled time, so there is no coordinated omission.
func (p *People) atRate(ctx context.Context, what string, random *rand.Rand, rate float64, ask func(context.Context) error) {
	p.eachDue(ctx, what, random, rate, func(meant int64) bool {
		err := ask(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return false // the run ended
		case errors.Is(err, errAbsent):
			return true
		}
		p.note(what, meant, p.Time.Now()-meant, err)
		return true
	})
}

// eachDue calls do until ctx ends, at times that the scenario and its seed decide: at a rate, the first within one
// interval, and more often where a phase speeds users up. At the end of ctx it gives up the remaining times, and the
// present one, too, if do returns false.
func (p *People) eachDue(ctx context.Context, what string, random *rand.Rand, rate float64, do func(meant int64) bool) {
	if rate <= 0 {
		return
	}
	each := max(int64(float64(time.Second)/rate), int64(time.Millisecond)) // of virtual time, as next is
	next := int64(random.Float64() * float64(each))
	due := func(until int64) int64 { // scheduled until then, and not done
		if v := p.Time.Virtual(until); v >= next {
			return (v-next)/each + 1
		}
		return 0
	}
	for ctx.Err() == nil {
		meant := p.Time.Meant(next)
		if wait := time.Duration(meant - p.Time.Now()); wait > 0 {
			pause.For(ctx, min(wait, time.Second)) // a phase may end early
			continue
		}
		if over := due(p.Time.Now()) - 1 - maxWaiting; over > 0 {
			p.giveUp(what, next, each, over)
			next += over * each
			continue
		}
		if !do(meant) {
			break
		}
		next += each
	}
	p.giveUp(what, next, each, due(p.Time.Now()-CutOff))
}

// giveUp counts n unanswered requests, one per interval of virtual time: their latency is at least their age.
func (p *People) giveUp(what string, next, each, n int64) {
	now := p.Time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.of(what)
	for ; n > 0; n-- {
		meant := min(p.Time.Meant(next), now)
		w.Unanswered++
		if p.Run.Away(meant, now) {
			w.UnansweredAway++
		}
		report.Record(w.took, now-meant, 1)
		p.Run.Waited(what+"-p99", meant, now-meant)
		next += each
	}
}

// note counts the answer to a request that was scheduled at a time of the run.
func (p *People) note(what string, meant, took int64, err error) {
	away := err != nil && p.Run.Away(meant, p.Time.Now())
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.of(what)
	w.Requests++
	switch {
	case away:
		w.Failed, w.FailedAway = w.Failed+1, w.FailedAway+1
		return
	case err != nil:
		if w.Failed++; w.Why == "" {
			w.Why = err.Error()
		}
		return
	}
	report.Record(w.took, took, 1)
	p.Run.Waited(what+"-p99", meant, took)
}

// of returns the counts of one kind of request. The caller holds the lock.
func (p *People) of(what string) *work {
	if p.works[what] == nil {
		p.works[what] = &work{took: hdrhistogram.New(1, report.MaxLatency, 3)}
	}
	return p.works[what]
}
