//go:build linux

package harness

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
)

// Fleet describes the load of a simulated fleet: small, so that a busy machine keeps up.
type Fleet struct {
	Agents, Checks int
	Interval       time.Duration
}

// Prepare makes the fleet's nodes and checks; the server must not run. More arguments
// say where it keeps them.
func (s *Server) Prepare(f Fleet, args ...string) {
	s.t.Helper()
	s.CLI(append([]string{"load", "prepare", "--data", s.Data, "--agents", fmt.Sprint(f.Agents), "--checks", fmt.Sprint(f.Checks), "--interval", f.Interval.String()}, args...)...)
}

// Load returns the configuration of a run of the fleet that compares its ledger with the view.
func (s *Server) Load(f Fleet, duration time.Duration) load.Config {
	return load.Config{
		Server: s.Plain, Agents: f.Agents, Checks: f.Checks, Interval: f.Interval, Duration: duration, Warmup: time.Second,
		// These tests check correctness on any machine: only lost results count.
		MaxLag: time.Hour, Drain: time.Minute, Linger: 100 * time.Millisecond,
		Before: s.View(),
	}
}

// LoadTLS returns Load with mutual TLS: every agent has a certificate of the server's CA.
func (s *Server) LoadTLS(f Fleet, duration time.Duration) load.Config {
	s.t.Helper()
	cfg := s.Load(f, duration)
	certificates, err := simulated.Certificates(s.Authority())
	if err != nil {
		s.t.Fatal(err)
	}
	cfg.Server, cfg.TLS = s.Listen, certificates
	return cfg
}

// View reads the server's event states.
func (s *Server) View() load.View { return load.HTTPView("http://" + s.Admin + "/debug/states") }

// Place names one event state.
type Place struct{ Node, Check uint64 }

// States reads all of them.
func (s *Server) States() map[Place]load.Kept {
	s.t.Helper()
	out := map[Place]load.Kept{}
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	err := s.View().Each(ctx, func(k load.Kept) error {
		out[Place{uint64(k.Node), uint64(k.Check)}] = k
		return nil
	})
	if err != nil {
		s.t.Fatalf("read states: %v", err)
	}
	return out
}

// FleetStates returns the states of declared checks, without the built-in ones.
func (s *Server) FleetStates() map[Place]load.Kept {
	s.t.Helper()
	all := s.States()
	maps.DeleteFunc(all, func(p Place, _ load.Kept) bool { return p.Check < uint64(model.FirstCheck) })
	return all
}
