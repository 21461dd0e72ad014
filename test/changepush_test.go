//go:build linux

package test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/test/harness"
)

// A check of ten among 2,000 connected agents changes. Typed, compiled, pushed, taken
// and confirmed it is within a second; ten assignments leave the server, and no more.
func TestChangeReachesAffectedAgents(t *testing.T) {
	t.Parallel()
	agents := 2000
	if testing.Short() {
		agents = 200
	}
	s := harness.NewServer(t)
	fleet := harness.Fleet{Agents: agents, Checks: 1, Interval: time.Minute}
	s.Prepare(fleet)
	s.Start()
	s.Client()
	var ten []string
	for i := range 10 {
		ten = append(ten, simulated.NodeName(i*agents/10))
	}
	check := func(interval string) {
		t.Helper()
		s.Apply(fmt.Sprintf(`apiVersion: muster/v1
kind: Check
metadata: {name: of-ten, namespace: load}
spec: {targets: {nodes: [%s]}, interval: %s, command: "true"}
`, strings.Join(ten, ", "), interval))
	}
	check("1h")

	ctx, cancel := context.WithCancel(t.Context())
	cfg := s.Load(fleet, time.Hour)
	cfg.Before = nil
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = load.Run(ctx, cfg) // its report is not what is asked here
	}()
	defer func() { cancel(); <-ended }()
	sent := func() float64 { return s.Metric("muster_session_sent_total", `kind="assignment"`) }
	confirmed := func(want int) {
		t.Helper()
		harness.Until(t, time.Minute, fmt.Sprintf("%d assignments are confirmed", want), func() (string, bool) {
			n := s.Metric("muster_session_frames_total", `outcome="holding"`)
			return fmt.Sprint(n), n >= float64(want)
		})
	}
	confirmed(agents)

	fastest := time.Hour
	for i := range 3 { // a busy machine may hold one up
		before := sent()
		began := time.Now()
		check(fmt.Sprint(2+i, "h"))
		confirmed(agents + 10*(i+1))
		fastest = min(fastest, time.Since(began))
		if n := sent() - before; n != 10 {
			t.Errorf("change %d: %g assignments were sent, want 10", i+1, n)
		}
	}
	t.Logf("in force within %s", fastest)
	if fastest > time.Second {
		t.Errorf("a change was in force after %s, want at most a second", fastest)
	}
}
