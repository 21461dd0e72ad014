package compare

import (
	"fmt"
	"strings"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// Text describes a comparison for people: the verdict, then a row for each figure, regressions first, then the reasons to
// doubt it.
func (c *Comparison) Text() string {
	text := fmt.Sprintf("%s: %s\n\n%s · %s\n\n%s", c.Scenario, strings.Join(c.Verdict, "\n  "), c.Base, c.Other, report.AlignedTable(c.cells()))
	if len(c.Differences) > 0 {
		text += fmt.Sprintf("\nThis comparison is doubtful:\n  - %s\n", strings.Join(c.Differences, "\n  - "))
	}
	return text
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
func (c *Comparison) cells() [][]string {
	table := [][]string{{"FIGURE", c.Base.Name, c.Other.Name, "CHANGE", "VERDICT", "MEANING"}}
	for _, r := range c.Rows {
		verdict, what := string(r.Verdict), r.What
		switch {
		case r.Verdict == Untold:
			verdict = number.Of(min(r.Base.N, r.Other.N), "run")
		case r.Verdict == Lacking:
			verdict = "not in the baseline"
		case r.Allowed > 0:
			verdict += ", +" + number.Percent(r.Allowed) + " allowed"
		}
		if r.Unit == scenario.Per1000 {
			what += " " + r.Unit
		}
		table = append(table, []string{r.Figure, r.Base.text(r.Unit), r.Other.text(r.Unit), r.Changed(), verdict, what})
	}
	return table
}

// text returns the median with its unit and the reach of the interval.
func (s Summary) text(unit string) string {
	if s.N == 0 {
		return ""
	}
	text := number.Bare(number.Three(s.Center))
	if unit != "" && unit != scenario.Per1000 {
		text += " " + unit
	}
	if s.Confidence > 0 && s.Center != 0 {
		text += fmt.Sprintf(" ±%.0f%%", 100*max(s.High-s.Center, s.Center-s.Low)/s.Center)
	}
	return text
}
