package spool

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/muster-fleet/muster/internal/journal/memfs"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestEachLineArrivesOnceAfterPowerCut cuts the power while lines are read and sent, and expects each line once at
// the server. Each line is spooled with its read position. After each start the reader continues at its position. The
// server gets each line once.
func TestEachLineArrivesOnceAfterPowerCut(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		fs, clock, v := memfs.New(), newManualClock(), newRecordingServer()
		s := openSpool(t, fs, clock, 1<<20)
		next := func() int {
			n, _ := strconv.Atoi(string(s.Position("log")))
			return n
		}
		for next() < 3000 {
			switch r.IntN(12) {
			case 0:
				image := fs.Crash(r.IntN(3)*50, r.Uint64())
				_ = s.Close()
				fs = image
				s = openSpool(t, fs, clock, 1<<20)
			case 1:
				v.resumeSpool(t, s)
			case 2:
				s.EndSession()
				clock.advance(20_000)
			case 3, 4:
				v.receiveBatch(t, s, 1+r.IntN(50), r.IntN(3) > 0)
			case 5:
				s.RemovePositions(func(name string) bool { return name != "gone" })
				s.SetPosition(&Position{"gone", []byte("x")})
			case 6:
				awaitDurable(t, s)
			default:
				for range r.IntN(40) {
					clock.advance(10)
					line := next()
					at := Position{"log", []byte(strconv.Itoa(line + 1))}
					testenv.NoError(t, s.AppendWithPosition(resultSignal(clock, 1, fmt.Sprint("line", line)), &at))
				}
			}
		}
		awaitDurable(t, s)
		v.resumeSpool(t, s)
		v.drainSpool(t, s)
		if v.expectSignals(t, next()); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		testenv.NoError(t, s.Close())
	}
}
