package sensu

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/sensuwire"
)

// agent is one simulated agent.
type agent struct {
	target *Target
	class  int // of the scenario
	entity sensuwire.Entity
	number int // which backend it tries first, and from which address

	keepalive time.Duration
	warning   time.Duration // silence after which the backend warns

	mu         sync.Mutex
	ledger     map[string]*entry // by Request.Key
	ready      time.Time         // since when it answers requests; zero: not yet
	session    *session          // nil: not connected
	registered bool
	rest       bool
	trouble    error // why the last connection was not opened, or ended
}

// newAgent returns an agent that is not connected.
func (t *Target) newAgent(x sensuwire.Entity, number int) *agent {
	x.Namespace, x.User = t.options.Namespace, t.options.User
	return &agent{target: t, entity: x, number: number, keepalive: 20 * time.Second, warning: 120 * time.Second, ledger: map[string]*entry{}}
}

// Run connects and answers requests until ctx ends. If a connection ends before, it keeps the error and tries the next
// backend, after a growing pause, as real agents do.
func (a *agent) Run(ctx context.Context) {
	backends, wait := a.target.options.Backends, retryFirst
	for try := a.number; ctx.Err() == nil; try++ {
		registered, err := a.connect(ctx, backends[try%len(backends)])
		if ctx.Err() != nil {
			return
		}
		a.mu.Lock()
		a.trouble = err
		a.mu.Unlock()
		if registered {
			wait = retryFirst
		}
		pause.For(ctx, wait+rand.N(wait))
		wait = min(2*wait, retryMost)
	}
}

// Rest lets the agent leave later requests unanswered, and counts requests that should have come by now. Answers in
// progress are complete when Rest returns.
func (a *agent) Rest() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.rest {
		return
	}
	a.rest = true
	for check, k := range a.target.checks[a.class] {
		since := a.ready
		if e := a.ledger[check]; e != nil {
			since = e.asked
		}
		if !since.IsZero() {
			a.target.count(func(sum *report.Totals) { sum.Missed += overdue(k.interval, time.Since(since)) })
		}
	}
}

// Trouble returns why the last connection failed or ended, or nil.
func (a *agent) Trouble() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.trouble
}

// entry records what an agent answered to one check.
type entry struct {
	asked    time.Time // of the last request, by the agent's clock
	sent     uint32    // events given to a connection …
	written  uint32    // … and taken by it whole
	issued   int64     // of the last request that was answered, s since 1970
	executed int64     // of the last event written, s since 1970
	status   uint32    // of the last event written
	row      uint32    // events written in a row that had that status: the backend counts them as occurrences
}

// answers reports whether an agent answers a request, and how many did not come before it. An agent runs a check at most once for
// each second of issue.
func (e *entry) answers(r *sensuwire.ReceivedRequest) (ok bool, missed uint64) {
	if r.Issued <= e.issued {
		return false, 0
	}
	if e.issued > 0 && r.Interval > 0 {
		missed = uint64(max(0, (r.Issued-e.issued+int64(r.Interval)/2)/int64(r.Interval)-1))
	}
	e.issued = r.Issued
	return true, missed
}

// wrote records a sent event.
func (e *entry) wrote(executed int64, status uint32) {
	if e.written == 0 || e.status != status {
		e.row = 0
	}
	e.row++
	e.written++
	e.executed, e.status = executed, status
}

// overdue returns how many requests of a check should have come since a time; each may be late by half its interval and
// a second.
func overdue(interval, since time.Duration) uint64 {
	late := since - max(interval/2, time.Second)
	if interval <= 0 || late < interval {
		return 0
	}
	return uint64(late / interval)
}
