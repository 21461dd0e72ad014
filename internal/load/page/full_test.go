package page

import (
	"math"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// full returns a report with every part that a report can have.
func full() *report.Report {
	l := func(ms float64) report.Latency {
		return report.Latency{Mean: ms, P50: ms, P90: 1.4 * ms, P99: 2 * ms, P999: 3.1 * ms, Max: 5 * ms}
	}
	rep := &report.Report{
		Schema: report.Schema, Title: "sensu-4000x40x5s-quick", Began: time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC), Version: "0.9.0", Commit: "0123456789abcdef",
		Command: []string{"bin/muster", "load", "run", "sensu-4000x40x5s-quick", "--title", "it's here"}, Label: []string{"scale 1/20: 200 of 4,000 agents"},
		Machine: report.Machine{CPU: "AMD EPYC 7B13", Cores: 2, Memory: 8 << 30, Kernel: "6.12.0", Go: "go1.26", Load: "0.10 0.20 0.30"},
		Plan:    report.Plan{Agents: 200, Checks: 40, Interval: 5, Offered: 1600, Linger: 500, Output: 100, Duration: 120, TLS: true, Seed: 7},
		Valid:   true, Verdict: []string{"2 results were sent and neither acknowledged nor refused", "short: p99 beyond the linger: 61.0 ms, asked at most 60.0 ms"},
		Balance: &report.Balance{Sent: 201_003, Acknowledged: 200_990, Refused: 8, Missing: 2, Compared: 8000, Differ: 1, Imbalances: 2, Stopped: 3, Unsure: 1,
			Kinds:    map[string]uint64{"acknowledged and lost": 1, "acknowledged without having been sent": 1},
			Examples: []report.Imbalance{{Node: 17, Name: "web-00017", Check: 3, CheckName: "web-ping-003", Number: 942, Kind: "acknowledged and lost", Problem: "41 results applied, 42 acknowledged"}}},
		Goals: []report.Goal{{Name: "rate", Want: 1500, Got: 1598, Met: true}, {Name: "beyond-p99", Want: 60, Got: 61}, {Name: "back", Want: 5, Why: "not measured in this run"}},
		Traffic: report.Traffic{Rate: 1598, Results: 191_760, Frames: 80_000, Resent: 120, SpoolFull: 3,
			Refusals: map[string]uint64{"too large": 8}, Slowed: 4,
			Latency: l(430), BeyondLinger: l(30), Lag: l(1.4),
			Failures: map[string]uint64{"connection refused": 12}, Losses: map[string]uint64{"EOF": 40},
			Curve: []report.Point{{Percentile: 0, Ms: 2}, {Percentile: 50, Ms: 430}, {Percentile: 90, Ms: 520}, {Percentile: 99, Ms: 860}, {Percentile: 99.9, Ms: 1400}, {Percentile: 99.99, Ms: 2000}, {Percentile: 100, Ms: 2150}}},
		Cost: report.Cost{Server: report.Usage{Cores: 0.42, MicrosPerItem: 263, RSS: 90 << 20},
			Loader:       report.Usage{Cores: 0.2, MicrosPerItem: 12, RSS: 50 << 20},
			SessionBytes: 24_600, AgentBytes: 31_000, Goroutines: 1.02, StateBytes: 490, States: 8000, MachineShare: 0.31, Others: 0.02,
			Inside:  &report.Inside{WireBytes: 130, JournalBytes: 156, Allocs: 2.1, AllocBytes: 310, LockWait: 0.04, GC: 0.02, Goroutines: 900},
			Calls:   &report.Calls{Reads: 1500, Writes: 900, Syncs: 44, FramesPerRead: 0.5, ResultsPerCommit: 36, FramesPerCommit: 18},
			Disk:    &report.Disk{Written: 90e6, Journal: 30e6, Snapshots: 10e6, PerResult: 469, PerDay: 65e9},
			Metrics: map[string]float64{"muster_session_bytes_received_total": 25e6, "muster_journal_written_bytes_total": 30e6, "muster_journal_syncs_total": 5300},
			Loaders: []report.Loader{{Name: "alpha", Here: true, Agents: 100, Results: 95_000, Lag: l(1.2), Usage: report.Usage{Cores: 0.1, RSS: 25 << 20}, AgentBytes: 31_000},
				{Name: "beta", Agents: 100, Results: 96_760, Lag: l(1.6), Usage: report.Usage{Cores: 0.1, RSS: 25 << 20}, AgentBytes: 31_000, Clock: 0.2}}},
		Course: report.Course{Outages: []report.Outage{{Second: 62, Lost: 200, Serving: 1.2, Acked: 1.3, Seconds: 2.6, Command: true}}, Phases: []report.Played{
			{Name: "ramp", Kind: "ramp", From: -15, To: 0},
			{Name: "steady", Kind: "steady", From: 0, To: 60, Rate: 1, Offered: 1600, Acknowledged: 1600, Latency: l(430), BeyondLinger: l(28), Lag: l(1), Server: report.Usage{Cores: 0.4, MicrosPerItem: 25},
				Assessment: report.Assessment{Beside: []report.Beside{{Figure: "list-p99", Count: 90, Value: 12}, {Figure: "history-behind", Count: 60, Value: 0.4}, {Figure: "held", Class: "web", Count: 900, Value: 100}}}},
			{Name: "overload", Kind: "steady", From: 60, To: 90, Rate: 1.2, Offered: 1920, Acknowledged: 1900, Refused: 8, Latency: l(470), BeyondLinger: l(50), Lag: l(2),
				Assessment: report.Assessment{Beside: []report.Beside{{Figure: "history-behind", Count: 30, Value: 4.1}, {Figure: "held", Class: "web", Count: 600, Value: 97.5}}, Missed: []string{"p99 beyond the linger: 61.0 ms, asked at most 60.0 ms"}}},
			{Kind: "step", From: 90, To: 100, Rate: 1.5, Offered: 2400, Acknowledged: 2400, BeyondLinger: l(40)},
			{Kind: "step", From: 100, To: 110, Rate: 2, Offered: 3200, Acknowledged: 3150, BeyondLinger: l(70)},
			{Kind: "step", From: 110, To: 120, Rate: 2.5, Offered: 4000, Acknowledged: 3300, BeyondLinger: l(900), Assessment: report.Assessment{Missed: []string{"p99"}}},
			{Name: "drain", Kind: "drain", From: 120, To: 124, Assessment: report.Assessment{Settled: -1}},
		}, Faults: []report.Struck{
			{What: "stop 10 of web", At: 20, Until: 40, Places: 10, Alerts: 10, Missing: 1, Extra: 2, Example: "web-00007/keepalive: no alert came", Detected: l(9000), Cleared: l(800), Back: 2},
			{What: "server restart", At: 62, Places: 200, Back: -1},
		}, Silent: &report.Silent{Machines: 200},
			Notifications: &report.Notifications{Due: 900, Again: 2, Timed: 880,
				Latency: l(40),
				Curve:   []report.Point{{Percentile: 0, Ms: 9}, {Percentile: 50, Ms: 20}, {Percentile: 99, Ms: 40}, {Percentile: 100, Ms: 80}}},
			Streamed: &report.Streamed{Connections: 5, Lines: 191_760, Timed: 190_000,
				Latency: l(600)},
			Turns:   &report.Turned{Due: 5000, Ran: 4990, Passed: 10, Taken: 12, Took: l(2400)},
			Changes: []report.Held{{What: "create 5 checks of web", At: 30, Agents: 200, Holds: l(120), Never: 1}, {What: "delete 5 checks of web", At: 50, Agents: 200, Holds: l(90)}},
			Operators: []report.Worked{{What: "list", Requests: 400,
				Latency: l(5)}, {What: "watch", Requests: 3, Failed: 1, Why: "stream ended",
				Latency: l(60)}}},
		Files: map[string]string{"run.json": "this report as data", "observed.jsonl": "observations of the loader", "cpu.pprof": "CPU profile of the server at steady state"},
		Environment: &report.Environment{Virtual: "kvm", Limits: map[string]string{"open files": "20000", "net.ipv4.ip_local_port_range": "32768 60999"}, FileSystem: "ext4",
			Device: "/dev/vda", Fsync: l(0.9), Server: map[string]string{"version": "0.9.0", "flags": "--listen-plain"}, Packages: map[string]string{"sensu-backend": "6.11.0"}},
		Scenario: &scenario.Scenario{Scenario: scenario.Version, Name: "sensu-4000x40x5s-quick", Title: "4,000 agents, 40 checks each, every 5 s", Answers: "Sensu Go 5.20: 4,000 agents, 8, 14 and 40 checks",
			Seed: 7, Scale: 0.05, Agents: []scenario.Class{{Name: "web", Count: 150, TLS: true, Checks: []scenario.Check{{Name: "ping", Count: 40, Interval: model.Duration(5 * time.Second)}}}, {Name: "db", Count: 50}},
			Phases: []scenario.Phase{{Ramp: model.Duration(15 * time.Second)}, {Steady: model.Duration(time.Minute)}}, Objectives: map[string]scenario.Limit{"beyond-p99": "60ms"}},
	}
	for i := -15; i < 124; i++ {
		t := float64(i)
		wave := math.Sin(t/3) + math.Sin(t*1.7)
		s := report.Sample{Second: i, Connected: 200, ServerCPU: 0.4 + 0.03*wave, LoaderCPU: 0.2 + 0.01*wave, OthersCPU: 0.02, ServerRSS: int64(80e6 + 1e5*t), LoaderRSS: 50e6,
			Offered: 1600, Sent: 1600, Acked: uint64(1600 + 20*wave), Lag: 1.2 + 0.1*wave, Internals: report.Internals{Heap: 40e6 + 8e6*math.Mod(t+20, 9)/9, Goroutines: 900 + 2*wave, GC: 0.4 + 0.1*wave, Commits: 44 + wave, Syncs: 44 + wave, CommitMs: 1.1 + 0.1*wave, Written: 7e5 + 2e4*wave, Queues: map[string]float64{"journal": 10 + 5*wave, "react": 2 + wave, "sessions": 1}},
			Phase: "steady",
		}
		at := l(430 + 8*wave)
		switch {
		case i < 0:
			s.Connected, s.Phase, s.Offered, s.Sent, s.Acked = (i+16)*200/16, "ramp", 0, 0, 0
			s.Latency = nil
		case i == 62 || i == 63:
			s.Connected, s.Acked, s.Latency = 40*(i-62), 0, nil
		case i >= 60 && i < 90:
			s.Offered, s.Acked, s.Refused = 1920, uint64(1900+40*wave), uint64(i%2)
			at = l(600 + 60*wave)
			s.Queues["journal"] += 300 * math.Exp(-(t-64)/8)
			s.Latency = &at
		default:
			s.Latency = &at
		}
		rep.Samples = append(rep.Samples, s)
	}
	return rep
}
