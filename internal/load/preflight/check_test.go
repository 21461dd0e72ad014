package preflight

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/usage"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// minutes returns a duration of n minutes.
func minutes(n int) model.Duration { return model.Duration(time.Duration(n) * time.Minute) }

// TestDisk expects the disk space of a scenario by its classes and phases.
func TestDisk(t *testing.T) {
	sc := &scenario.Scenario{
		Agents: []scenario.Class{
			{Name: "web", Count: 100, TLS: true, Checks: []scenario.Check{{Name: "a", Count: 4, Interval: model.Duration(5 * time.Second)}}},
			{Name: "cheap", Count: 1000, Checks: []scenario.Check{{Name: "b", Interval: minutes(1), Output: scenario.Output{Bytes: 500}}}},
		},
		Phases: []scenario.Phase{{Ramp: minutes(1)}, {Steady: minutes(2), Rate: 1.5}, {Drain: minutes(1)}},
	}
	rate, outputs := 80+1000.0/60, 80*100+1000.0/60*500
	result := 40 + outputs/rate
	for phases, results := range map[*[]scenario.Phase]float64{
		{{Ramp: minutes(1)}, {Steady: minutes(2), Rate: 1.5}, {Drain: minutes(1)}}: rate*60 + rate*1.5*120,
		{{Step: minutes(1), Rate: 1, By: 0.5, To: 2}}:                              rate * 60 * (1 + 1.5 + 2),
	} {
		sc.Phases = *phases
		want := 512<<20 + (results+2*1400)*result
		if got := float64((&Run{Scenario: sc}).disk()); got < want*0.99999 || got > want*1.00001 {
			t.Errorf("%v: %.0f B, want %.0f", *phases, got, want)
		}
	}
}

// TestOthersAreMeasured starts a busy process, and expects its CPU time in the measurement, without the time before it.
func TestOthersAreMeasured(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("CPU time of all processes is read on Linux")
	}
	t.Parallel()
	busy := exec.Command("sh", "-c", "while :; do :; done")
	testenv.NoError(t, busy.Start())
	defer func() {
		_ = busy.Process.Kill()
		_ = busy.Wait()
	}()
	look := func() (own, with, without time.Duration) {
		return usage.OfProcess(busy.Process.Pid).CPU, others(nil), others(func() int { return busy.Process.Pid })
	}
	own, with, without := look()
	testenv.Until(t, "the shell has used a second", func() bool { // of a full machine it has its share
		return usage.OfProcess(busy.Process.Pid).CPU-own >= time.Second
	})
	own2, with2, without2 := look()
	if used, counted := own2-own, (with2-with)-(without2-without); counted < used/2 || counted > 2*used {
		t.Errorf("a process used %s; %s count where it is somebody else, %s where it is the server", used, with2-with, without2-without)
	}
	for _, c := range []struct {
		others float64
		cores  int
		want   string
	}{{0.62, 2, "others use 0.62 of its 2 cores (31 %)"}, {0.1, 2, ""}, {0.62, 64, ""}} {
		if got := warning(c.others, c.cores); got != c.want && (c.want == "" || !strings.Contains(got, c.want)) {
			t.Errorf("%.2f of %d: %q, want %q", c.others, c.cores, got, c.want)
		}
	}
}

