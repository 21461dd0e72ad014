package sensu

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
)

// start starts an agent of a target of its own.
func start(t *testing.T, target *Target, name string) *agent {
	t.Helper()
	a := target.newAgent(sensuwire.Entity{Name: name, Subscriptions: []string{"web", "linux"}, Labels: map[string]string{"class": "web"}}, 0)
	a.keepalive = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { a.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return a
}

// entryOf returns an agent's ledger entry of a check.
func entryOf(a *agent, check string) (found entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.ledger[check]; e != nil {
		found = *e
	}
	return found
}

// sayer says so, with another status for every second result.
type sayer struct{}

func (sayer) Status(_, _ int, _ *model.CheckDefinition, seq uint64, _ model.Status, _ bool) model.Status {
	return model.Status((seq - 1) / 2)
}

func (sayer) Output([]byte, int, int, *model.CheckDefinition, uint64, model.Status) []byte {
	return []byte("disk says so")
}

// TestAgent connects an agent in both encodings, and expects its registration, keepalives, answers and ledger.
func TestAgent(t *testing.T) {
	for name, speaksJSON := range map[string]bool{"protobuf": false, "json": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFake(t, speaksJSON)
			answered := make(chan time.Duration, 10)
			target, err := New(&scenario.Scenario{}, Options{Backends: []string{b.url()}, User: "agent", Password: "secret", Namespace: "default"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			target.checks = []map[string]spoken{{"disk": {says: sayer{}}}}
			target.observe = func(intended, _, left time.Time) { answered <- left.Sub(intended) }
			a := start(t, target, "web-00000")
			b.eventually("registered, and two keepalives", func() bool { return b.alive["web-00000"] >= 2 })
			disk := fakeCheck{Metadata: fakeMeta{"disk", "default"}, Command: "true", Interval: 10, Subscriptions: []string{"web"}, Publish: true, Env: []string{"A=1"}}
			now := time.Now().Unix()
			for _, issued := range []int64{now, now, now - 5, now + 10, now + 40} { // one is repeated, one too old, and two are left out
				b.ask("web-00000", disk, issued)
			}
			b.eventually("the last event", b.holds("web-00000/disk", func(e *fakeEvent) bool { return e.Check.Issued == now+40 }))
			e, k := b.kept["web-00000/disk"], b.kept["web-00000/disk"].Check
			if e.Entity.Metadata != (fakeMeta{"web-00000", "default"}) || e.Sequence != 3 {
				t.Errorf("%+v", e)
			}
			if k.Interval != 10 || k.Output != "disk says so" || k.Status != 1 || k.Occurrences != 1 || k.Executed < now {
				t.Errorf("%+v", k)
			}
			a.mu.Lock()
			if got := strings.Join(a.entity.Subscriptions, " "); got != "web linux entity:web-00000" {
				t.Errorf("subscriptions %s", got)
			}
			a.mu.Unlock()
			want := entry{sent: 3, written: 3, issued: now + 40, executed: k.Executed, status: 1, row: 1}
			got := entryOf(a, "disk")
			got.asked = time.Time{}
			if got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
			if sum := target.Totals(); sum.Requests != 5 || sum.Dropped != 2 || sum.Missed != 2 || sum.Sent != 3 || sum.Written != 3 {
				t.Errorf("%+v", sum)
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
			b.eventually("the request at rest", func() bool { return target.Totals().Requests == 6 })
			if c := target.Totals(); c.Dropped != 3 || c.Written != 3 || c.Lost != 1 || c.Ready != 1 || c.Alive < 2 {
				t.Errorf("%+v", c)
			}
		})
	}
}

// TestWrongPassword connects with a wrong password, and expects the backend's reason.
func TestWrongPassword(t *testing.T) {
	t.Parallel()
	b := newFake(t, false)
	target, err := New(&scenario.Scenario{}, Options{Backends: []string{b.url()}, User: "agent", Password: "guessed", Namespace: "default"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := start(t, target, "web-00000")
	b.eventually("the refusal", func() bool { return a.Trouble() != nil })
	if c := target.Totals(); c.Failed == 0 || c.Lost > 0 || c.Ready > 0 {
		t.Errorf("%+v", c)
	}
	if err := a.Trouble(); !strings.Contains(err.Error(), "401") {
		t.Error(err)
	}
}
