package page

import (
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/testenv"
)

// render returns the page of a report.
func render(t *testing.T, rep *report.Report) string {
	t.Helper()
	text, err := HTML(rep)
	testenv.NoError(t, err)
	return string(text)
}

// TestEveryKeptReportIsShown renders each report in bench/results, however old, and expects a well-formed page.
func TestEveryKeptReportIsShown(t *testing.T) {
	files, err := filepath.Glob("../../../bench/results/*.json")
	if err != nil || len(files) < 10 {
		t.Fatalf("reports %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			rep, err := report.Read(file)
			testenv.NoError(t, err)
			text := render(t, rep)
			wellFormed(t, text)
			for _, want := range []string{html.EscapeString(rep.Title), "stamp", `id="throughput"`, `id="percentiles"`, `id="cpu"`, `id="memory"`, `id="ledger"`, `id="environment"`, `id="reproduce"`} {
				if !strings.Contains(text, want) {
					t.Errorf("no %s", want)
				}
			}
		})
	}
}

// wellFormed expects closed elements, unique ids, nothing loaded from elsewhere, and no value that the template left
// out as unsafe.
func wellFormed(t *testing.T, text string) {
	t.Helper()
	void := []string{"meta", "link", "br", "hr", "img", "input"}
	ids := map[string]bool{}
	var open []string
	tokens := html.NewTokenizer(strings.NewReader(text))
	for {
		kind := tokens.Next()
		if kind == html.ErrorToken {
			if tokens.Err() != io.EOF {
				t.Fatal(tokens.Err())
			}
			break
		}
		token := tokens.Token()
		for _, a := range token.Attr {
			if a.Key == "id" && ids[a.Val] {
				t.Errorf("id %s twice", a.Val)
			}
			ids[a.Val] = ids[a.Val] || a.Key == "id"
			if address := []string{"href", "src", "srcset", "action", "xlink:href", "poster", "data"}; slices.Contains(address, a.Key) && !strings.HasPrefix(a.Val, "./") && !strings.HasPrefix(a.Val, "#") && a.Val != "data:," {
				t.Errorf("<%s %s=%q> leads elsewhere", token.Data, a.Key, a.Val)
			}
		}
		switch {
		case kind == html.StartTagToken && !slices.Contains(void, token.Data):
			open = append(open, token.Data)
		case kind == html.EndTagToken:
			if len(open) == 0 || open[len(open)-1] != token.Data {
				t.Fatalf("</%s> closes %v", token.Data, open)
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		t.Errorf("not closed: %v", open)
	}
	for _, bad := range []string{"ZgotmplZ", "<no value>", "NaN", "Inf", "%!", "@import", "url("} {
		if strings.Contains(text, bad) {
			t.Errorf("%q in the page", bad)
		}
	}
}

// TestStructure expects the parts of the page in their order.
func TestStructure(t *testing.T) {
	text := render(t, full(t))
	wellFormed(t, text)
	var got []string
	for _, m := range regexp.MustCompile(`<(\w+)[^>]* id="([^"]+)"`).FindAllStringSubmatch(text, -1) {
		got = append(got, m[1], m[2])
	}
	want := strings.Fields(`section verdict section summary section charts figure throughput figure latency figure percentiles figure saturation
		figure saturation-latency figure connections figure cpu figure memory figure queues figure queued-bytes figure commits figure commit-time figure written figure gc figure locks figure goroutines figure lag
		section times section phases section faults section outages section deliveries section intent section operators section ledger section usage section figures
		section refusals section environment section metrics section scenario section files section reproduce`)
	if !slices.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), strings.Join(want, " "))
	}
}

