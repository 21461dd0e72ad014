package sizing

import (
	"crypto/tls"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// ran is a report of a run that went well.
func ran(agents int, change ...func(*report.Report)) *report.Report {
	x := float64(agents) / 1000
	rep := &report.Report{Schema: report.Schema, Valid: true, Balance: &report.Balance{}, Machine: report.Machine{Cores: 2, Memory: 24e9}, Plan: report.Plan{Agents: agents},
		Rate: 833 * x, States: uint64(26_000 * x), BeyondLinger: report.Latency{P99: 25}, Server: report.Usage{Cores: 0.1 * x, RSS: int64(60e6 + 40e6*x)},
		Loader: report.Usage{Cores: 0.05 * x, RSS: int64(50e6 * x)}, Calls: &report.Calls{Syncs: 47}, Disk: &report.Disk{PerDay: 86400 * 300e3 * x, Syncs: 60},
		Network: &report.Network{In: 150e3 * x, Out: 40e3 * x}, Samples: []report.Sample{{Second: 1, ServerRSS: int64(62e6 + 40e6*x), CommitMs: 1}}}
	for _, f := range change {
		f(rep)
	}
	return rep
}

func try(factor float64, rep *report.Report, err error) Try {
	return Try{Factor: factor, Agents: int(1000 * factor), Results: 833 * factor, States: int(25_000 * factor), Report: rep, Err: err}
}

func late(rep *report.Report) {
	rep.Goals = []report.Goal{{Name: "beyond-p99", Want: 100, Got: 4321}}
}

// limit is what a preflight of a run that no machine holds says.
func limit(t *testing.T) error {
	t.Helper()
	sc := &scenario.Scenario{Agents: []scenario.Class{{Name: "a", Count: 90_000, TLS: true, Checks: []scenario.Check{{Name: "c", Count: 1000, Interval: model.Duration(60e9), Output: scenario.Output{Bytes: scenario.MaxOutput}}}}},
		Phases: []scenario.Phase{{Steady: model.Duration(60e9)}}}
	_, err := load.Preflight(load.Config{Server: "127.0.0.1:1", Scenario: sc, Data: t.TempDir(), TLS: func(uuid.UUID) (*tls.Config, error) { return nil, nil }})
	if model.ClassOf(err) != model.Limited {
		t.Fatal(err)
	}
	return err
}

func TestSentence(t *testing.T) {
	files := model.Errorf(model.Limited, "this machine cannot hold the run:\n  open files: 40000 connections need 40200, the hard limit is 20000. Raise it: ulimit -Hn 40200\n  memory: 40000 agents need about 9 MiB")
	const at1 = "at 1× the server uses 0.10 cores, 102 MB of memory, 300 kB/s and 60.0 fsyncs/s of disk, and 150 kB/s in and 40.0 kB/s out of network; "
	for _, c := range []struct {
		what  string
		tries []Try
		want  string
	}{
		{"all", []Try{try(1, ran(1000), nil), try(4, ran(4000), nil)}, "This machine carries at least 4× (4,000 agents, 3,332 results/s); " + at1 + "nothing broke."},
		{"a limit", []Try{try(1, ran(1000), nil), try(4, nil, files)}, "This machine carries 1× (1,000 agents, 833 results/s); " + at1 + "at 4× (4,000 agents, 3,332 results/s) open files break first: 40000 connections need 40200, the hard limit is 20000."},
		{"a limit at once", []Try{try(1, nil, files)}, "This machine does not carry 1× (1,000 agents, 833 results/s): open files break first: 40000 connections need 40200, the hard limit is 20000."},
		{"an objective", []Try{try(1, ran(1000), nil), try(2, ran(2000, late), nil)}, "This machine carries 1× (1,000 agents, 833 results/s); " + at1 +
			"at 2× (2,000 agents, 1,666 results/s) the objective breaks first: p99 beyond the linger: 4,321 ms, asked at most 100 ms."},
		{"the processor", []Try{try(1, ran(1000), nil), try(2, ran(2000, late, func(r *report.Report) { r.Server.Cores = 1.5 }), nil)}, "This machine carries 1× (1,000 agents, 833 results/s); " + at1 +
			"at 2× (2,000 agents, 1,666 results/s) the processor breaks first: p99 beyond the linger: 4,321 ms, asked at most 100 ms; server 1.50, simulated agents 0.10, others 0.10 of 2 cores."},
		{"the disk", []Try{try(1, ran(1000), nil), try(2, ran(2000, late, func(r *report.Report) { r.Samples[0].CommitMs = 210 }), nil)}, "This machine carries 1× (1,000 agents, 833 results/s); " + at1 +
			"at 2× (2,000 agents, 1,666 results/s) the disk breaks first: p99 beyond the linger: 4,321 ms, asked at most 100 ms; a commit of the journal, with its fsync, takes 210 ms."},
		{"a disk that stands still", []Try{try(1, ran(1000), nil), try(2, ran(2000, late, func(r *report.Report) {
			r.Samples = append(r.Samples, report.Sample{Offered: 1666, Acked: 1666}, report.Sample{Offered: 1666, ServerCPU: 0.01}, report.Sample{Offered: 1666, ServerCPU: 0.02})
		}), nil)}, "This machine carries 1× (1,000 agents, 833 results/s); " + at1 +
			"at 2× (2,000 agents, 1,666 results/s) the disk breaks first: p99 beyond the linger: 4,321 ms, asked at most 100 ms; for 2 seconds in a row nothing was acknowledged while the server had nothing to do but wait for it."},
		{"memory", []Try{try(1, ran(1000, late, func(r *report.Report) { r.Server.RSS = 22e9 }), nil)}, "This machine does not carry 1× (1,000 agents, 833 results/s): memory breaks first: p99 beyond the linger: 4,321 ms, asked at most 100 ms; server and simulated agents take 92 % of it."},
		{"the loader", []Try{try(1, ran(1000), nil), try(2, ran(2000, func(r *report.Report) { r.Valid = false; r.Server.Cores = 0.9; r.Loader.Cores = 1; r.Others = 0 }), nil)},
			"This machine carries at least 1× (1,000 agents, 833 results/s); " + at1 + "at 2× (2,000 agents, 1,666 results/s) the simulated agents broke before the server did: they share its cores and fell behind (server 0.90, simulated agents 1.00, others 0.00 of 2 cores)."},
		{"others", []Try{try(1, ran(1000, func(r *report.Report) { r.Valid = false; r.Others = 1.2 }), nil)}, "The size that this machine carries is unknown: at 1× (1,000 agents, 833 results/s) already something else used the machine (server 0.10, simulated agents 0.05, others 1.20 of 2 cores)."},
		{"others and late", []Try{try(1, ran(1000), nil), try(2, ran(2000, late, func(r *report.Report) { r.Others = 1.2 }), nil)}, "This machine carries at least 1× (1,000 agents, 833 results/s); " + at1 +
			"at 2× (2,000 agents, 1,666 results/s) something else used the machine (server 0.20, simulated agents 0.10, others 1.20 of 2 cores)."},
		{"the ledger", []Try{try(1, ran(1000, func(r *report.Report) { r.Balance.Missing = 3 }), nil)}, "This machine does not carry 1× (1,000 agents, 833 results/s): the ledger breaks first: 3 results were sent and neither acknowledged nor refused."},
		{"a message", []Try{try(1, ran(1000), nil), try(2, ran(2000, func(r *report.Report) {
			r.Notifications = &report.Notifications{Due: 9, Missing: 1, Example: "web-1/disk"}
		}), nil)}, "This machine carries 1× (1,000 agents, 833 results/s); " + at1 +
			"at 2× (2,000 agents, 1,666 results/s) the alerts break first: 1 of 9 messages did not come, 0 came that should not have; web-1/disk."},
		{"spools", []Try{try(1, ran(1000, late, func(r *report.Report) { r.SpoolFull = 4000 }), nil)}, "This machine does not carry 1× (1,000 agents, 833 results/s): the objective breaks first: the server took less than was offered, and agents' spools were full (4,000 results not made)."},
		{"the start", []Try{try(1, nil, model.Errorf(model.Unavailable, "7 of 9 agents have a session; the others: no answer"))}, "This machine does not carry 1× (1,000 agents, 833 results/s): the start breaks first: 7 of 9 agents have a session; the others: no answer."},
		{"half a fleet", []Try{try(0.5, ran(500), nil), try(1, nil, limit(t))}, "This machine carries 0.5× (500 agents, 417 results/s); at 0.5× the server uses 0.05 cores"},
		{"nothing", nil, "Nothing was tried."},
	} {
		for i := range c.tries {
			if r := c.tries[i].Report; r != nil && c.what == "the processor" && i == 1 {
				r.Others = 0.1
			}
		}
		got := Sentence(c.tries)
		if c.what == "half a fleet" && strings.HasPrefix(got, c.want) && strings.Contains(got, " first: ") {
			continue
		}
		if got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.what, got, c.want)
		}
	}
}

