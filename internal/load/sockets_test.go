package load_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
)

// startPath starts a server and returns it, its address and a function that stops it.
func startPath(t *testing.T, o pathOptions) (*resultPath, string, func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.listen = l
	s, err := openPath(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.run(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("server: %v", err)
		}
	})
	var once sync.Once
	stop := func() { once.Do(func() { cancel(); running.Wait() }) }
	t.Cleanup(stop)
	<-s.ready
	return s, l.Addr().String(), stop
}

// TestLedgerOverSockets plays runs over sockets with a journal on disk, and expects acknowledged results in the view,
// also after reconnects and a restart.
func TestLedgerOverSockets(t *testing.T) {
	for _, c := range []struct {
		name string
		tls  bool
	}{{"plain", false}, {"mutual TLS", true}} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.tls {
				t.Skip("short: plain only")
			}
			dir := t.TempDir()
			sc := scenario.Uniform{Agents: 30, Checks: 10, Interval: 500 * time.Millisecond, Linger: 50 * time.Millisecond, Steady: time.Second,
				Warmup: 200 * time.Millisecond, Changes: 0.02, TLS: c.tls}.Scenario()
			sc.Faults = []scenario.Fault{{At: model.Duration(500 * time.Millisecond), Cut: &scenario.Pick{}}}
			o := pathOptions{dir: dir, scenario: sc, tls: c.tls}
			s, addr, stop := startPath(t, o)
			cfg := load.Config{Options: play.Options{Server: addr, Scenario: sc}, MaxLag: time.Minute, Subject: load.Subject{Before: play.InProcess(s.view)}}
			if c.tls {
				var err error
				if cfg.TLS, err = simulated.Certificates(s.authority); err != nil {
					t.Fatal(err)
				}
			}
			rep, err := load.Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if !rep.OK() || rep.Balance.Compared != 300 || len(rep.Outages) != 1 {
				t.Fatalf("%v\n%s", rep.Verdict, rep.Text())
			}
			t.Log("\n" + rep.Text())
			stop()

			again, addr, _ := startPath(t, o)
			cfg.Server, cfg.Before = addr, play.InProcess(again.view)
			if c.tls {
				if cfg.TLS, err = simulated.Certificates(again.authority); err != nil {
					t.Fatal(err)
				}
			}
			if rep, err = load.Run(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			if !rep.OK() || rep.Balance.Compared != 300 {
				t.Fatalf("after a restart: %v\n%s", rep.Verdict, rep.Text())
			}
		})
	}
}
