package link

import (
	"slices"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

func TestOrderOfServers(t *testing.T) {
	for _, c := range []struct{ told, own, want []string }{
		{nil, []string{"a:1", "b:1"}, []string{"a:1", "b:1"}},
		{[]string{"c:1"}, []string{"a:1"}, []string{"c:1", "a:1"}},
		{[]string{"b:1", "c:1"}, []string{"a:1", "b:1"}, []string{"b:1", "c:1", "a:1"}},
	} {
		r := &runner{cfg: RunConfig{Servers: c.own}, told: c.told}
		if got := r.order(); !slices.Equal(got, c.want) {
			t.Errorf("told %v, own %v: tries %v, want %v", c.told, c.own, got, c.want)
		}
	}
}

func arrives(t *testing.T, came <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-came:
	case <-time.After(time.Minute):
		t.Fatalf("not within a minute: %s", what)
	}
}

// A fleet that was told a wrong list finds back to the server that it knows itself.
func TestAWrongListLocksNobodyOut(t *testing.T) {
	last := []wire.StreamLast{{StreamKey: key}}
	came := make(chan struct{}, 10)
	nobody, either := testenv.Port(t), testenv.Port(t)
	s := serve(t, func(p *peer) {
		p.welcome(wire.Welcome{Last: last, Servers: []string{nobody, either}})
		came <- struct{}{} // and the session ends
	})
	run(t, newSpool(), nil, s.l.Addr().String())
	for range 3 {
		arrives(t, came, "a session at the agent's own server")
	}
}

// While another server than the first serves it, the agent looks whether the first is
// there again, says Bye, and returns.
func TestReturnsToTheFirstServer(t *testing.T) {
	last := []wire.StreamLast{{StreamKey: key}}
	first := testenv.Port(t) // nobody listens there
	second, byes := make(chan struct{}, 10), make(chan struct{}, 10)
	s := serve(t, func(p *peer) {
		p.welcome(wire.Welcome{Last: last})
		second <- struct{}{}
		for kind, _ := p.read(); kind != 0; kind, _ = p.read() {
			if kind == wire.KindBye {
				byes <- struct{}{}
			}
		}
	})
	run(t, newSpool(), func(c *RunConfig) { c.HomeAfter = 20 * time.Millisecond }, first, s.l.Addr().String())
	arrives(t, second, "a session at the second server")
	home := make(chan struct{}, 10)
	serveAt(t, first, func(p *peer) {
		if kind, _ := p.read(); kind == wire.KindHello {
			home <- struct{}{}
		}
	})
	arrives(t, byes, "Bye at the second server")
	arrives(t, home, "a session at the first server")
}

// A list that names another server moves those who are connected, too.
func TestMovesToTheServerToldFirst(t *testing.T) {
	last := []wire.StreamLast{{StreamKey: key}}
	home := make(chan struct{}, 10)
	better := serve(t, func(p *peer) {
		if kind, _ := p.read(); kind == wire.KindHello {
			home <- struct{}{}
		}
	})
	old := serve(t, func(p *peer) {
		p.welcome(wire.Welcome{Last: last, Servers: []string{better.l.Addr().String()}})
		p.batch()
	})
	run(t, newSpool(), func(c *RunConfig) { c.HomeAfter = 20 * time.Millisecond }, old.l.Addr().String())
	arrives(t, home, "a session at the server told first")
}
