package compare

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// Text writes a comparison for people: the verdict, then a row for each figure, regressions first, then the reasons to
// doubt it.
func (c *Comparison) Text(w io.Writer, wide bool) error {
	text := fmt.Sprintf("%s: %s\n\n%s · %s\n\n%s", c.Scenario, strings.Join(c.Verdict, "\n  "), c.Base, c.Other, report.AlignedTable(c.cells(wide)))
	if len(c.Differences) > 0 {
		text += fmt.Sprintf("\nThis comparison is doubtful:\n  - %s\n", strings.Join(c.Differences, "\n  - "))
	}
	_, err := io.WriteString(w, text)
	return err
}

// Markdown writes the same for an issue or a pull request.
func (c *Comparison) Markdown(w io.Writer) error {
	text := fmt.Sprintf("**%s: %s**\n\n%s · %s\n\n%s", c.Scenario, strings.Join(c.Verdict, " "), c.Base, c.Other, report.MarkdownTable(c.cells(false)))
	for _, d := range c.Differences {
		text += "\n- " + d
	}
	_, err := io.WriteString(w, strings.TrimRight(text, "\n")+"\n")
	return err
}

// String names the side with its runs and builds.
func (s Side) String() string {
	text := s.Name + ": " + number.Of(s.Runs, "run")
	if len(s.Builds) > 0 {
		text += " of " + strings.Join(s.Builds, ", ")
	}
	if s.Invalid > 0 {
		text += fmt.Sprintf(", and %d left out: the generator fell behind", s.Invalid)
	}
	return text
}

// cells returns the table, its head first.
func (c *Comparison) cells(wide bool) [][]string {
	head := []string{"FIGURE", c.Base.Name, c.Other.Name, "CHANGE", "VERDICT"}
	if wide {
		head = append(head, "P", "KIND")
	}
	table := [][]string{append(head, "MEANING")}
	for _, r := range c.Rows {
		verdict, what := string(r.Verdict), r.What
		if r.Verdict == Untold {
			verdict = number.Of(min(r.Base.N, r.Other.N), "run")
		}
		if r.Unit == scenario.Per1000 {
			what += " " + r.Unit
		}
		row := []string{r.Figure, r.Base.text(r.Unit, wide), r.Other.text(r.Unit, wide), r.Changed(), verdict}
		if wide {
			p := ""
			if r.P > 0 {
				p = strconv.FormatFloat(r.P, 'f', 3, 64)
			}
			row = append(row, p, string(r.Kind))
		}
		table = append(table, append(row, what))
	}
	return table
}

// text returns the median with its unit and the reach of the interval; wide: with the interval itself, and the number
// of runs.
func (s Summary) text(unit string, wide bool) string {
	text := number.Bare(number.Three(s.Center))
	if unit != "" && unit != scenario.Per1000 {
		text += " " + unit
	}
	switch {
	case wide && s.N > 1:
		text += fmt.Sprintf(" (%s–%s, %d)", number.Bare(number.Three(s.Low)), number.Bare(number.Three(s.High)), s.N)
	case s.Confidence > 0 && s.Center != 0:
		text += fmt.Sprintf(" ±%.0f%%", 100*max(s.High-s.Center, s.Center-s.Low)/s.Center)
	}
	return text
}
