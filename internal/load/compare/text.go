package compare

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/muster-fleet/muster/internal/load/scenario"
)

// Text writes comparisons of one base for people: the verdict first, then a row for each
// figure, regressions first, then what makes it doubtful.
func Text(w io.Writer, list []*Comparison, wide bool) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range list {
		fmt.Fprintf(out, "%s: %s\n", c.Scenario, strings.Join(c.Verdict, "\n  "))
	}
	fmt.Fprintf(out, "\n%s\n\n", sides(list))
	for _, row := range cells(list, wide) {
		fmt.Fprintln(out, strings.Join(row, "\t"))
	}
	for _, c := range list {
		if len(c.Differences) > 0 {
			fmt.Fprintf(out, "\n%s beside %s is doubtful:\n  - %s\n", c.Other.Name, c.Base.Name, strings.Join(c.Differences, "\n  - "))
		}
	}
	return out.Flush()
}

// Markdown writes the same for an issue or a pull request.
func Markdown(w io.Writer, list []*Comparison) error {
	var b strings.Builder
	for _, c := range list {
		fmt.Fprintf(&b, "**%s: %s**\n\n", c.Scenario, c.Verdict[0])
		for _, line := range c.Verdict[1:] {
			b.WriteString(line + "\n\n")
		}
	}
	b.WriteString(sides(list) + "\n\n")
	for i, row := range cells(list, false) {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	for _, c := range list {
		for _, d := range c.Differences {
			b.WriteString("\n- " + d)
		}
	}
	_, err := io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

// sides says what stands beside what.
func sides(list []*Comparison) string {
	words := []string{list[0].Base.String()}
	for _, c := range list {
		words = append(words, c.Other.String())
	}
	return strings.Join(words, " · ")
}

// String is the side in a few words.
func (s Side) String() string {
	text := fmt.Sprintf("%s: %s", s.Name, count(s.Runs, "run", "runs"))
	if len(s.Builds) > 0 {
		text += " of " + strings.Join(s.Builds, ", ")
	}
	return text
}

// cells are the table, its head first.
func cells(list []*Comparison, wide bool) [][]string {
	head := []string{"FIGURE", list[0].Base.Name}
	for _, c := range list {
		head = append(head, c.Other.Name, "CHANGE", "VERDICT")
		if wide {
			head = append(head, "P", "NOISE")
		}
	}
	if wide {
		head = append(head, "KIND", "ASKED")
	}
	table := [][]string{append(head, "WHAT IT IS")}
	for _, name := range ordered(list) {
		table = append(table, line(list, name, wide))
	}
	return table
}

// line is one figure of all.
func line(list []*Comparison, name string, wide bool) (row []string) {
	for _, c := range list {
		r, ok := c.row(name)
		switch {
		case !ok && len(row) == 0:
			row = []string{name, "–"} // the base was compared with others of them
			fallthrough
		case !ok:
			row = append(row, "–", "–", "–")
			if wide {
				row = append(row, "–", "–")
			}
			continue
		case len(row) == 0:
			row = []string{name, r.Base.text(r.Unit, wide)}
		default:
			row[1] = r.Base.text(r.Unit, wide)
		}
		row = append(row, r.Other.text(r.Unit, wide), r.Changed(), r.verdict())
		if wide {
			row = append(row, or(r.P > 0, strconv.FormatFloat(r.P, 'f', 3, 64)), or(r.Noise > 0, strconv.FormatFloat(100*r.Noise, 'f', 1, 64)+" %"))
		}
	}
	what, kind, asked := "", "", "–"
	for _, c := range list {
		if r, ok := c.row(name); ok {
			what, kind = r.Whole(), string(r.Kind)
			asked = or(r.Limit > 0, r.Asked())
		}
	}
	if wide {
		row = append(row, kind, asked)
	}
	return append(row, what)
}

// Asked is the objective, and who missed it; empty: there is none.
func (r Row) Asked() string {
	if r.Limit == 0 {
		return ""
	}
	bound := "at most "
	if r.Better == "more" {
		bound = "at least "
	}
	text := bound + (Summary{Center: r.Limit}).text(r.Unit, false)
	if r.Missed != [2]int{} && !r.Gone() {
		text += fmt.Sprintf(", missed %d/%d and %d/%d", r.Missed[0], r.Base.N, r.Missed[1], r.Other.N)
	}
	return text
}

// Whole says what the figure is, with a unit that is too long to stand beside numbers.
func (r Row) Whole() string {
	if r.Unit == scenario.Per1000 {
		return r.What + " " + r.Unit
	}
	return r.What
}

func (c *Comparison) row(name string) (Row, bool) {
	if i := slices.IndexFunc(c.Rows, func(r Row) bool { return r.Figure == name }); i >= 0 {
		return c.Rows[i], true
	}
	return Row{}, false
}

// ordered are the names of all figures: what is worse in any comparison first.
func ordered(list []*Comparison) (names []string) {
	for _, v := range ranks() {
		for _, c := range list {
			for _, r := range c.Rows {
				if r.Verdict == v && !slices.Contains(names, r.Figure) {
					names = append(names, r.Figure)
				}
			}
		}
	}
	return names
}

// verdict in a word or two.
func (r Row) verdict() string {
	if r.Verdict != Untold {
		return string(r.Verdict)
	}
	least := min(r.Base.N, r.Other.N)
	if least == 1 {
		return "one run"
	}
	return fmt.Sprintf("%d runs", least)
}

// Text is the median with its unit, and how far the interval reaches.
func (s Summary) Text(unit string) string { return s.text(unit, false) }

// text is the same; wide: with the interval itself, and the number of runs.
func (s Summary) text(unit string, wide bool) string {
	if s.N == 0 && len(s.Values) == 0 && s.Center == 0 {
		return "–"
	}
	text := number(s.Center)
	if unit != "" && unit != scenario.Per1000 {
		text += " " + unit
	}
	switch {
	case wide && s.N > 1:
		text += fmt.Sprintf(" (%s–%s, %d)", number(s.Low), number(s.High), s.N)
	case s.Confidence > 0 && s.Center != 0:
		reach := max(s.High-s.Center, s.Center-s.Low) / s.Center
		text += " ±" + strconv.FormatFloat(100*reach, 'f', 0, 64) + "%"
	}
	return text
}

// number has three digits, or all before the point: 0.0123, 1.23, 12.3, 1,234.
func number(v float64) string {
	if math.Abs(v) >= 99.95 {
		text := strconv.FormatFloat(v, 'f', 0, 64)
		for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
			text = text[:i] + "," + text[i:]
		}
		return text
	}
	digits := 1
	for a := math.Abs(v); a > 0 && a < 9.995 && digits < 6; a *= 10 {
		digits++
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// or is a dash where there is no figure.
func or(there bool, text string) string {
	if there {
		return text
	}
	return "–"
}
