package compare

import (
	"fmt"
	"math"
	"strings"
)

// named is how many figures a sentence names.
const named = 3

// sentences say what it came to, the most important first.
func (c *Comparison) sentences() (list []string) {
	by := map[Verdict][]Row{}
	for _, r := range c.Rows {
		by[r.Verdict] = append(by[r.Verdict], r)
	}
	worse, least := by[Worse], min(c.Base.Runs, c.Other.Runs)
	switch {
	case len(c.Rows) == 0 || least == 0:
		list = append(list, "Nothing to compare: no figure was measured on both sides.")
	case len(worse) > 0:
		list = append(list, fmt.Sprintf("Regression in %s: %s; %d of %s.", c.Other.Name, changes(worse), len(worse), total(c.Rows)))
	case least < Enough:
		list = append(list, fmt.Sprintf("No verdict: %s of %s beside %s of %s; give at least %d of each, or --interleave.",
			count(c.Base.Runs, "run", "runs"), c.Base.Name, count(c.Other.Runs, "run", "runs"), c.Other.Name, Enough))
	default:
		list = append(list, fmt.Sprintf("No regression: none of %s is worse in %s.", total(c.Rows), c.Other.Name))
	}
	if len(worse) > 0 && least < Enough {
		list = append(list, fmt.Sprintf("No verdict on the rest: %d runs of each are needed.", Enough))
	}
	if better := by[Better]; len(better) > 0 {
		list = append(list, fmt.Sprintf("Better: %s.", changes(better)))
	}
	if noise := by[Noise]; len(noise) > 0 {
		list = append(list, fmt.Sprintf("Noise: %s: %s differs from itself as much.", changes(noise), c.Base.Name))
	}
	if n := len(c.Differences); n > 0 {
		list = append(list, fmt.Sprintf("Doubtful, for %s below.", count(n, "reason", "reasons")))
	}
	for _, s := range []Side{c.Base, c.Other} {
		if s.Failed > 0 {
			list = append(list, strings.TrimSuffix(fmt.Sprintf("%s of %s failed: %s", count(s.Failed, "run", "runs"), s.Name, s.Why), ": "))
		}
		if s.Stopped > 0 {
			text := fmt.Sprintf("1 run of %s was stopped", s.Name)
			if s.Stopped > 1 {
				text = fmt.Sprintf("%d runs of %s were stopped", s.Stopped, s.Name)
			}
			if s.Stopped > 1 && s.Failed == 0 {
				text += ", the first"
			}
			if s.Failed == 0 { // else it says why that was
				text += strings.TrimPrefix(s.Why, "stopped")
			}
			list = append(list, text)
		}
	}
	return list
}

// changes names the first of rows.
func changes(rows []Row) string {
	var words []string
	for _, r := range rows[:min(named, len(rows))] {
		words = append(words, r.Figure+" "+r.Changed())
	}
	if more := len(rows) - named; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, ", ")
}

// Changed is the change in words: +12 %.
func (r Row) Changed() string {
	switch {
	case isLedger(r.Figure) && r.Verdict == Same:
		return "–"
	case isLedger(r.Figure):
		return fmt.Sprintf("%.0f → %.0f", r.Base.Center, r.Other.Center)
	case r.Gone():
		return "not measured any more"
	case r.Base.Center == 0 && r.Other.Center != 0:
		return "from 0"
	case math.Abs(r.Change) < 0.0005:
		return "0 %"
	case math.Abs(r.Change) < 0.1:
		return fmt.Sprintf("%+.1f %%", 100*r.Change)
	}
	return fmt.Sprintf("%+.0f %%", 100*r.Change)
}

func total(rows []Row) string { return count(len(rows), "figure", "figures") }

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
