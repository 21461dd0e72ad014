package sensu

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// Options holds the settings that all agents of a run share. They are not changed once agents run.
type Options struct {
	Backends  []string // ws://host:port or wss://host:port, of the agents' listeners
	User      string
	Password  string
	Namespace string
	JSON      bool          // ask for JSON; default protobuf, as agents do
	TLS       *tls.Config   // of wss; nil: the system's authorities
	Keepalive time.Duration // of agents whose class says nothing else; default 20 s
	Warning   time.Duration // silence after which the backend warns, likewise; default 120 s

	// Answer says what the run of a check returns that its entry has counted as sent last.
	Answer func(a *Agent, check string, e Entry) (status uint32, output string)
	// Answered is told of each event written; intended is when its request was issued, in
	// whole seconds. Nil: nobody asks.
	Answered func(play.Observed)

	shared wsconn.Options
	retry  time.Duration // the first pause before a connection is opened again; default retryFirst
}

// withDefaults returns the options with defaults in place of absent fields.
func (o Options) withDefaults() *Options {
	if o.Keepalive == 0 {
		o.Keepalive = 20 * time.Second
	}
	if o.Warning == 0 {
		o.Warning = 120 * time.Second
	}
	if o.retry == 0 {
		o.retry = retryFirst
	}
	if o.Answer == nil {
		o.Answer = func(*Agent, string, Entry) (uint32, string) { return 0, "" }
	}
	o.shared = wsconn.Options{Timeout: writeTimeout, Buffers: &wsconn.Buffers{}}
	return &o
}

// Agent is one simulated agent.
type Agent struct {
	class  int // of the scenario
	o      *Options
	entity sensuwire.Entity
	first  int // its number: which backend it tries first, and from which address

	keepalive, warning time.Duration            // as in Options
	expects            map[string]time.Duration // checks that it has to be asked for, with their intervals

	mu         sync.Mutex
	ledger     map[string]*asked // by Request.Key
	ready      time.Time         // since when it answers requests; zero: not yet
	unasked    uint64            // requests that should have come since the last one of their check, when it came to rest
	session    *session          // nil: not connected
	registered bool
	rest       bool
	keepalives uint64
	lost       uint64
	failed     uint64 // connections that were not opened
	trouble    error  // why the last connection was not opened, or ended
}

// newAgent returns an agent that is not connected.
func newAgent(o *Options, x sensuwire.Entity, number int) *Agent {
	x.Namespace, x.User = o.Namespace, o.User
	return &Agent{o: o, entity: x, first: number, keepalive: o.Keepalive, warning: o.Warning, ledger: map[string]*asked{}}
}

// Name returns the name of the agent's entity.
func (a *Agent) Name() string { return a.entity.Name }

// Run connects and answers requests until ctx ends. If a connection ends before, it keeps the error and tries the next
// backend, after a growing pause, as real agents do.
func (a *Agent) Run(ctx context.Context) {
	pause := a.o.retry
	for try := a.first; ctx.Err() == nil; try++ {
		registered, err := a.connect(ctx, a.o.Backends[try%len(a.o.Backends)])
		if ctx.Err() != nil {
			return
		}
		a.mu.Lock()
		a.trouble = err
		a.mu.Unlock()
		if registered {
			pause = a.o.retry
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause + rand.N(pause)):
		}
		pause = min(2*pause, retryMost)
	}
}

// Rest lets the agent leave later requests unanswered, and counts requests that should have come by now. Answers in
// progress are complete when Rest returns.
func (a *Agent) Rest() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.rest {
		return
	}
	a.rest = true
	for check, interval := range a.expects {
		since := a.ready
		if e := a.ledger[check]; e != nil {
			since = e.at
		}
		if !since.IsZero() {
			a.unasked += overdue(interval, time.Since(since))
		}
	}
}

// Trouble returns why the last connection failed or ended, or nil.
func (a *Agent) Trouble() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.trouble
}

// Each calls f with a copy of each entry of its ledger, by check.
func (a *Agent) Each(f func(check string, e Entry)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for check, e := range a.ledger {
		f(check, e.Entry)
	}
}

// addTo adds the agent to the totals of a run.
func (a *Agent) addTo(t *report.Totals) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.ledger {
		e.addTo(t)
	}
	t.Missed += a.unasked
	if a.session != nil {
		t.Connected++
	}
	if a.registered {
		t.Ready++
	}
	t.Alive += a.keepalives
	t.Lost += a.lost
	t.Failed += a.failed
}