func TestTable(t *testing.T) {
	short := ran(1000, func(r *report.Report) { r.States = 10_000 })
	tries := []Try{try(1, short, nil), try(2, ran(2000, late), nil), try(4, nil, limit(t))}
	lines := strings.Split(Table(tries, 0), "\n")
	for i, want := range []string{
		"SIZE  AGENTS  RESULTS/S  CORES  MEMORY  DISK/S    FSYNCS/S  NET IN/S  NET OUT/S  P99      VERDICT",
		"1×    1,000   833        0.10   111 MB  300 kB/s",
		"2×    2,000   1,666      0.20   142 MB  600 kB",
		"4×    4,000   3,332      –      –       –",
	} {
		if want = strings.ReplaceAll(want, "kB/s", "kB"); i != 0 && !strings.HasPrefix(lines[i], want) || i == 0 && strings.Join(strings.Fields(lines[0]), " ") != strings.Join(strings.Fields(want), " ") {
			t.Errorf("%q, want %q", lines[i], want)
		}
	}
	if !strings.HasSuffix(lines[1], "carried") || !strings.HasSuffix(lines[2], "no: the objective") || !strings.Contains(lines[3], "no: ") {
		t.Error(strings.Join(lines, "\n"))
	}
	if whole := Table(tries, 0); Table(tries, 200) != whole || Table(tries, 104) == whole {
		t.Errorf("on a terminal of 200 columns:\n%s\nof 104:\n%s", Table(tries, 200), Table(tries, 104))
	}
	turned := Table(tries, 80)
	want := `SIZE       1×       2×                 4×
AGENTS     1,000    2,000              4,000
RESULTS/S  833      1,666              3,332
CORES      0.10     0.20               –`
	if !strings.HasPrefix(turned, want) || !strings.Contains(turned, "\nVERDICT    carried  no: the objective  no: open files\n") {
		t.Errorf("of 80:\n%s", turned)
	}
	for columns := range 60 { // however narrow: all sizes, in their order
		narrow, at := Table(tries, columns+1), 0
		for _, size := range []string{"1×", "2×", "4×"} {
			next := strings.Index(narrow[at:], size)
			if next < 0 {
				t.Fatalf("of %d:\n%s", columns+1, narrow)
			}
			at += next
		}
		for line := range strings.Lines(narrow) {
			if n := utf8.RuneCountInString(line) - 1; n > max(columns+1, 30) {
				t.Errorf("of %d: %d in %q", columns+1, n, line)
			}
		}
	}
	if Later(tries) == "" || Later(tries[1:]) != "" {
		t.Error("what is reckoned has to be said, and only then")
	}
}

