package report

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// Text returns the findings for a terminal, without the title.
func (rep *Report) Text() string {
	f := rep.Findings()
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  %s: %s\n", f.Shape, strings.ToLower(f.Word), f.Because)
	mark := "!"
	if rep.OK() {
		mark = "·" // for information
	}
	for _, remark := range f.Remarks {
		b.WriteString("  " + mark + " " + remark + "\n")
	}
	for _, o := range f.Objectives {
		word := "reached"
		if !o.Met {
			word = "missed "
		}
		fmt.Fprintf(&b, "  %s  %s: %s, asked %s\n", word, o.What, o.Got, o.Asked)
	}
	for _, line := range append(f.Labels, f.Caveats...) {
		b.WriteString("  note     " + line + "\n")
	}
	for _, s := range f.Sections {
		if s.PageOnly {
			continue
		}
		b.WriteString("\n" + s.Title + "\n")
		for i, t := range s.Tables {
			if i > 0 {
				b.WriteString("\n")
			}
			if t.Name != "" {
				b.WriteString("  " + t.Name + "\n")
			}
			rows := t.Rows
			if len(t.Head) > 0 {
				rows = append([][]string{strings.Split(strings.ToUpper(strings.Join(t.Head, "\n")), "\n")}, rows...)
			}
			for line := range strings.Lines(AlignedTable(rows)) {
				b.WriteString("  " + line)
			}
		}
		for _, note := range s.Notes {
			b.WriteString("  " + note + "\n")
		}
	}
	return b.String()
}

// AlignedTable returns rows with aligned columns for a terminal; empty cells are dashes.
func AlignedTable(rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, joined(row, "\t"))
	}
	_ = w.Flush() // into memory
	return b.String()
}

// MarkdownTable returns rows, the head first, as a table of Markdown; empty cells are dashes.
func MarkdownTable(rows [][]string) string {
	text := ""
	for i, row := range rows {
		text += "| " + joined(row, " | ") + " |\n"
		if i == 0 {
			text += strings.Repeat("|---", len(row)) + "|\n"
		}
	}
	return text
}

// joined joins the cells of a row; empty ones are dashes.
func joined(row []string, between string) string {
	cells := make([]string, len(row))
	for i, c := range row {
		cells[i] = cmp.Or(c, "–")
	}
	return strings.Join(cells, between)
}

// tableFigures returns the columns of Markdown's second table.
func tableFigures() []string {
	return []string{"rate", "beyond-p50", "beyond-p99", "machine", "server-cpu", "loader-cpu", "gc-cpu", "allocs", "wire-bytes", "journal-bytes", "disk-bytes", "fsyncs", "server-memory", "agent-memory", "loader-memory", "state-memory", "connect", "serving", "acknowledging", "back"}
}

// Markdown reads reports into two tables, a row for each run: the objectives, then the figures.
func Markdown(files []string) (string, error) {
	var asked, all [][]string
	for _, path := range files {
		rep, err := Read(path)
		if err != nil {
			return "", err
		}
		name := rep.named(path)
		commit := fmt.Sprintf("%.10s", cmp.Or(rep.Commit, rep.Version))
		if rep.Dirty {
			commit += "+changes"
		}
		for _, o := range rep.objectives() {
			verdict := "OK"
			if !o.Met {
				verdict = "**missed**"
			}
			asked = append(asked, []string{fileName(path), o.What, o.Asked, o.Got, verdict, commit})
		}
		low, high, _ := rep.Offered()
		offered := number.Rate(low)
		if high > low {
			offered += " to " + number.Rate(high)
		}
		row := []string{name, fmt.Sprintf("%d × %d", rep.Plan.Agents, rep.Plan.Checks), offered}
		figures := rep.Figures()
		for _, name := range tableFigures() {
			cell := ""
			if v, ok := figures[name]; ok {
				f, _ := scenario.FigureOf(name)
				cell = number.In(v, f.Unit)
			}
			row = append(row, strings.TrimSuffix(cell, " "+scenario.Per1000))
		}
		all = append(all, append(row, number.Three(rep.Others), rep.Machine.Load, rep.Machine.CPU, commit))
	}
	head := append(append([]string{"run", "agents × checks", "offered/s"}, tableFigures()...), "others, cores", "load before", "processor", "commit")
	return "## Asked and measured\n\n" + MarkdownTable(append([][]string{{"run", "figure", "asked", "measured", "verdict", "commit"}}, asked...)) +
		"\n## Figures\n\nallocs and fsyncs are per 1,000 results; docs/load-reference.md names the rest.\n\n" + MarkdownTable(append([][]string{head}, all...)), nil
}

// fileName is the name of a report's file, or of its folder.
func fileName(path string) string {
	if name := strings.TrimSuffix(filepath.Base(path), ".json"); name != "run" {
		return name
	}
	return filepath.Base(filepath.Dir(path))
}

// named is the name of a run that was read from a file: its scenario or its file, then its title.
func (rep *Report) named(path string) string {
	name := fileName(path)
	if rep.Scenario != nil && rep.Scenario.Name != "" {
		name = rep.Scenario.Name
	}
	if rep.Title == "" || strings.HasPrefix(rep.Title, name) {
		return cmp.Or(rep.Title, name)
	}
	return name + ": " + rep.Title
}
