package report

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestVerdict expects the state and the reason of runs that passed, failed, were stopped or invalid, and what was wrong: failures,
// times, or losses. A report that was saved and read says the same.
func TestVerdict(t *testing.T) {
	step := func(offered float64, missed ...string) Played {
		return Played{Kind: KindStep, Offered: offered, Apart: len(missed) > 0, Assessment: Assessment{Missed: missed}}
	}
	trouble := func(text string) func(*Report) { return func(r *Report) { r.Trouble = []string{text} } }
	for what, c := range map[string]struct {
		change       func(*Report)
		wrong, state string // wrong: failed, late or lost
		says         string
	}{
		"well":              {func(*Report) {}, "", "passed", "1 objective reached"},
		"nothing asked":     {func(r *Report) { r.Goals = nil }, "", "passed", "nothing lost, nothing twice, the generator kept up"},
		"not compared":      {func(r *Report) { r.Balance.Compared = 0 }, "", "passed", "every result was answered"},
		"short":             {func(r *Report) { r.Goals[0].Met = false }, "", "failed", "1 of 1 objective missed"},
		"a result":          {func(r *Report) { r.Balance.Missing = 1 }, "lost", "failed", "1 results were sent and neither acknowledged nor refused"},
		"an imbalance":      {func(r *Report) { r.Balance.Imbalances = 1 }, "lost", "failed", "1 imbalance"},
		"a wrong one taken": {func(r *Report) { r.WrongSent, r.WrongTaken = 5, 1 }, "lost", "failed", "1 of 5 results that had to be refused were taken"},
		"no alert":          {func(r *Report) { r.Faults = []Struck{{}, {Missing: 1}} }, "lost", "failed", "alerts did not come"},
		"a wrong alert":     {func(r *Report) { r.Faults = []Struck{{What: "stop 2", Alerts: 2, Extra: 1}} }, "lost", "failed", "stop 2: 0 of 2 alerts did not come, 1 came that should not have"},
		"trouble":           {trouble("a fault could not be played"), "failed", "failed", "see the remarks"},
		"not asked for":     {func(r *Report) { r.Targeted = &Targeted{Name: "sensu", Totals: Totals{Requests: 5, Missed: 1}} }, "failed", "failed", ""},
		"hung up on":        {func(r *Report) { r.Targeted = &Targeted{Name: "sensu", Totals: Totals{Lost: 1}} }, "failed", "failed", ""},
		"refused as it had": {func(r *Report) { r.WrongSent, r.Balance.Refused = 5, 5 }, "", "passed", ""},
		"refused, and good": {func(r *Report) { r.WrongSent, r.Balance.Refused = 5, 6 }, "failed", "failed", ""},
		"settled too late": {func(r *Report) {
			r.Phases = []Played{{Kind: "steady", Assessment: Assessment{Missed: []string{"p99"}}}}
		}, "late", "failed", ""},
		"a step that broke": {func(r *Report) { r.Phases = []Played{step(1), step(2, "p99")} }, "", "passed", ""},
		"no step that held": {func(r *Report) { r.Phases = []Played{step(1, "p99")} }, "failed", "failed", ""},
		"stopped in a step": {func(r *Report) { r.Phases, r.Stopped = []Played{step(1, "p99")}, &Stopped{} }, "", "invalid", "stopped before its end"},
		"stopped":           {func(r *Report) { r.Stopped = &Stopped{After: 1, Of: 2, Whole: 1} }, "", "invalid", "stopped before its end"},
		"stopped, a note":   {func(r *Report) { r.Stopped, r.Verdict = &Stopped{}, []string{"step ×1 broke at first"} }, "", "invalid", "stopped before its end"},
		"stopped and lost":  {func(r *Report) { r.Stopped, r.Balance.Missing = &Stopped{}, 1 }, "lost", "failed", ""},
		"stopped and short": {func(r *Report) { r.Stopped, r.Goals[0].Met = &Stopped{}, false }, "", "failed", ""},
		"behind":            {func(r *Report) { r.Valid, r.Goals[0].Met = false, false }, "", "invalid", "no figure below counts"},
		"behind, stopped":   {func(r *Report) { r.Valid, r.Stopped = false, &Stopped{} }, "", "invalid", "no figure below counts"},
		"behind and lost":   {func(r *Report) { r.Valid, r.Balance.Missing = false, 3 }, "lost", "failed", "the generator fell behind as well"},
	} {
		rep := &Report{Schema: Schema, Valid: true, Balance: &Balance{Sent: 10, Acknowledged: 10, Compared: 5}, Goals: []Goal{{Name: "rate", Want: 1, Got: 2, Met: true}}}
		c.change(rep)
		path := filepath.Join(t.TempDir(), "run.json")
		testenv.NoError(t, rep.Save(path))
		read, err := Read(path)
		testenv.NoError(t, err)
		for _, r := range []*Report{rep, read} {
			f := r.Findings()
			if f.State != c.state || !strings.Contains(f.Because, c.says) || !strings.Contains(r.Text(), strings.ToLower(f.Word)+": "+f.Because) {
				t.Errorf("%s: %s: %s", what, f.State, f.Because)
			}
			if len(r.Failed()) > 0 != (c.wrong == "failed") || len(r.Late()) > 0 != (c.wrong == "late") || r.Lost() != (c.wrong == "lost") {
				t.Errorf("%s: failed %v, late %v, lost %v", what, r.Failed(), r.Late(), r.Lost())
			}
			if r.OK() != (c.state == "passed") || r.OnlyStopped() != (f.Word == "Stopped") {
				t.Errorf("%s: OK %t, only stopped %t", what, r.OK(), r.OnlyStopped())
			}
		}
	}
}

