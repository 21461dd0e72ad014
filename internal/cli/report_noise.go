package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/model"
)

func noiseCommand(s *session) *cobra.Command {
	f := &reportFlags{}
	return s.build(command{
		use: "noise", short: "Report pages, unacknowledged problems, and checks and silences without effect",
		long: "Counts the pages (messages of opened and lasting problems) of each check and route by week, and reports\n" +
			"unacknowledged problems, their typical duration, flapping, checks that opened no problem or run nowhere,\n" +
			"and silences that are older than 30 days or match nothing.",
		example: "  muster report noise --since 30d\n  muster report noise -A --since 7d -o json",
		args:    cobra.NoArgs,
		flags:   func(flags *pflag.FlagSet) { f.declare(flags, "30d", 20) },
		check:   f.check,
		run: func(c *call) error {
			n, err := c.api.Reports.Noise(c.ctx, f.query(c))
			if err != nil {
				return err
			}
			return c.show(n, func() error { return printNoise(c, f, &n) })
		},
	})
}

// printNoise writes the sections of the report; empty ones are left out.
func printNoise(c *call, f *reportFlags, n *v1.Noise) error {
	c.Printf("%s %s", model.CountNoun(n.Pages, "page"), periodText(c, n.Since, n.Until))
	if n.Failed > 0 {
		c.Printf(", %d undelivered", n.Failed)
	}
	if n.Shadow > 0 {
		c.Printf(", %d in shadow mode", n.Shadow)
	}
	c.Printf("\n")
	printWarnings(c, n.Notes)
	if len(n.Checks) == 0 {
		c.Printf("\nno check opened a problem\n")
	}
	for _, section := range []func(*call, *reportFlags, *v1.Noise) error{noisyChecks, noisyRoutes, quietChecks, staleSilences} {
		if err := section(c, f, n); err != nil {
			return err
		}
	}
	return nil
}

// printSection writes one table of a report below its title, unless it is empty.
func printSection[T any](c *call, f *reportFlags, title string, rows []T, columns ...screen.Column[T]) error {
	if len(rows) == 0 {
		return nil
	}
	c.Printf("\n%s\n", title)
	shown, more := limited(f, rows)
	return list[T]{items: shown, columns: columns, notes: []string{moreRows(more)}}.print(c)
}

// orEmpty returns a count, and nothing for zero.
func orEmpty(n int) any {
	if n == 0 {
		return ""
	}
	return n
}

// weekText returns counts of weeks, oldest first.
func weekText(counts []int) string { return strings.Trim(fmt.Sprint(counts), "[]") }

func noisyChecks(c *call, f *reportFlags, n *v1.Noise) error {
	return printSection(c, f, "Checks with problems (UNACKED: of the closed problems, those that nobody acknowledged)", n.Checks,
		screen.Col("NAMESPACE", func(x v1.NoisyCheck) any { return x.Namespace }).If(f.all),
		screen.Col("CHECK", func(x v1.NoisyCheck) any {
			if x.Check == "" {
				return "(not kept)"
			}
			return x.Check
		}),
		screen.Col("PAGES", func(x v1.NoisyCheck) any { return orEmpty(x.Pages) }),
		screen.Col("BY WEEK", func(x v1.NoisyCheck) any { return weekText(x.PerWeek) }),
		screen.Col("REPEATS", func(x v1.NoisyCheck) any { return orEmpty(x.Reminders) }),
		screen.Col("PROBLEMS", func(x v1.NoisyCheck) any { return orEmpty(x.Problems) }),
		screen.Col("NODES", func(x v1.NoisyCheck) any { return orEmpty(x.Nodes) }),
		screen.Col("UNACKED", func(x v1.NoisyCheck) any {
			if x.Closed == 0 {
				return ""
			}
			return fmt.Sprintf("%d/%d", x.Unacked, x.Closed)
		}),
		screen.Col("TYPICAL", func(x v1.NoisyCheck) any {
			if x.Closed == 0 {
				return ""
			}
			return model.TimeSpan(time.Duration(x.Typical * float64(time.Second)))
		}),
		screen.Col("FLAPS", func(x v1.NoisyCheck) any { return orEmpty(x.Flaps) }))
}

func noisyRoutes(c *call, f *reportFlags, n *v1.Noise) error {
	return printSection(c, f, "Routes that paged people", n.Routes,
		screen.Col("ROUTE", func(x v1.NoisyRoute) any { return localName(c, x.Route) }),
		screen.Col("HANDLER", func(x v1.NoisyRoute) any { return localName(c, x.Handler) }),
		screen.Col("PAGES", func(x v1.NoisyRoute) any { return orEmpty(x.Pages) }),
		screen.Col("BY WEEK", func(x v1.NoisyRoute) any { return weekText(x.PerWeek) }),
		screen.Col("REPEATS", func(x v1.NoisyRoute) any { return orEmpty(x.Reminders) }))
}

// localName returns a name without the namespace of the report.
func localName(c *call, name string) string { return strings.TrimPrefix(name, c.ns()+"/") }

func quietChecks(c *call, f *reportFlags, n *v1.Noise) error {
	nowhere := func(x v1.QuietCheck) bool {
		return slices.ContainsFunc(n.Nowhere, func(y v1.QuietCheck) bool { return y.Namespace == x.Namespace && y.Check == x.Check })
	}
	return printSection(c, f, "Checks without problems", slices.Concat(n.Nowhere, n.Quiet),
		screen.Col("NAMESPACE", func(x v1.QuietCheck) any { return x.Namespace }).If(f.all),
		screen.Col("CHECK", func(x v1.QuietCheck) any { return x.Check }),
		screen.Col("NODES", func(x v1.QuietCheck) any { return orEmpty(x.Nodes) }),
		screen.Col("MADE", func(x v1.QuietCheck) any { return c.Ago(x.Made) }),
		screen.Col("WHAT", func(x v1.QuietCheck) any {
			switch {
			case nowhere(x):
				return "runs nowhere: muster describe check " + x.Check
			case x.Made.After(n.Since):
				return "opened no problem since it was made"
			}
			return "opened no problem"
		}))
}

func staleSilences(c *call, f *reportFlags, n *v1.Noise) error {
	return printSection(c, f, "Silences to review (muster silence end NAME)", n.Silences,
		screen.Col("NAMESPACE", func(x v1.StaleSilence) any { return x.Namespace }).If(f.all),
		screen.Col("NAME", func(x v1.StaleSilence) any { return x.Name }),
		screen.Col("BY", func(x v1.StaleSilence) any { return x.Creator }),
		screen.Col("WHY", func(x v1.StaleSilence) any { return strings.Join(x.Why, ", ") }),
		screen.Col("REASON", func(x v1.StaleSilence) any { return x.Reason }))
}
