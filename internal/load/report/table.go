package report

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Table reads reports (run.json) into Markdown: what was asked beside what was
// measured, then all figures, a row for each run.
func Table(files []string) (string, error) {
	var asked, all, steps, disk strings.Builder
	for _, path := range files {
		rep, err := Read(path)
		if err != nil {
			return "", err
		}
		rep.Title = rep.named(path)
		rep.askedRows(&asked)
		rep.row(&all)
		rep.stepRows(&steps)
		rep.diskRow(&disk)
	}
	out := section("Asked and measured", asked.String(), "run", "figure", "asked", "measured", "", "commit")
	out += section("All figures", all.String(), "run", "agents × checks", "offered/s", "acknowledged/s", "per frame", "results per commit", "frames per read",
		"fsyncs/s", "p50 / p99 beyond linger, ms", "lag p99, ms", "server cores, µs/result", "loader cores, µs/result", "others, cores", "server MiB",
		"kB/agent", "loader's kB and goroutines/agent", "connect, s", "serving / acknowledging / back after, s", "B/state", "ledger", "load before", "commit")
	out += section("Steps", steps.String(), "run", "phase", "offered/s", "acknowledged/s", "p50 / p99 beyond linger, ms", "server cores, µs/result", "loader cores", "")
	out += section("Written to disk", disk.String(), "run", "results/s", "bytes per result", "GB per day", "journal, bytes per result", "snapshots, bytes per result")
	return out, nil
}

// named is what a row calls a run that was read from a file: its scenario, or the file, as a command
// names it, then its title.
func (rep *Report) named(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".json")
	if name == "run" { // of a report's folder
		name = filepath.Base(filepath.Dir(path))
	}
	if rep.Scenario != nil && rep.Scenario.Name != "" {
		name = rep.Scenario.Name
	}
	if rep.Title == "" || strings.HasPrefix(rep.Title, name) {
		return cmp.Or(rep.Title, name)
	}
	return name + ": " + rep.Title
}

// section is a heading and a table; nothing without rows.
func section(title, rows string, columns ...string) string {
	if rows == "" {
		return ""
	}
	return "## " + title + "\n\n| " + strings.Join(columns, " | ") + " |\n" + strings.Repeat("|---", len(columns)) + "|\n" + rows + "\n"
}

func row(b *strings.Builder, cells ...string) {
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

func (rep *Report) askedRows(b *strings.Builder) {
	for _, g := range rep.Goals {
		what, asked, got := g.Words()
		verdict := "OK"
		switch {
		case !rep.Valid || rep.Lost():
			verdict = "**the run failed**"
		case !g.Met:
			verdict = "**short**"
		}
		row(b, rep.Title, what, asked, got, verdict, rep.commit())
	}
}

// commit is what was measured, as short as git shows it.
func (rep *Report) commit() string {
	c := rep.Commit
	if c == "" {
		c = rep.Version
	}
	if c = c[:min(len(c), 10)]; rep.Dirty {
		c += "+changes"
	}
	return c
}

func (rep *Report) row(b *strings.Builder) {
	p := rep.Plan
	f := func(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }
	agents := fmt.Sprintf("%d × %d", p.Agents, p.Checks)
	commits, frames, syncs := "–", "–", "–"
	if c := rep.Calls; c != nil {
		commits, frames, syncs = f(c.ResultsPerCommit, 0), f(c.FramesPerRead, 2), f(c.Syncs, 0)
	}
	session := "–" // not known where the server gave memory back while agents came
	if rep.SessionBytes > 0 {
		session = f(rep.SessionBytes/1000, 1)
	}
	states := "–"
	if rep.StateBytes > 0 {
		states = f(rep.StateBytes, 0)
	}
	cores := func(u Usage) string {
		if u.Cores == 0 {
			return "–"
		}
		return f(u.Cores, 2) + ", " + f(u.MicrosPerItem, 1)
	}
	offered := f(p.Offered, 0)
	if n := len(rep.stepped()); n > 0 {
		offered += " to " + f(rep.stepped()[n-1].Offered, 0) + ", see Steps"
	}
	row(b, rep.Title, agents, offered, f(rep.Rate, 0), f(rep.Batch.Mean, 1), commits, frames, syncs,
		f(rep.BeyondLinger.P50, 1)+" / "+f(rep.BeyondLinger.P99, 1), f(rep.Lag.P99, 1), cores(rep.Server), cores(rep.Loader), f(rep.Others, 2),
		f(float64(rep.Server.RSS>>20), 0), session, rep.eachAgent(), f(rep.ConnectSeconds, 1), rep.outages(), states, rep.ledger(), rep.Machine.Load, rep.commit())
}

// stepped are the phases that looked for the end.
func (rep *Report) stepped() (list []Played) {
	for i := range rep.Phases {
		if rep.Phases[i].Kind == KindStep {
			list = append(list, rep.Phases[i])
		}
	}
	return list
}

// stepRows are the curve of a run that looked for the end.
func (rep *Report) stepRows(b *strings.Builder) {
	f := func(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }
	for _, p := range rep.stepped() {
		verdict := "held"
		if len(p.Missed) > 0 {
			verdict = "**" + strings.Join(p.Missed, "; ") + "**"
		}
		row(b, rep.Title, p.Name, f(p.Offered, 0), f(p.Acknowledged, 0), f(p.BeyondLinger.P50, 1)+" / "+f(p.BeyondLinger.P99, 1), f(p.Server.Cores, 2)+", "+f(p.Server.MicrosPerItem, 1), f(p.Loader.Cores, 2), verdict)
	}
}

// eachAgent is what one takes on the loader. Reports without goroutines measured it otherwise.
func (rep *Report) eachAgent() string {
	if rep.AgentBytes <= 0 || rep.Goroutines <= 0 {
		return "–"
	}
	return strconv.FormatFloat(rep.AgentBytes/1000, 'f', 1, 64) + ", " + strconv.FormatFloat(rep.Goroutines, 'f', 1, 64)
}

// outages is the worst one.
func (rep *Report) outages() string {
	if len(rep.Outages) == 0 {
		return "–"
	}
	worst := rep.Outages[0]
	for _, o := range rep.Outages[1:] {
		if worst.Seconds >= 0 && (o.Seconds < 0 || o.Seconds > worst.Seconds) {
			worst = o
		}
	}
	f := func(v float64) string {
		switch {
		case v < 0:
			return "not"
		case v == 0:
			return "–"
		}
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return f(worst.Serving) + " / " + f(worst.Acked) + " / " + f(worst.Seconds)
}

func (rep *Report) ledger() string {
	text := "balanced"
	for _, w := range rep.Wrong() {
		if w.Kind == WrongResults {
			text = fmt.Sprintf("**%d missing, %d differ**", rep.Balance.Missing, rep.Balance.Imbalances)
		} else {
			text += fmt.Sprintf("; **%d of %s wrong**", w.Count, w.Kind)
		}
	}
	if text == "balanced" && !rep.Valid {
		text += "; **generator behind**"
	}
	return text
}

func (rep *Report) diskRow(b *strings.Builder) {
	d := rep.Disk
	if d == nil || rep.Results == 0 {
		return
	}
	each := func(bytes int64) string { return strconv.FormatFloat(float64(bytes)/float64(rep.Results), 'f', 0, 64) }
	row(b, rep.Title, strconv.FormatFloat(rep.Rate, 'f', 0, 64), each(d.Written), strconv.FormatFloat(d.PerDay/1e9, 'f', 1, 64), each(d.Journal), each(d.Snapshots))
}
