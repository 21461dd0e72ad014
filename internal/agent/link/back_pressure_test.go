package link

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// TestPaceDelaysBatchesUnderBackPressure expects the agent to send results later while the server asks for
// back-pressure. The agent then collects more results for each batch.
func TestPaceDelaysBatchesUnderBackPressure(t *testing.T) {
	const usual, at = 500 * time.Millisecond, 100 * time.Second
	for _, c := range []struct {
		name        string
		ask         wire.BackPressure
		since       time.Duration // from at
		due, untils time.Duration // from at
	}{
		{"as usual", wire.BackPressure{LastsMs: 1000}, 0, usual, 0},
		{"slow", wire.BackPressure{LingerMs: 5000, LastsMs: 12000}, 0, 5 * time.Second, 12 * time.Second},
		{"waited before", wire.BackPressure{LingerMs: 5000, LastsMs: 12000}, -400 * time.Millisecond, 4600 * time.Millisecond, 12 * time.Second},
		{"ends while it waits", wire.BackPressure{LingerMs: 5000, LastsMs: 12000}, 10 * time.Second, 15 * time.Second, 12 * time.Second},
		{"begins to wait just before the end", wire.BackPressure{LingerMs: 5000, LastsMs: 12000}, 11800 * time.Millisecond, 16800 * time.Millisecond, 12 * time.Second},
		{"after that", wire.BackPressure{LingerMs: 5000, LastsMs: 12000}, 22 * time.Second, 25 * time.Second, 12 * time.Second},
		{"nearly as usual", wire.BackPressure{LingerMs: 5000, LastsMs: 12000}, 36 * time.Second, 36*time.Second + usual, 12 * time.Second},
		{"over", wire.BackPressure{LingerMs: 5000, LastsMs: 12000}, 40 * time.Second, 40*time.Second + usual, 12 * time.Second},
		{"shorter than usual", wire.BackPressure{LingerMs: 1, LastsMs: 12000}, 0, usual, 12 * time.Second},
		{"for no time", wire.BackPressure{LingerMs: 5000}, 0, usual, 0},
		{"hostile", wire.BackPressure{LingerMs: math.MaxUint32, LastsMs: math.MaxUint32}, 0, time.Minute, 5 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p Pace
			p.ApplyBackPressure(at, &c.ask, 1)
			if due := p.SendTime(at+c.since, usual) - at; due != c.due {
				t.Errorf("due after %v, want %v", due, c.due)
			}
			ends := at + c.untils + wire.BackPressureEasing*p.linger
			if c.untils > 0 && (!p.IsSlowed(ends-wire.BackPressureEasing) || p.IsSlowed(ends)) || c.untils == 0 && p.IsSlowed(at) {
				t.Errorf("slow otherwise than for %v: %+v", c.untils, p)
			}
			p.ApplyBackPressure(at, &wire.BackPressure{}, 1)
			if p != (Pace{}) {
				t.Errorf("after Slow with 0: %+v", p)
			}
		})
	}
}

// TestBackPressureCausesNoBursts slows down 4,000 agents at the same time, and expects a steady rate of messages.
// The server must see neither pauses nor peaks.
func TestBackPressureCausesNoBursts(t *testing.T) {
	const agents, every, usual = 4000, 125 * time.Millisecond, 500 * time.Millisecond
	random := rand.New(rand.NewPCG(1, 1)).Float64
	came := make([]int, 40) // results in each second
	for range agents {
		var pace Pace
		var due time.Duration
		waits, asked := 0, false
		for now := time.Duration(random() * float64(every)); now < 40*time.Second; now += every {
			if waits > 0 && now >= due {
				came[now/time.Second] += waits
				waits = 0
			}
			if !asked && now >= 10*time.Second {
				asked = true // as the server does: two seconds, a half more or less, for six to eight
				pace.ApplyBackPressure(now, &wire.BackPressure{LingerMs: uint32(1000 + random()*2000), LastsMs: uint32(6000 + random()*2000)}, random())
			}
			if waits == 0 {
				due = pace.SendTime(now, usual)
			}
			waits++
		}
	}
	usually := agents * int(time.Second/every)
	for second, n := range came[1:] {
		if n < usually/2 || n > usually*3/2 {
			t.Errorf("second %d: %d results, usually %d", second+1, n, usually)
		}
	}
	t.Log(came)
}

// simulateBackPressure simulates an agent under the server's back-pressure, and returns the times of its messages. The
// agent has a result every 100 ms.
func simulateBackPressure(t *testing.T, slow *wire.BackPressure) (came []time.Duration) {
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
			p := &serverConn{t: t, conn: conn}
			p.answerHello(wire.Welcome{KeepaliveMs: 120_000})
			p.ackBatches(func(*wire.Batch) {
				now := time.Since(began) - 10*time.Second
				if now >= 0 && (len(came) == 0 || came[len(came)-1] < 0) {
					p.writeFrame(wire.AppendBackPressure(nil, slow))
				}
				came = append(came, now)
			})
		})
		ctx, cancel := context.WithCancel(t.Context())
		cfg := RunConfig{Servers: []string{"server:1"}, Hello: func() wire.Hello { return wire.Hello{} }, Linger: 500 * time.Millisecond}
		cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
			if conn != nil {
				return nil, io.EOF
			}
			return ours, nil
		}
		source := newMemorySource()
		source.acked = make(chan uint64, 10_000)
		serving.Go(func() { _ = Run(ctx, cfg, source, ignoredEvents{}) })
		for i := range 1200 {
			time.Sleep(100 * time.Millisecond)
			source.add(1, i%2 == 0)
		}
		cancel()
		serving.Wait()
	})
	return came
}

// TestLingerReturnsToNormalAfterBackPressure expects fewer frames while the server asks for back-pressure, and the
// normal number afterwards
func TestLingerReturnsToNormalAfterBackPressure(t *testing.T) {
	const linger, over = 5 * time.Second, 12 * time.Second
	const back = over + wire.BackPressureEasing*linger
	before, during, easing, after := 0, 0, 0, 0
	slow := wire.BackPressure{LingerMs: uint32(linger.Milliseconds()), LastsMs: uint32(over.Milliseconds())}
	for _, at := range slices.Compact(simulateBackPressure(t, &slow)) { // a signal added at the instant of sending makes another frame
		switch {
		case at < 0:
			before++
		case at < over-time.Millisecond:
			during++
		case at < back:
			easing++
		case at < back+10*time.Second:
			after++
		}
	}
	// Without back-pressure an urgent result is sent every 200 ms. During it one frame may be sent when the message
	// arrives, one by chance, and one every five seconds.
	if before < 45 || after < 45 || during > int(over/linger)+2 || easing < 8 || easing > 40 {
		t.Errorf("%d frames in ten seconds before, %d in the %s of Slow, %d until it is over, %d in ten seconds after", before, during, over, easing, after)
	}
}