// What is not carried is played once more; what was wrong once was wrong, and what a limit keeps
// from being played stays so.
func TestPlayedTwice(t *testing.T) {
	wrong := func(r *report.Report) { r.Notifications = &report.Notifications{Due: 9, Extra: 1} }
	for name, c := range map[string]struct {
		try  Try
		want bool
	}{
		"carried":   {try(1, ran(1000), nil), false},
		"late":      {try(1, ran(1000, late), nil), true},
		"behind":    {try(1, ran(1000, func(r *report.Report) { r.Valid = false }), nil), true},
		"wrong":     {try(1, ran(1000, wrong, late), nil), false},
		"stopped":   {try(1, ran(1000, func(r *report.Report) { r.Stopped = &report.Stopped{} }), nil), false},
		"a limit":   {try(1, nil, limit(t)), false},
		"the start": {try(1, nil, model.Errorf(model.Unavailable, "no answer")), false},
	} {
		if c.try.Stumbled() != c.want {
			t.Errorf("%s: once more %t", name, !c.want)
		}
	}
	twice := try(2, ran(2000), nil)
	twice.Before = ran(2000, late)
	fails := try(4, ran(4000, late), nil)
	fails.Before = ran(4000, late)
	want := "2× was carried only when it was played once more: at first p99 beyond the linger: 4,321 ms, asked at most 100 ms.\n4× was played twice, and not carried either time."
	if got := Again([]Try{try(1, ran(1000), nil), twice, fails}); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestUnits(t *testing.T) {
	for v, want := range map[float64]string{0: "0 B", 999: "999 B", 1000: "1.00 kB", 999_700: "1.00 MB", 1_234_567: "1.23 MB", 25.24e9: "25.2 GB", 0.5: "0.50 B"} {
		if got := bytes(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
}
