package page

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/muster-fleet/muster/internal/load/report"
)

func render(t *testing.T, rep *report.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, rep); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Every report that was kept is shown, however old.
func TestEveryKeptReportIsShown(t *testing.T) {
	files, err := filepath.Glob("../../../bench/results/*.json")
	if err != nil || len(files) < 10 {
		t.Fatalf("reports %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			rep, err := report.Read(file)
			if err != nil {
				t.Fatal(err)
			}
			text := render(t, rep)
			wellFormed(t, text)
			for _, want := range []string{strings.ReplaceAll(rep.Title, " %", nb+"%"), "stamp", `id="throughput"`, `id="percentiles"`, `id="cpu"`, `id="memory"`, `id="ledger"`, `id="environment"`, `id="reproduce"`} {
				if !strings.Contains(text, want) {
					t.Errorf("no %s", want)
				}
			}
		})
	}
}

// wellFormed demands that every element is closed, in order, that ids are unique, that
// nothing is loaded from elsewhere, and that no value was left out by the template as
// unsafe or unknown.
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

// Who shared the server with the results stands side by side, phase by phase; who had no
// answer in one of them has a dash there.
func TestBesideTheResults(t *testing.T) {
	tables := phaseSection(full()).Tables
	if len(tables) != 2 {
		t.Fatalf("%d tables", len(tables))
	}
	want := [][]string{{"p99 of a page, for people who list", "12.0" + nb + "ms", "–"}, {"oldest change that history did not hold yet", "400" + nb + "ms", "4.10" + nb + "s"},
		{"class web: acknowledged in time, of what was offered", "100" + nb + "%", "97.5" + nb + "%"}}
	if got := tables[1].Rows; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// The order in which a reader meets things is part of the page.
func TestStructure(t *testing.T) {
	text := render(t, full())
	wellFormed(t, text)
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.ElementNode {
			if id := attribute(n, "id"); id != "" {
				got = append(got, n.Data+" "+id)
			}
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(root)
	want := strings.Fields(`section verdict section summary section charts figure throughput figure latency figure percentiles figure saturation
		figure saturation-latency figure connections figure cpu figure memory figure queues figure queued-bytes figure commits figure commit-time figure written figure gc figure goroutines figure lag
		section cost section phases section ledger section faults section turns section messages section intent section operators section outages section loaders section refusals
		section environment section limits section log section metrics section scenario section files section reproduce`)
	var pairs []string
	for i := 0; i < len(want); i += 2 {
		pairs = append(pairs, want[i]+" "+want[i+1])
	}
	if !slices.Equal(got, pairs) {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), strings.Join(pairs, ", "))
	}
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func TestVerdict(t *testing.T) {
	good := func() *report.Report {
		return &report.Report{Valid: true, Balance: &report.Balance{Sent: 10, Acknowledged: 10, Compared: 5}, Goals: []report.Goal{{Name: "rate", Want: 1, Got: 2, Met: true}}}
	}
	for _, c := range []struct {
		what        string
		change      func(*report.Report)
		state, says string
	}{
		{"all well", func(*report.Report) {}, "passed", "The objective was reached"},
		{"nothing asked", func(r *report.Report) { r.Goals = nil }, "passed", "No objective was set"},
		{"short", func(r *report.Report) { r.Goals[0].Met = false }, "failed", "The objective was missed"},
		{"lost", func(r *report.Report) { r.Balance.Missing = 1 }, "failed", "differ"},
		{"said what is not so", func(r *report.Report) {
			r.Balance.Imbalances, r.Balance.Kinds = 1, map[string]uint64{"acknowledgements taken back": 1}
		}, "failed", "differ"},
		{"an alert too many", func(r *report.Report) { r.Faults = []report.Struck{{What: "stop 2", Alerts: 2, Extra: 1}} }, "failed", "Alerts of what went wrong: none of 2 missing, 1 too many"},
		{"a message that did not come", func(r *report.Report) { r.Notifications = &report.Notifications{Due: 2000, Missing: 1} }, "failed", "Messages about problems: 1 of 2,000 missing, none too many"},
		{"a line out of order", func(r *report.Report) { r.Streamed = &report.Streamed{Lines: 9, Disorder: 2} }, "failed", "Lines of the stream: none of 9 missing, 2 out of order"},
		{"a turn that nobody took", func(r *report.Report) { r.Turns = &report.Turned{Due: 9, Ran: 8, Missed: 1} }, "failed", "Turns: 1 of 9 missed"},
		{"called silent", func(r *report.Report) { r.Silent = &report.Silent{Machines: 9, Extra: 1} }, "failed", "Machines called silent: 1 of 9"},
		{"not as sent", func(r *report.Report) { r.Balance.Imbalances = 1 }, "failed", "differ"},
		{"for a reason that is not in the file", func(r *report.Report) { no := false; r.Passed, r.Verdict = &no, []string{"the command failed"} }, "failed", "did not go"},
		{"generator behind", func(r *report.Report) { r.Valid = false }, "invalid", "No figure below counts"},
		{"behind, and lost all the same", func(r *report.Report) { r.Valid, r.Balance.Missing = false, 3 }, "failed", "What was sent and what the server holds differ. The generator fell behind as well"},
		{"behind and short", func(r *report.Report) { r.Valid, r.Goals[0].Met = false, false }, "invalid", "No figure below counts"},
	} {
		t.Run(c.what, func(t *testing.T) {
			rep := good()
			c.change(rep)
			v := newVerdict(rep)
			if v.State != c.state || !strings.Contains(v.Because, c.says) {
				t.Errorf("%s: %s", v.State, v.Because)
			}
			if text := render(t, rep); !strings.Contains(text, fmt.Sprintf("<title>%s: ", v.Word)) || !strings.Contains(text, `class="`+c.state+`"`) {
				t.Error("the page does not say it")
			}
		})
	}
}

// What is to be typed plays the scenario as it was played: by its file, for its name would be
// scaled again, and into a folder of its own, whatever command it was that played it.
func TestToRunItAgain(t *testing.T) {
	const commit = "git checkout 0123456789abcdef\nmake build\n"
	for name, c := range map[string]struct {
		change func(*report.Report)
		want   string
		says   string
	}{
		"a scenario": {func(r *report.Report) {
			r.Command = []string{"bin/muster", "load", "size", "-f", "mine.yaml", "--out", "there"}
			r.Again = []string{"--max-lag=1s", "--server-flag=--x y"}
		}, commit + "bin/muster load run sensu-4000x40x5s-quick-played.yaml --seed 7 --max-lag=1s '--server-flag=--x y'\n", "What was typed: bin/muster load size -f mine.yaml --out there"},
		"of an older program": {func(*report.Report) {}, commit + "bin/muster load run sensu-4000x40x5s-quick-played.yaml --seed 7\n", `--title 'it'\''s here'`},
		"of a baseline":       {func(r *report.Report) { r.Command, r.Commit = nil, "" }, "muster load run sensu-4000x40x5s-quick-played.yaml --seed 7\n", "sensu-4000x40x5s-quick-played.yaml is the scenario above"},
		"without a scenario": {func(r *report.Report) {
			r.Scenario = nil
			r.Command = []string{"muster", "load", "run", "--agents", "5"}
		},
			commit + "muster load run --agents 5\n", "The seed was 7"},
	} {
		rep := full()
		c.change(rep)
		s := reproduceSection(rep)
		if len(s.Code) != 1 || s.Code[0].Text != c.want || !strings.Contains(strings.Join(s.Text, "\n"), c.says) {
			t.Errorf("%s: %+v\nwant %s\nand %s", name, s, c.want, c.says)
		}
	}
}

// Names come from files and servers; none of them becomes part of the page's own text.
func TestHostileWordsStayWords(t *testing.T) {
	const evil = `"><script>alert(1)</script><img src=//evil.example onerror=alert(1)>'`
	rep := full()
	rep.Title, rep.Label, rep.Verdict, rep.Commit, rep.Command = evil, []string{evil}, []string{evil}, evil, []string{evil}
	rep.Phases[1].Name, rep.Faults[0].What, rep.Changes[0].What, rep.Logged[0].Message, rep.Scenario.Name = evil, evil, evil, evil, evil
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

// A report of nearly nothing is a page all the same.
func TestNearlyNothing(t *testing.T) {
	wellFormed(t, render(t, &report.Report{Balance: &report.Balance{}}))
}

// Each kind of what had to come has a row of its own, and says how much of it came.
func TestWhatHadToComeHasARow(t *testing.T) {
	rep := full()
	rep.Faults[0].Missing, rep.Faults[0].Extra = 0, 0
	got := map[string]string{}
	for _, o := range objectives(rep) {
		got[o.What] = o.State + ": " + o.Got
	}
	for what, want := range map[string]string{"alerts of what went wrong": "reached: all of 10", "machines called silent": "reached: none of 200", "messages about problems": "reached: all of 900",
		"lines of the stream": "reached: all of 191,760", "turns": "reached: 4,990 of 5,000 run"} {
		if got[what] != want {
			t.Errorf("%s: %q, want %q", what, got[what], want)
		}
	}
	if n := len(objectives(&report.Report{Valid: true, Balance: &report.Balance{}})); n != 2 {
		t.Errorf("%d rows of a run that was asked for nothing", n)
	}
}
