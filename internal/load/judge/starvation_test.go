package judge

import (
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// wait returns a figure of users or agents in a phase.
func wait(figure, class string, count uint64, value float64) report.Beside {
	return report.Beside{Figure: figure, Class: class, Count: count, Value: value}
}

// TestStarved expects that users with longer waits in a faster phase are named, judged by the goal, or else by growth.
func TestStarved(t *testing.T) {
	goals := []report.Goal{{Name: "list-p99", Want: 250}}
	for name, c := range map[string]struct {
		was, now []report.Beside
		want     string // empty: nobody starves
	}{
		"within the goal":       {[]report.Beside{wait("list-p99", "", 99, 20)}, []report.Beside{wait("list-p99", "", 99, 250)}, ""},
		"goal missed":           {[]report.Beside{wait("list-p99", "", 99, 20)}, []report.Beside{wait("list-p99", "", 2, 251)}, "double starves people who list: 251 ms, 20.0 ms in usual; asked at most 250 ms"},
		"missed before, too":    {[]report.Beside{wait("list-p99", "", 99, 300)}, []report.Beside{wait("list-p99", "", 99, 400)}, ""},
		"fair without a goal":   {[]report.Beside{wait("apply-p99", "", 99, 100)}, []report.Beside{wait("apply-p99", "", 99, 650)}, ""},
		"unfair":                {[]report.Beside{wait("apply-p99", "", 99, 100)}, []report.Beside{wait("apply-p99", "", 99, 651)}, "double starves people who write resources: 651 ms, 100 ms in usual; at 2 times the rate at most 650 ms is fair"},
		"few answers":           {[]report.Beside{wait("apply-p99", "", 99, 100)}, []report.Beside{wait("apply-p99", "", 19, 900)}, ""},
		"no answer":             {[]report.Beside{wait("list-p99", "", 40, 20)}, nil, "double starves people who list: no answer at all, 20.0 ms in usual; 40 answers there"},
		"no answer, and no few": {[]report.Beside{wait("list-p99", "", 39, 20)}, nil, ""},
		"nothing to see":        {[]report.Beside{wait("watch-p99", "", 99, 20)}, nil, ""},
		"history":               {[]report.Beside{wait(report.HistoryBehind, "", 9, 0.3)}, []report.Beside{wait(report.HistoryBehind, "", 9, 3.3)}, "double starves history: 3.30 s, 300 ms in usual; at 2 times the rate at most 3.20 s is fair"},
		"intent":                {[]report.Beside{wait("holds-p99", "", 99, 20)}, []report.Beside{wait("holds-p99", "", 99, 400)}, "double starves agents that wait for intent: 400 ms, 20.0 ms in usual; at 2 times the rate at most 330 ms is fair"},
		"a class":               {[]report.Beside{wait(report.HeldShare, "web", 9, 100), wait(report.HeldShare, "db", 9, 100)}, []report.Beside{wait(report.HeldShare, "web", 9, 99), wait(report.HeldShare, "db", 9, 97)}, "double starves class db: 97 % of its rate, 100 % in usual; asked at least 98 %"},
	} {
		phases := []report.Played{
			{Name: "usual", Kind: "steady", Rate: 1, From: 0, To: 20, Assessment: report.Assessment{Beside: c.was}},
			{Name: "step", Kind: report.KindStep, Rate: 3, Assessment: report.Assessment{Beside: c.now}},
			{Name: "overload", Kind: "steady", Rate: 3, Assessment: report.Assessment{Beside: c.now}},
			{Name: "double", Kind: "steady", Rate: 2, From: 20, To: 30, Assessment: report.Assessment{Beside: c.now}},
			{Name: "half", Kind: "steady", Rate: 0.5, From: 30, To: 40, Assessment: report.Assessment{Beside: c.now}},
		}
		var before []*report.Played
		for i := range phases {
			p := &phases[i]
			before = Starvation(goals, before, p, p.Name == "overload")
			if starved := len(p.Starved) > 0; starved != (len(p.Missed) > 0) || starved && !strings.HasPrefix(p.Missed[0], p.Starved[0]+": ") {
				t.Errorf("%s: %s: starved %q, missed %q", name, p.Name, p.Starved, p.Missed)
			}
			if said := strings.Join(p.Missed, "\n"); p.Name == "double" && said != c.want || p.Name != "double" && said != "" {
				t.Errorf("%s: %s: %q, want %q", name, p.Name, said, c.want)
			}
		}
	}
}

// TestEachPipelineCanStarveEachOther speeds up each pipeline, and expects that every other one is compared with the
// last phase without speed-up.
func TestEachPipelineCanStarveEachOther(t *testing.T) {
	usual := []report.Beside{wait("list-p99", "", 99, 20), wait("run-p99", "", 99, 20), wait("watch-p99", "", 99, 20), wait("holds-p99", "", 99, 20), wait("tell-p99", "", 99, 20), wait(report.HistoryBehind, "", 9, 0.1), wait(report.BeyondLinger, "", 999, 20), wait(report.HeldShare, "", 999, 100), wait(report.HeldShare, "web", 9, 100), wait(report.HeldShare, "db", 9, 100)}
	bad := []report.Beside{wait("list-p99", "", 99, 9000), wait("run-p99", "", 99, 9000), wait("watch-p99", "", 99, 9000), wait("holds-p99", "", 99, 9000), wait("tell-p99", "", 99, 9000), wait(report.HistoryBehind, "", 9, 90), wait(report.BeyondLinger, "", 999, 9000), wait(report.HeldShare, "", 999, 50), wait(report.HeldShare, "web", 9, 50), wait(report.HeldShare, "db", 9, 100)}
	named := map[string][]string{
		scenario.People: {"people who list", "people who run commands"}, scenario.Intent: {"agents that wait for intent"}, scenario.Alerts: {"people who are notified of problems"},
		scenario.Results: {"the results: 9.00 s", "the results: 50 % of its rate"}, "": {"people who watch", "history", "class web"},
	}
	for _, hurried := range scenario.Pipelines() {
		fast := report.Played{Name: "fast", Kind: "steady", Rate: 1, From: 40, To: 60, Assessment: report.Assessment{Beside: bad}, Faster: map[string]float64{hurried: 4}}
		if hurried == scenario.Results {
			fast.Rate, fast.Faster = 4, nil
		}
		other := report.Played{Name: "other", Kind: "steady", Rate: 0.5, From: 20, To: 40, Assessment: report.Assessment{Beside: bad}, Faster: map[string]float64{scenario.Intent: 8}} // nothing to compare with
		phases := []report.Played{{Name: "usual", Kind: "steady", Rate: 1, From: 0, To: 20, Assessment: report.Assessment{Beside: usual}}, other, fast}
		var before []*report.Played
		for i := range phases {
			before = Starvation(nil, before, &phases[i], false)
		}
		said := strings.Join(phases[2].Missed, "\n")
		for pipeline, whom := range named {
			for _, who := range whom {
				if strings.Contains(said, "fast starves "+who) == (pipeline == hurried) {
					t.Errorf("%s ×4: %s, in\n%s", hurried, who, said)
				}
			}
		}
		word := map[string]string{scenario.Results: "rate"}[hurried]
		if word == "" {
			word = hurried
		}
		if want := "20.0 ms in usual; at 4 times the " + word + " at most 410 ms is fair"; !strings.Contains(said, want) || len(phases[1].Missed) > 0 {
			t.Errorf("want %q in\n%s\n%v", want, said, phases[1].Missed)
		}
	}
}

// TestTooFewAnswersAreNamed expects that users with too few answers in one of the phases are named and not judged.
func TestTooFewAnswersAreNamed(t *testing.T) {
	was := []report.Beside{wait("list-p99", "", 99, 20), wait("apply-p99", "", 19, 20), wait("silence-p99", "", 99, 20), wait("run-p99", "", 12, 20), wait("tell-p99", "", 99, 20), wait(report.HistoryBehind, "", 1, 0.1), wait(report.HeldShare, "web", 9, 100)}
	now := []report.Beside{wait("list-p99", "", 99, 20), wait("apply-p99", "", 99, 20), wait("silence-p99", "", 19, 9000), wait("fact-p99", "", 40, 20), wait("tell-p99", "", 3, 20), wait(report.HistoryBehind, "", 1, 0.1), wait(report.HeldShare, "web", 9, 100)}
	usual, fast := report.Played{Name: "usual", Kind: "steady", Rate: 1, To: 20, Assessment: report.Assessment{Beside: was}}, report.Played{Name: "fast", Kind: "steady", Rate: 1, From: 20, To: 40, Assessment: report.Assessment{Beside: now}, Faster: map[string]float64{scenario.Alerts: 4}}
	Starvation(nil, []*report.Played{&usual}, &fast, false)
	want := []string{
		"people who write resources: 19 answers in usual, 99 here; 20 are needed", "people who make silences: 99 answers in usual, 19 here; 20 are needed",
		"people who run commands: 12 answers in usual, 0 here; 20 are needed", "facts that change: 0 answers in usual, 40 here; 20 are needed",
	}
	if !slices.Equal(fast.NotJudged, want) || len(fast.Missed)+len(fast.Starved) > 0 {
		t.Errorf("not judged %q\nwant %q\nmissed %q", fast.NotJudged, want, fast.Missed)
	}
	sections := (&report.Report{Balance: &report.Balance{}, Course: report.Course{Phases: []report.Played{fast}}}).Findings().Sections
	i := slices.IndexFunc(sections, func(s report.Section) bool { return s.ID == "phases" })
	if notes := sections[i].Notes; len(notes) != 1 || !strings.HasPrefix(notes[0], "fast: not judged beside it: people who write resources: 19 answers") {
		t.Errorf("%q", notes)
	}
}
