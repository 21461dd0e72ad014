package muster

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// What an agent says of itself is known while its session lasts, and counted over the fleet.
func TestAgentsTellOfThemselves(t *testing.T) {
	w := newWorld(t, nil)
	node := w.node(1, 1)
	first, err := w.open(node, func(_ *link.Config, h *wire.Hello) {
		h.Version, h.Restrictions, h.ClockUnixMs = "1.2.3", []string{"commands", "audit"}, time.Now().Add(time.Hour).UnixMilli()
	})
	if err != nil {
		t.Fatal(err)
	}
	a, ok := w.server.Agent(1001)
	if !ok || a.Version != "1.2.3" || a.Report != nil || !slices.Equal(a.Refuses, []string{"commands", "audit"}) || !strings.HasPrefix(a.Address, "127.0.0.1:") {
		t.Errorf("after Hello: %+v, %v", a, ok)
	}
	if a.Skew < 59*time.Minute || a.Skew > 61*time.Minute {
		t.Errorf("its clock is an hour ahead, not %s", a.Skew)
	}
	if _, ok := w.server.Agent(9999); ok {
		t.Error("a node that has no session has an agent")
	}
	told := wire.Stats{UptimeMs: 120_000, Spooled: 30, Runs: 100, Forks: 60, Skipped: 2, ResidentBytes: 12 << 20, BytesSent: 5000}
	if err := first.Stats(&told); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "it has told", func() bool { a, _ := w.server.Agent(1001); return a.Report != nil })
	if a, _ = w.server.Agent(1001); a.Report.Stats != told || a.Report.ForksPerMin != 30 {
		t.Errorf("it told %+v, known is %+v", told, a)
	}
	second := w.agent(w.node(2, 1))
	if err := second.Stats(&wire.Stats{Spooled: 12_000, Skipped: 3}); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "the other has told", func() bool { a, _ := w.server.Agent(1002); return a.Report != nil })
	w.agent(w.node(3, 1)) // says nothing
	want := `
# HELP muster_agents_spooled_signals Signals in the spools.
# TYPE muster_agents_spooled_signals histogram
muster_agents_spooled_signals_bucket{le="0"} 0
muster_agents_spooled_signals_bucket{le="10"} 0
muster_agents_spooled_signals_bucket{le="100"} 1
muster_agents_spooled_signals_bucket{le="1000"} 1
muster_agents_spooled_signals_bucket{le="10000"} 1
muster_agents_spooled_signals_bucket{le="100000"} 2
muster_agents_spooled_signals_bucket{le="+Inf"} 2
muster_agents_spooled_signals_sum 12030
muster_agents_spooled_signals_count 2
# HELP muster_agents_spooled_signals_max Signals in the fullest spool.
# TYPE muster_agents_spooled_signals_max gauge
muster_agents_spooled_signals_max 12000
# HELP muster_agents_told Connected agents that have sent a report on themselves; the other metrics here are of these.
# TYPE muster_agents_told gauge
muster_agents_told 2
`
	err = testutil.GatherAndCompare(w.metrics, strings.NewReader(want), "muster_agents_spooled_signals", "muster_agents_spooled_signals_max", "muster_agents_told")
	if err != nil {
		t.Error(err)
	}
	families, err := w.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == "muster_agents_counts" && m.Label[0].GetValue() == "skipped" && m.Gauge.GetValue() != 5 {
				t.Errorf("skipped runs of all: %v", m)
			}
		}
	}
}

// Forks per minute are those since the report before; after a restart of the agent, since
// it began.
func TestForksPerMinute(t *testing.T) {
	w := newWorld(t, nil)
	w.agent(w.node(1, 1))
	x := w.server.registry.Get(1001)
	for _, c := range []struct {
		uptime, forks uint64
		want          float64
	}{{60_000, 600, 600}, {120_000, 630, 30}, {180_000, 630, 0}, {30_000, 5, 10}} {
		if before := x.report.Load(); before != nil {
			before.at -= int64(time.Minute)
		}
		frame := wire.AppendStats(nil, &wire.Stats{UptimeMs: c.uptime, Forks: c.forks})
		_, body, _ := wire.FrameKind(frame)
		if out := x.stats(body); out != stats {
			t.Fatalf("outcome %s", outcomeNames[out])
		}
		if a, _ := w.server.Agent(1001); a.Report.ForksPerMin != c.want {
			t.Errorf("%d forks after %d ms: %g per minute, want %g", c.forks, c.uptime, a.Report.ForksPerMin, c.want)
		}
	}
}
