package compare

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// Text writes a comparison for people: the verdict first, then a row for each figure, regressions first, then the
// reasons to doubt it.
func (c *Comparison) Text(w io.Writer, wide bool) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "%s: %s\n\n%s · %s\n\n", c.Scenario, strings.Join(c.Verdict, "\n  "), c.Base, c.Other)
	for _, row := range c.cells(wide) {
		fmt.Fprintln(out, strings.Join(row, "\t"))
	}
	if len(c.Differences) > 0 {
		fmt.Fprintf(out, "\nThis comparison is doubtful:\n  - %s\n", strings.Join(c.Differences, "\n  - "))
	}
	return out.Flush()
}

// Markdown writes the same for an issue or a pull request.
func (c *Comparison) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s: %s**\n\n%s · %s\n\n", c.Scenario, strings.Join(c.Verdict, " "), c.Base, c.Other)
	for i, row := range c.cells(false) {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	for _, d := range c.Differences {
		b.WriteString("\n- " + d)
	}
	_, err := io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

// String names the side with its runs and builds.
func (s Side) String() string {
	text := fmt.Sprintf("%s: %s", s.Name, count(s.Runs, "run"))
	if len(s.Builds) > 0 {
		text += " of " + strings.Join(s.Builds, ", ")
	}
	if s.Invalid > 0 {
		text += fmt.Sprintf(", and %d left out: the generator fell behind", s.Invalid)
	}
	return text
}

// cells are the table, its head first.
func (c *Comparison) cells(wide bool) [][]string {
	head := []string{"FIGURE", c.Base.Name, c.Other.Name, "CHANGE", "VERDICT"}
	if wide {
		head = append(head, "P", "NOISE", "KIND")
	}
	table := [][]string{append(head, "MEANING")}
	for _, r := range c.Rows {
		verdict, what := string(r.Verdict), r.What
		if r.Verdict == Untold {
			verdict = count(min(r.Base.N, r.Other.N), "run")
		}
		if r.Unit == scenario.Per1000 {
			what += " " + r.Unit
		}
		row := []string{r.Figure, r.Base.text(r.Unit, wide), r.Other.text(r.Unit, wide), r.Changed(), verdict}
		if wide {
			row = append(row, dash(r.P > 0, strconv.FormatFloat(r.P, 'f', 3, 64)), dash(r.Noise > 0, strconv.FormatFloat(100*r.Noise, 'f', 1, 64)+" %"), string(r.Kind))
		}
		table = append(table, append(row, what))
	}
	return table
}

// text is the median with its unit and the reach of the interval; wide: with the interval itself, and the number of runs.
func (s Summary) text(unit string, wide bool) string {
	if s.N == 0 {
		return "–"
	}
	text := number.Bare(number.Three(s.Center))
	if unit != "" && unit != scenario.Per1000 {
		text += " " + unit
	}
	switch {
	case wide && s.N > 1:
		text += fmt.Sprintf(" (%s–%s, %d)", number.Bare(number.Three(s.Low)), number.Bare(number.Three(s.High)), s.N)
	case s.Confidence > 0 && s.Center != 0:
		reach := max(s.High-s.Center, s.Center-s.Low) / s.Center
		text += " ±" + strconv.FormatFloat(100*reach, 'f', 0, 64) + "%"
	}
	return text
}

func dash(there bool, text string) string {
	if there {
		return text
	}
	return "–"
}
