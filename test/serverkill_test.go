//go:build linux

package test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// The server is killed at random instants while a fleet sends over mutual TLS: some
// kills hit the start, before the server is ready, and before some its acknowledgements
// are lost on the way, so that what it has kept is sent again. What was acknowledged is
// in the view, once.
func TestSmokeKillUnderLoad(t *testing.T) {
	t.Parallel()
	kills := 20
	if testing.Short() {
		kills = 5
	}
	enough := time.Now().Add(4 * time.Minute) // on a machine so slow, fewer must do
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	s := harness.NewServer(t, "--snapshot-cycle", "2s")
	fleet := harness.Fleet{Agents: 20, Checks: 10, Interval: 200 * time.Millisecond}
	s.Prepare(fleet)
	s.Start()
	network := harness.NewProxy(t, s.Listen)

	for kills > 0 {
		// As long as the kills that are left take, so that no run goes on for nothing.
		cfg := s.LoadTLS(fleet, min(30*time.Second, 4*time.Second+time.Duration(kills)*2*time.Second))
		cfg.Server = network.Address
		end := startLoadWith(t, cfg)
		began := time.Now()
		for kills > 0 && time.Since(began) < cfg.Duration-3*time.Second {
			if random.IntN(4) == 0 {
				sleep(t.Context(), time.Duration(random.Int64N(int64(400*time.Millisecond)))) // perhaps not yet ready
			} else {
				s.WaitReady(40 * time.Second)
				sleep(t.Context(), time.Duration(random.Int64N(int64(1500*time.Millisecond))))
				if random.IntN(2) == 0 {
					network.Mute()
					sleep(t.Context(), time.Duration(random.Int64N(int64(400*time.Millisecond))))
				}
			}
			s.Kill()
			s.Launch()
			kills--
			if time.Now().After(enough) && kills > 0 && kills <= 15 {
				testenv.Shortened(t, fmt.Sprintf("%d of 20 kills, for this machine is slow", 20-kills), "go test ./test -run SmokeKilled, while nothing else runs")
				kills = 0
			}
		}
		s.WaitReady(40 * time.Second)
		e := <-end
		if e.err != nil {
			t.Fatalf("load run: %v", e.err)
		}
		for _, verdict := range e.rep.Verdict {
			t.Error(verdict)
		}
		if !e.rep.OK() || e.rep.Balance.Compared != fleet.Agents*fleet.Checks {
			t.Errorf("%d kills to come; %d outages, %d resent, balance %+v", kills, len(e.rep.Outages), e.rep.Resent, e.rep.Balance)
		}
		if e.rep.Resent == 0 {
			t.Error("nothing was ever resent: the kills hit nothing")
		}
	}
	before := s.FleetStates()
	s.Kill()
	s.Start()
	after := s.FleetStates()
	for place, was := range before {
		if now := after[place]; now != was {
			t.Errorf("state %+v was %+v before the last kill, is %+v", place, was, now)
		}
	}
}

type loadResult struct {
	rep *report.Report
	err error
}

// startLoad begins a load run of the fleet and returns once results are measured; what
// became of it comes later.
func startLoad(t *testing.T, s *harness.Server, fleet harness.Fleet, span time.Duration) <-chan loadResult {
	t.Helper()
	return startLoadWith(t, s.Load(fleet, span))
}

func startLoadWith(t *testing.T, cfg load.Config) <-chan loadResult {
	t.Helper()
	measures := awaitMeasurement(&cfg)
	end := make(chan loadResult, 1)
	go func() {
		rep, err := load.Run(t.Context(), cfg)
		end <- loadResult{rep, err}
	}()
	select {
	case <-measures:
	case e := <-end:
		t.Fatalf("load run ended early: %v", e.err)
	}
	return end
}

// awaitMeasurement is closed once a run measures. On a busy machine the first second that is told of
// need not be the first that is measured.
func awaitMeasurement(cfg *load.Config) <-chan struct{} {
	measures := make(chan struct{})
	begins := sync.OnceFunc(func() { close(measures) })
	cfg.Progress = func(now report.Sample) {
		if now.Second >= 0 {
			begins()
		}
	}
	return measures
}

// sleep lets time pass: for instants that are chosen, never for something to happen.
// house: sleeps because a kill has to come at any instant.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
