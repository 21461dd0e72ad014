package sensu

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/sensuwire"
)

// start starts an agent.
func start(t *testing.T, o Options, name string) *Agent {
	t.Helper()
	a := newAgent(o.withDefaults(), sensuwire.Entity{Name: name, Subscriptions: []string{"web", "linux"}, Labels: map[string]string{"class": "web"}}, 0)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { a.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return a
}

// counts returns the totals of one agent.
func counts(a *Agent) (c report.Totals) {
	a.addTo(&c)
	return c
}

// entryOf returns an agent's ledger entry of a check.
func entryOf(a *Agent, check string) (found Entry) {
	a.Each(func(name string, e Entry) {
		if name == check {
			found = e
		}
	})
	return found
}

// TestAgent connects an agent in both encodings, and expects its registration, keepalives, answers and ledger.
func TestAgent(t *testing.T) {
	for name, speaksJSON := range map[string]bool{"protobuf": false, "json": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFake(t, speaksJSON)
			answered := make(chan time.Duration, 10)
			a := start(t, Options{Backends: []string{b.url()}, User: "agent", Password: "secret", Namespace: "default", Keepalive: 50 * time.Millisecond, retry: 20 * time.Millisecond,
				Answer:   func(_ *Agent, check string, e Entry) (uint32, string) { return (e.Sent - 1) / 2, check + " says so" },
				Answered: func(o play.Observed) { answered <- o.Left.Sub(o.Intended) }}, "web-00000")
			b.eventually("registered, and two keepalives", func() bool { return b.alive["web-00000"] >= 2 })
			disk := fakeCheck{Metadata: fakeMeta{"disk", "default"}, Command: "true", Interval: 10, Subscriptions: []string{"web"}, Publish: true, Env: []string{"A=1"}}
			now := time.Now().Unix()
			for _, issued := range []int64{now, now, now - 5, now + 10, now + 40} { // one is repeated, one too old, and two are left out
				b.ask("web-00000", disk, issued)
			}
			b.eventually("the last event", b.holds("web-00000/disk", func(e *fakeEvent) bool { return e.Check.Issued == now+40 }))
			e, k := b.kept["web-00000/disk"], b.kept["web-00000/disk"].Check
			if e.Entity.Class != "agent" || e.Entity.Metadata.Namespace != "default" || strings.Join(e.Entity.Subscriptions, " ") != "web linux entity:web-00000" ||
				e.Sequence != 3 || e.Timestamp == 0 || len(e.ID) < 32 {
				t.Errorf("%+v", e)
			}
			if k.Command != "true" || k.Interval != 10 || k.Metadata != disk.Metadata || k.Env[0] != "A=1" || k.Output != "disk says so" || k.Status != 1 ||
				k.Occurrences != 1 || k.ProcessedBy != "web-00000" || k.Executed < now {
				t.Errorf("%+v", k)
			}
			want := Entry{Requests: 5, Dropped: 2, Missed: 2, Sent: 3, Written: 3, Issued: now + 40, Executed: k.Executed, Status: 1, Row: 1}
			if got := entryOf(a, "disk"); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
			if late := <-answered; late < 0 || late > time.Minute {
				t.Errorf("answered after %s", late)
			}
			b.mu.Lock()
			before := b.alive["web-00000"]
			b.mu.Unlock()
			b.cut()
			b.eventually("it is back", func() bool { return b.alive["web-00000"] > before })
			a.Rest()
			b.ask("web-00000", disk, now+50)
			b.eventually("the request at rest", func() bool { return entryOf(a, "disk").Requests == 6 })
			if c := counts(a); c.Dropped != 3 || c.Written != 3 || c.Lost != 1 || c.Ready != 1 || c.Alive < 2 {
				t.Errorf("%+v", c)
			}
		})
	}
}

// TestWrongPassword connects with a wrong password, and expects the backend's reason.
func TestWrongPassword(t *testing.T) {
	t.Parallel()
	b := newFake(t, false)
	a := start(t, Options{Backends: []string{b.url()}, User: "agent", Password: "guessed", Namespace: "default"}, "web-00000")
	b.eventually("the refusal", func() bool { return a.Trouble() != nil })
	if c := counts(a); c.Failed == 0 || c.Lost > 0 || c.Ready > 0 {
		t.Errorf("%+v", c)
	}
	if err := a.Trouble(); !strings.Contains(err.Error(), "401") {
		t.Error(err)
	}
}
