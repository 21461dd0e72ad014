package page

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// environmentSection is what the run depended on.
func environmentSection(rep *report.Report) section {
	m := rep.Machine
	commit := rep.Commit
	if rep.Dirty {
		commit += ", with changes that are not in it"
	}
	cores := ""
	if m.Cores > 0 {
		cores = fmt.Sprint(m.Cores)
	}
	memory := ""
	if m.Memory > 0 {
		memory = size(float64(m.Memory))
	}
	e := rep.Environment
	if e == nil {
		e = &report.Environment{}
	}
	fsync := ""
	if f := e.Fsync; f.Max > 0 {
		fsync = fmt.Sprintf("p50 %s, p99 %s, slowest %s, measured before the run with appends of 4 kB", millis(f.P50), millis(f.P99), millis(f.Max))
	}
	s := section{ID: "environment", Title: "Where it ran"}
	s.Tables = pairs("", "Processor", m.CPU, "Cores", cores, "Memory", memory, "Kernel", m.Kernel, "Virtual", e.Virtual, "Load before the run", m.Load,
		"File system", e.FileSystem, "Device", e.Device, "fsync", fsync, "Muster", rep.Version, "Commit", commit, "Go", m.Go).list()
	s.Tables = append(s.Tables, ofMap("Server", e.Server).list()...)
	s.Tables = append(s.Tables, ofMap("Other programs", e.Packages).list()...)
	if rep.Others > 0 {
		s.Text = []string{fmt.Sprintf("Others used %s cores of the machine meanwhile.", figures(rep.Others))}
	}
	return s
}

// limitSection is what bounded the run.
func limitSection(rep *report.Report) section {
	s := section{ID: "limits", Title: "Limits of the machine", Folded: true}
	if e := rep.Environment; e != nil {
		s.Tables = ofMap("", e.Limits).list()
	}
	return s
}

func logSection(rep *report.Report) section {
	t := newTable("", "the server said", "'level", "times")
	for _, l := range rep.Logged {
		t.add(l.Message, l.Level, count(float64(l.Count)))
	}
	return section{ID: "log", Title: "The server's log, counted", Tables: t.list()}
}

func metricsSection(rep *report.Report) section {
	t := newTable("", "metric", "value")
	for _, name := range slices.Sorted(maps.Keys(rep.Metrics)) {
		t.add(name, figures(rep.Metrics[name]))
	}
	s := section{ID: "metrics", Title: "The server's metrics", Tables: t.list(), Folded: true}
	if len(s.Tables) > 0 {
		s.Text = []string{"Counters: what they gained over the measured time. Gauges: where they stood at its end."}
	}
	return s
}

// scenarioSection is the scenario as it was played, in the form of its file.
func scenarioSection(rep *report.Report) (section, error) {
	if rep.Scenario == nil {
		return section{}, nil
	}
	data, err := json.Marshal(rep.Scenario.File())
	if err != nil {
		return section{}, fmt.Errorf("encode the scenario: %w", err)
	}
	text, err := document.YAML(data)
	if err != nil {
		return section{}, fmt.Errorf("encode the scenario: %w", err)
	}
	s := section{ID: "scenario", Title: "The scenario, as it was played", Code: []code{{"", string(text)}}}
	if a := rep.Scenario.Answers; a != "" {
		s.Text = []string{"It answers: " + a}
	}
	return s, nil
}

// fileSection links what lies beside the page.
func fileSection(rep *report.Report) section {
	s := section{ID: "files", Title: "Beside this page"}
	for _, name := range slices.Sorted(maps.Keys(rep.Files)) {
		s.Links = append(s.Links, note{name, rep.Files[name]})
	}
	return s
}

// reproduceSection is what to type to have this run again. Of a scenario it is the file as it
// was played, and no name: that would be scaled once more, and whoever sized, compared or
// checked played several.
func reproduceSection(rep *report.Report) section {
	var b strings.Builder
	if rep.Commit != "" {
		fmt.Fprintf(&b, "git checkout %s\nmake build\n", quote(rep.Commit))
	}
	words := rep.Command
	if sc := rep.Scenario; sc != nil {
		words = append([]string{program(rep), "load", "run", playedFile(sc), "--seed", strconv.FormatUint(sc.Seed, 10)}, rep.Again...)
	}
	if len(words) > 0 {
		b.WriteString(typed(words) + "\n")
	}
	if b.Len() == 0 {
		return section{}
	}
	s := section{ID: "reproduce", Title: "To run it again", Code: []code{{"", b.String()}}}
	if rep.Dirty {
		s.Text = append(s.Text, "What was measured was built with changes that are not in the commit.")
	}
	if sc := rep.Scenario; sc != nil {
		s.Text = append(s.Text, fmt.Sprintf("%s is the scenario above, saved as a file: as large as it was played, with the same seed.", playedFile(sc)))
		if len(rep.Command) > 0 {
			s.Text = append(s.Text, "What was typed: "+typed(rep.Command))
		}
		return s
	}
	s.Text = append(s.Text, fmt.Sprintf("The seed was %d: the same nodes, the same timetable.", rep.Plan.Seed))
	return s
}

// program is the one that was called.
func program(rep *report.Report) string {
	if len(rep.Command) > 0 {
		return rep.Command[0]
	}
	return "muster"
}

// playedFile is what the scenario as it was played is saved as: not the file that it came from.
func playedFile(sc *scenario.Scenario) string { return cmp.Or(sc.Name, "scenario") + "-played.yaml" }

// typed is a command for a shell.
func typed(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quote(w)
	}
	return strings.Join(quoted, " ")
}

// quote writes a word for a shell.
func quote(w string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("@%+=:,./_-", r)
	}
	if w != "" && strings.IndexFunc(w, func(r rune) bool { return !safe(r) }) < 0 {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
