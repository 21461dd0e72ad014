//go:build linux

package test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/load/subject"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/test/harness"
)

// A scenario of two classes against a real server: machines die without a word and boot,
// lose the network, are renamed and cut, send what must be refused; the server stands
// still, is killed and is started again. Nothing is lost.
func TestFaultScenario(t *testing.T) {
	t.Parallel()
	sec := func(s float64) model.Duration { return model.Duration(s * float64(time.Second)) }
	sc := &scenario.Scenario{Name: "rough", Seed: 3,
		Agents: []scenario.Class{
			{Name: "web", Count: 20, Linger: sec(0.1), Checks: []scenario.Check{{Name: "disk", Interval: sec(1), Output: scenario.Output{Like: "disk"}, Status: map[string]float64{"CRITICAL": 0.1}, Changes: 0.05}},
				Churn: scenario.Churn{Reconnects: "60/min", Restarts: "60/min", Renames: "60/min", Offline: "60/min", OfflineFor: sec(1)}},
			{Name: "db", Count: 10, TLS: true, Linger: sec(0.1), Checks: []scenario.Check{{Name: "query", Count: 3, Interval: sec(0.5)}}},
		},
		Phases: []scenario.Phase{{Ramp: sec(1)}, {Steady: sec(6), Warmup: sec(1)}, {Name: "more", Steady: sec(6), Rate: 1.5}, {Drain: sec(60)}},
		Faults: []scenario.Fault{
			{At: sec(0.5), For: sec(2), Stop: &scenario.Pick{Class: "db", Count: 3}},
			{At: sec(1), For: sec(2), Wrong: &scenario.Pick{Class: "web", Count: 5}},
			{At: sec(2), For: sec(0.5), Server: "stop"},
			{At: sec(4), Server: "kill"},
			{At: sec(8), Cut: &scenario.Pick{}},
			{At: sec(9), Stop: &scenario.Pick{Class: "web", Count: 2}},
		},
		Objectives: map[string]scenario.Limit{"rate": "10", "server-cpu": "1s"}, // the server is killed in between: that it is measured counts
	}
	s, err := subject.Start(t.Context(), subject.Options{Binary: harness.Binary(), Dir: t.TempDir(), Flags: []string{"--journal-reserve", "1MiB"},
		Prepare: func(ctx context.Context, service *intent.Service) error {
			return simulated.PrepareScenario(ctx, service, sc)
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	authority, err := s.Authority()
	if err != nil {
		t.Fatal(err)
	}
	certificates, err := simulated.Certificates(authority)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := load.Run(t.Context(), load.Config{Scenario: sc, Server: s.Plain, ServerTLS: s.TLS, TLS: certificates, AdminURL: s.Admin, ServerPID: s.PID,
		Control: s, API: s.API, Before: load.HTTPView(s.Admin + "/debug/states"), MaxLag: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if !rep.OK() || rep.Balance.Compared != 20+30 || rep.Balance.Sent == 0 {
		t.Fatalf("%s\n%+v", strings.Join(rep.Verdict, "\n"), rep.Balance)
	}
	if s := rep.Silent; s == nil || s.Machines != 20+10 || s.Behind > 0 {
		t.Errorf("whether machines were called silent was not judged: %+v", s)
	}
	if len(rep.Faults) != 6 || rep.Faults[0].Back <= 0 || rep.Balance.Refused == 0 || len(rep.Outages) == 0 {
		t.Errorf("faults %+v, outages %+v, %d refused", rep.Faults, rep.Outages, rep.Balance.Refused)
	}
	if len(rep.Phases) != 4 || rep.Phases[2].Name != "more" || rep.Phases[2].Server.RSS == 0 {
		t.Errorf("phases %+v", rep.Phases)
	}
	inside := 0
	for _, x := range rep.Samples {
		if x.Commits > 0 && x.Heap > 0 && x.Goroutines > 0 && x.CommitMs > 0 && x.Latency != nil && len(x.Queues) > 0 {
			inside++
		}
	}
	if inside < 3 {
		t.Errorf("%d of %d samples say what the server is doing", inside, len(rep.Samples))
	}
	if rep.Goroutines < 1 { // how many more, the tests beside this one decide
		t.Errorf("%.1f goroutines per agent", rep.Goroutines)
	}
	for _, o := range rep.Outages {
		if o.Lost < 5 {
			t.Errorf("machines that come and go by themselves are no outage: %+v, %v", o, rep.Losses)
		}
	}
	t.Logf("\n%s\nlosses %v\nfailures %v", rep.Text(), rep.Losses, rep.Failures)
}