// TestHostileWordsStayWords renders names with HTML and scripts in them, and expects that they stay text.
func TestHostileWordsStayWords(t *testing.T) {
	const evil = `"><script>alert(1)</script><img src=//evil.example onerror=alert(1)>'`
	rep := full(t)
	rep.Title, rep.Label, rep.Verdict, rep.Commit, rep.Command = evil, []string{evil}, []string{evil}, evil, []string{evil}
	rep.Phases[1].Name, rep.Faults[0].What, rep.Changes[0].What, rep.Scenario.Name = evil, evil, evil, evil
	rep.Files = map[string]string{"javascript:alert(1)": evil, "//evil.example/x": "", evil: ""}
	rep.Refusals = map[string]uint64{evil: 1}
	for i := range rep.Samples {
		rep.Samples[i].Queues = map[string]float64{evil: 3}
	}
	text := render(t, rep)
	wellFormed(t, text)
	if n := strings.Count(text, "<script"); n != 1 || strings.Contains(text, "<img") {
		t.Errorf("%d scripts", n)
	}
}

// TestNearlyNothing renders an almost empty report, and expects a well-formed page.
func TestNearlyNothing(t *testing.T) {
	wellFormed(t, render(t, &report.Report{Balance: &report.Balance{}}))
}

// TestRunItAgain expects commands that play the scenario from its file, because its name would be scaled again.
func TestRunItAgain(t *testing.T) {
	const commit = "git checkout 0123456789abcdef\nmake build\n"
	for want, change := range map[string]func(*report.Report){
		commit + "bin/muster load run muster-mixed-played.yaml --seed 7": func(*report.Report) {},
		"muster load run muster-mixed-played.yaml --seed 7":              func(r *report.Report) { r.Command, r.Commit = nil, "" },
		commit + "muster load run 'it'\\''s'":                            func(r *report.Report) { r.Scenario, r.Command = nil, []string{"muster", "load", "run", "it's"} },
	} {
		rep := &report.Report{Commit: "0123456789abcdef", Command: []string{"bin/muster", "load", "run", "muster-mixed"}, Scenario: &scenario.Scenario{Name: "muster-mixed", Seed: 7}}
		change(rep)
		if got := again(rep); got != want {
			t.Errorf("%q\nwant %q", got, want)
		}
	}
}

// TestAPageOfAnHour renders a run of an hour, and expects a page of bounded size that still shows one slow second.
func TestAPageOfAnHour(t *testing.T) {
	rep := full(t)
	one := rep.Samples[40]
	rep.Samples = nil
	for i := range 3600 {
		s := one
		if s.Second = i; i == 1801 {
			slow := *one.Latency
			slow.Max = 98_765
			s.Latency = &slow
		}
		rep.Samples = append(rep.Samples, s)
	}
	if text := render(t, rep); len(text) > 700_000 || !strings.Contains(text, "Each point is 12 seconds.") || !strings.Contains(text, "98.8 s") {
		t.Errorf("%d bytes", len(text))
	}
}

// kept returns a report that the project keeps.
func kept(t *testing.T, name string) *report.Report {
	t.Helper()
	rep, err := report.Read("../../../bench/results/" + name + ".json")
	testenv.NoError(t, err)
	return rep
}

// full returns a report with every part that a report can have: of all pipelines, with the faults and refusals of a bad day,
// the steps of a search for saturation, and a wrong result.
func full(t *testing.T) *report.Report {
	t.Helper()
	rep, day, search := kept(t, "muster-mixed"), kept(t, "muster-bad-day"), kept(t, "muster-saturation")
	rep.Faults, rep.Outages, rep.Refusals, rep.Losses = day.Faults, day.Outages, day.Refusals, day.Losses
	rep.Phases = append(rep.Phases, search.Phases...)
	rep.Balance.Missing, rep.Valid = 1, false
	rep.Balance.Add(report.Imbalance{Node: 17, Name: "web-00017", Check: 3, CheckName: "web-ping-003", Number: 942, Kind: "acknowledged and lost"}, "41 results applied, 42 acknowledged")
	rep.Goals = append(rep.Goals, report.Goal{Name: "beyond-p99", Want: 60, Got: 61}, report.Goal{Name: "back", Want: 5, Why: "not measured in this run"})
	rep.Loaders = []report.Loader{{Name: "alpha", Here: true, Agents: 100}, {Name: "beta", Agents: 100, Clock: 0.2}}
	return rep
}