// TestObjectives expects a line among the objectives for each kind of wrong result, with its share.
func TestObjectives(t *testing.T) {
	rep := &Report{Valid: true, Balance: &Balance{Sent: 100}, Traffic: Traffic{WrongSent: 9}, Course: Course{Faults: []Struck{{Alerts: 10}}, Silent: &Silent{Machines: 200}, Notifications: &Notifications{Due: 900}, Streamed: &Streamed{Lines: 80, Missing: 3}, Turns: &Turned{Due: 50}}}
	var got []string
	for _, o := range rep.Findings().Objectives {
		got = append(got, o.What+": "+o.Got)
		if o.Met != !strings.Contains(o.Got, "wrong") {
			t.Errorf("%+v", o)
		}
	}
	want := []string{"results: all of 100", "frames to refuse: all of 9", "alerts of faults: all of 10", "machines with a session: all of 200", "messages about problems: all of 900", "lines of the stream: 3 of 83 wrong", "turns: all of 50", "the generator: p99 0 ms late"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestTextOfARunThatWasNotCompared expects the text of a run without comparison to say so.
func TestTextOfARunThatWasNotCompared(t *testing.T) {
	rep := &Report{Valid: true, Plan: Plan{Agents: 2, Checks: 3}, Balance: &Balance{Sent: 6, Acknowledged: 6}, Label: []string{"operators did nothing: there was no login"}, Machine: Machine{Cores: 2}, Cost: Cost{Others: 1.2},
		Scenario: &scenario.Scenario{Operators: scenario.Operators{Lists: 2}}}
	text := rep.Text()
	for _, want := range []string{"  · not compared: whether the server holds", "not compared with the server's states\n", "operators did nothing", "Others used 1.2 of the machine's 2 cores", "Not played, though the scenario has it: people at work."} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "nothing lost") {
		t.Error(text)
	}
	rep.Balance.Compared, rep.Verdict = 6, []string{"step ×2 broke at first, was played once more, and held"}
	if text := rep.Text(); !strings.Contains(text, "nothing lost, nothing twice, the generator kept up\n  · step ×2 broke") {
		t.Error(text) // a note is no failure
	}
}

// TestBesideTheResults expects a table of the pipelines, phase by phase, or a row per phase if there are many.
func TestBesideTheResults(t *testing.T) {
	rep := &Report{Course: Course{Phases: []Played{{Name: "usual", Assessment: Assessment{Beside: []Beside{{"list-p99", "", 99, 12}, {HeldShare, "web", 9, 100}}}}, {Name: "fast", Assessment: Assessment{Beside: []Beside{{HistoryBehind, "", 1, 4.1}, {HeldShare, "web", 9, 97.5}}}}}}}
	want := [][]string{{"p99 of a page, for people who list", "12.0 ms", ""}, {"class web: acknowledged in time, of what was offered", "100 %", "97.5 %"}, {"oldest change that history did not hold yet", "", "4.10 s"}}
	if got := rep.besideTable(); len(got) != 1 || !slices.EqualFunc(got[0].Rows, want, slices.Equal) {
		t.Errorf("%q\nwant %q", got, want)
	}
	for range 9 {
		rep.Phases = append(rep.Phases, rep.Phases[0])
	}
	if got := rep.besideTable(); got[0].Head[0] != "phase" || len(got[0].Rows) != 11 || len(got[0].Head) != 4 {
		t.Errorf("%q", got)
	}
}

// TestRowsAreNamed expects that a row begins with the name of the run for commands, then its title.
func TestRowsAreNamed(t *testing.T) {
	mixed := &scenario.Scenario{Name: "muster-mixed"}
	for _, c := range []struct {
		path, want string
		rep        Report
	}{
		{"bench/results/muster-mixed.json", "muster-mixed: All pipelines", Report{Title: "All pipelines", Scenario: mixed}},
		{"bench/results/rate-16k.json", "rate-16k (server)", Report{Title: "rate-16k (server)"}},
		{"bench/results/rate-16k.json", "rate-16k", Report{}},
		{"reports/monday/run.json", "monday: a flat run", Report{Title: "a flat run"}},
		{"reports/monday/run.json", "muster-mixed", Report{Scenario: mixed}},
	} {
		if got := c.rep.named(c.path); got != c.want {
			t.Errorf("%s: %q, want %q", c.path, got, c.want)
		}
	}
}

// TestRemarksDoNotRepeatTheReason expects the reason of a verdict once, and not also among the remarks.
func TestRemarksDoNotRepeatTheReason(t *testing.T) {
	rep := &Report{Valid: true, Balance: &Balance{Sent: 10, Acknowledged: 9, Missing: 1, Compared: 5}, Traffic: Traffic{WrongTaken: 1}}
	rep.Verdict = rep.Wrong().Sentences()
	if f := rep.Findings(); f.Because != rep.Verdict[0] || !slices.Equal(f.Remarks, rep.Verdict[1:]) {
		t.Errorf("%q because of %q", f.Remarks, f.Because)
	}
}