// TestPreflightKnowsWhatTheServerKeeps expects that the run's own server gets no more connections than its limit of
// files allows; other servers have no known limit.
func TestPreflightKnowsWhatTheServerKeeps(t *testing.T) {
	for _, c := range []struct {
		agents int
		own    bool
		want   string // in what is said; empty: nothing is
	}{
		{18_926, true, ""},
		{18_927, true, "open files: 18927 connections need 20001, the hard limit is 20000"},
		{19_800, true, "--scale 0.91"},
		{19_800, false, ""},
		{19_801, false, "19801 connections need 20001"},
	} {
		run := Run{OwnServer: c.own, Scenario: &scenario.Scenario{Agents: []scenario.Class{{Name: "all", Count: c.agents}}}}
		if got := run.files(20_000); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestPreflightSaysWhatToDo expects one error with all missing resources and a hint for each.
func TestPreflightSaysWhatToDo(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("limits are read on Linux")
	}
	check := scenario.Check{Name: "c", Count: 1000, Interval: minutes(1), Output: scenario.Output{Bytes: 1 << 20}}
	sc := &scenario.Scenario{Agents: []scenario.Class{{Name: "all", Count: 100_000_000, Checks: []scenario.Check{check}}}, Phases: []scenario.Phase{{Steady: minutes(60)}}}
	err := Check(Run{Servers: "127.0.0.1:1", Scenario: sc, Sources: 10, Data: t.TempDir() + "/not/yet"})
	if model.ClassOf(err) != model.Limited {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"open files: 100000000 connections", "ulimit -Hn", "--scale 0.01", "ports:", "--sources ", "memory:", "disk: ", "TMPDIR="} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	tiny := &scenario.Scenario{Agents: []scenario.Class{{Name: "all", Count: 2}}}
	if err := Check(Run{Servers: "127.0.0.1:1", Scenario: tiny, Sources: 1}); err != nil {
		t.Errorf("a tiny run: %v", err)
	}
}

// TestPorts expects enough local ports by address: many addresses on loopback, one to another machine, and all ports
// again for another listener.
func TestPorts(t *testing.T) {
	fleet := func(target string) *scenario.Scenario {
		return &scenario.Scenario{Target: target, Agents: []scenario.Class{{Name: "all", Count: 60_000}}}
	}
	for name, c := range map[string]struct {
		run  Run
		want string // empty: there are enough
	}{
		"loopback, enough":        {Run{Servers: "127.0.0.1:8443", Sources: 3, Scenario: fleet("")}, ""},
		"loopback, one address":   {Run{Servers: "127.0.0.1:8443", Sources: 1, Scenario: fleet("")}, "60000 connections from each of 1 source addresses, the range 32768-60999 has 28231. Use more addresses: --sources 3"},
		"elsewhere":               {Run{Servers: "muster.example.org:8443", Sources: 3, Scenario: fleet("")}, "60000 connections from one address to muster.example.org:8443, the range 32768-60999 has 28231. Widen it: sysctl"},
		"elsewhere, with TLS":     {Run{Servers: "192.0.2.1:8443", Sources: 3, Scenario: fleet("")}, "--loaders 3; or play it smaller: --scale 0.45"},
		"a third of it":           {Run{Servers: "192.0.2.1:8443", Loaders: 3, Here: 1, Scenario: fleet("")}, ""},
		"three loaders here":      {Run{Servers: "192.0.2.1:8443", Loaders: 3, Here: 3, Scenario: fleet("")}, "60000 connections from one address"},
		"backends of Sensu":       {Run{Servers: "192.0.2.1:8081,192.0.2.2:8081,192.0.2.3:8081", Scenario: fleet("sensu")}, ""},
		"one backend of Sensu":    {Run{Servers: "192.0.2.1:8081", Scenario: fleet("sensu")}, "Widen it: sysctl -w net.ipv4.ip_local_port_range='1024 65000'; or play it smaller"},
		"nobody knows where to":   {Run{Scenario: fleet("")}, ""},
		"Sensu on this machine":   {Run{Servers: "127.0.0.1:8081", Sources: 3, Scenario: fleet("sensu")}, ""},
		"a stage, no connections": {Run{Servers: "127.0.0.1:1", Scenario: &scenario.Scenario{}}, ""},
	} {
		got := c.run.ports(32768, 60999)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if c.run.Scenario.Target == "sensu" && (strings.Contains(got, "--sources") || strings.Contains(got, "--loaders")) {
			t.Errorf("%s: flags that a run against Sensu has not: %s", name, got)
		}
	}
}
