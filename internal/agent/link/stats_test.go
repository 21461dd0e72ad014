package link

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/wire"
)

// The agent tells of itself soon after the session opened, without anything else to send;
// what was sent is counted over sessions.
func TestTellsOfItself(t *testing.T) {
	told := make(chan wire.Stats, 100)
	hear := func(p *peer) {
		p.welcome(wire.Welcome{Last: []wire.StreamLast{{StreamKey: key}}})
		for {
			kind, body := p.read()
			if kind == 0 {
				return
			}
			if kind != wire.KindStats {
				continue
			}
			var x wire.Stats
			if err := x.Decode(body); err != nil {
				p.t.Error(err)
			}
			told <- x
			return // the connection is closed: the next session tells again
		}
	}
	s := serve(t, hear)
	run(t, newSpool(), func(c *RunConfig) {
		c.Rand = func() float64 { return 0 }
		c.Stats = func() wire.Stats { return wire.Stats{Runs: 7} }
	}, s.l.Addr().String())
	first, second := <-told, <-told
	if first.Runs != 7 || first.BytesSent == 0 || second.BytesSent <= first.BytesSent {
		t.Errorf("told %+v, then %+v", first, second)
	}
}

// Later it waits for something else that leaves.
func TestTellsOfItselfOnlyWithABatch(t *testing.T) {
	r := &runner{cfg: RunConfig{Stats: func() wire.Stats { return wire.Stats{} }, Rand: func() float64 { return 0.5 }}}
	began := time.Now()
	a := r.newStatsTimer(began)
	at := func(d time.Duration) time.Time { return began.Add(d) }
	if a.due(at(2*time.Second), true) || !a.due(at(3*time.Second), false) {
		t.Error("the first one is due 2.5 s after the session opened")
	}
	if w := a.wait(began, time.Minute); w != 2500*time.Millisecond {
		t.Errorf("nothing to do for %s before the first", w)
	}
	a.at, a.first = at(time.Minute), false
	for _, c := range []struct {
		at      time.Duration
		leaving bool
		want    bool
	}{{59 * time.Second, true, false}, {61 * time.Second, false, false}, {5 * time.Minute, false, false}, {61 * time.Second, true, true}} {
		if got := a.due(at(c.at), c.leaving); got != c.want {
			t.Errorf("after %s, leaving %v: %v", c.at, c.leaving, got)
		}
	}
	if w := a.wait(at(2*time.Minute), time.Hour); w != time.Hour {
		t.Errorf("it wakes up by itself after %s", w)
	}
}
