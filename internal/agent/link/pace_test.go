package link

import (
	"context"
	"io"
	"math"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

func TestPace(t *testing.T) {
	const usual, at = 500 * time.Millisecond, 100 * time.Second
	for _, c := range []struct {
		name        string
		ask         wire.Slow
		since       time.Duration // from at
		due, untils time.Duration // from at
	}{
		{"as usual", wire.Slow{LastsMs: 1000}, 0, usual, 0},
		{"slow", wire.Slow{LingerMs: 5000, LastsMs: 12000}, 0, 5 * time.Second, 12 * time.Second},
		{"waited before", wire.Slow{LingerMs: 5000, LastsMs: 12000}, -400 * time.Millisecond, 4600 * time.Millisecond, 12 * time.Second},
		{"ends while it waits", wire.Slow{LingerMs: 5000, LastsMs: 12000}, 10 * time.Second, 12 * time.Second, 12 * time.Second},
		{"ends sooner than usual", wire.Slow{LingerMs: 5000, LastsMs: 12000}, 11800 * time.Millisecond, 12300 * time.Millisecond, 12 * time.Second},
		{"over", wire.Slow{LingerMs: 5000, LastsMs: 12000}, 20 * time.Second, 20*time.Second + usual, 12 * time.Second},
		{"shorter than usual", wire.Slow{LingerMs: 1, LastsMs: 12000}, 0, usual, 12 * time.Second},
		{"an older server", wire.Slow{LingerMs: 5000}, 58 * time.Second, 60 * time.Second, 60 * time.Second},
		{"hostile", wire.Slow{LingerMs: math.MaxUint32, LastsMs: math.MaxUint32}, 0, time.Minute, 5 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p Pace
			p.Ask(at, &c.ask)
			if due := p.Due(at+c.since, usual) - at; due != c.due {
				t.Errorf("due after %v, want %v", due, c.due)
			}
			if c.untils > 0 && (!p.Slow(at+c.untils-1) || p.Slow(at+c.untils)) || c.untils == 0 && p.Slow(at) {
				t.Errorf("slow otherwise than for %v: %+v", c.untils, p)
			}
			p.Ask(at, &wire.Slow{})
			if p != (Pace{}) {
				t.Errorf("after Slow with 0: %+v", p)
			}
		})
	}
}

// paced plays an agent with a result every 100 ms, half of which are urgent, against a
// server that says Slow once after ten seconds, and returns when frames came, from then on.
func paced(t *testing.T, slow *wire.Slow) (came []time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		var serving sync.WaitGroup
		var conn *wsconn.Conn
		began := time.Now()
		serving.Go(func() {
			var err error
			conn, err = wsconn.Accept(theirs, Path, wire.Subprotocol, wsconn.Options{Timeout: time.Minute, Buffers: new(wsconn.Buffers)})
			if err != nil {
				t.Error(err)
				return
			}
			p := &peer{t: t, conn: conn}
			p.welcome(wire.Welcome{Last: []wire.StreamLast{{StreamKey: key}}, KeepaliveMs: 120_000})
			told := false
			for b := p.batch(); b != nil; b = p.batch() {
				now := time.Since(began) - 10*time.Second
				if !told && now >= 0 {
					told = true
					p.write(wire.AppendSlow(nil, slow))
				}
				came = append(came, now)
				p.ack(b.First + uint64(len(b.Signals)) - 1)
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		cfg := RunConfig{Servers: []string{"server:1"}, Hello: func() wire.Hello { return wire.Hello{} }, Linger: 500 * time.Millisecond}
		cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
			if conn != nil {
				return nil, io.EOF
			}
			return ours, nil
		}
		source := newSpool()
		source.acked = make(chan uint64, 10_000)
		serving.Go(func() { _ = Run(ctx, cfg, source, silent{}) })
		for i := range 1000 {
			time.Sleep(100 * time.Millisecond)
			source.add(1, i%2 == 0)
		}
		cancel()
		serving.Wait()
	})
	return came
}

// An agent that is told for how long is as before when that is over, at once; one whose
// server does not say so, after a minute.
func TestAnAgentReturnsToItsPace(t *testing.T) {
	for _, c := range []struct {
		name string
		slow wire.Slow
		back time.Duration
	}{
		{"twelve seconds", wire.Slow{LingerMs: 5000, LastsMs: 12_000}, 12 * time.Second},
		{"an older server", wire.Slow{LingerMs: 5000}, 60 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, during, after := 0, 0, 0
			for _, at := range slices.Compact(paced(t, &c.slow)) { // what is added in the instant in which a frame leaves makes one of its own
				switch {
				case at < 0:
					before++
				case at < c.back-time.Millisecond:
					during++
				case at < c.back+10*time.Second:
					after++
				}
			}
			// An urgent one leaves every 200 ms; while slow a frame leaves every five seconds.
			if before < 45 || after < 45 || during > int(c.back/(5*time.Second))+1 {
				t.Errorf("%d frames in ten seconds before, %d in the %s of Slow, %d in ten seconds after", before, during, c.back, after)
			}
		})
	}
}
