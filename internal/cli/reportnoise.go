package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

func (a *app) noiseCmd() *cobra.Command {
	var output *format
	var p period
	var all bool
	var limit int
	c := &cobra.Command{
		Use: "noise", Short: "What called people, what nobody acted on, and what never fires",
		Long: "Counts the pages of each check and route by week: messages of problems that opened or last. Says of\n" +
			"which problems nobody acknowledged, how long they typically lasted, what flaps; which checks opened no\n" +
			"problem or run nowhere; and which silences are older than 30 days or match nothing any more.",
		Example: "  muster report noise --since 30d\n  muster report noise -A --since 7d -o json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			q := v1.ReportQuery{Namespace: a.ns()}
			if all {
				q.Namespace = ""
			}
			if q.Since, q.Until, err = p.read(a.Now()); err != nil {
				return err
			}
			n, err := client.Reports.Noise(c.Context(), q)
			if err != nil {
				return err
			}
			if output.machine() {
				return a.printValue(*output, n)
			}
			return a.printNoise(&n, all, limit, *output)
		},
	}
	output = formatFlag(c)
	p.flags(c, "30d", "")
	c.Flags().BoolVarP(&all, "all-namespaces", "A", false, "of all namespaces")
	c.Flags().IntVar(&limit, "limit", 20, "rows of each part at most (0: all)")
	return c
}

// printNoise shows one part after the other; those with nothing in them as one line.
func (a *app) printNoise(n *v1.Noise, all bool, limit int, f format) error {
	fmt.Fprintf(a.Stdout, "%s %s", model.CountNoun(n.Pages, "page"), a.fromTo(n.Since, n.Until))
	if n.Failed > 0 {
		fmt.Fprintf(a.Stdout, ", %d that no handler took", n.Failed)
	}
	if n.Shadow > 0 {
		fmt.Fprintf(a.Stdout, ", %d only shown (shadow)", n.Shadow)
	}
	fmt.Fprintln(a.Stdout)
	a.printNotes(n.Notes)
	for _, part := range []func(*v1.Noise, bool, int, format) error{a.noisyChecks, a.noisyRoutes, a.quietChecks, a.staleSilences} {
		if err := part(n, all, limit, f); err != nil {
			return err
		}
	}
	return nil
}

// part prints one table of a report with its heading.
func (a *app) part(title string, t *table, rows, limit int, f format) error {
	fmt.Fprintf(a.Stdout, "\n%s\n", title)
	if err := t.write(a.narrow(f)); err != nil {
		return err
	}
	if limit > 0 && rows > limit {
		fmt.Fprintf(a.Stdout, "%d more: --limit 0 shows all\n", rows-limit)
	}
	return nil
}

// upTo is how many of n rows are shown.
func upTo(limit, n int) int {
	if limit > 0 {
		return min(limit, n)
	}
	return n
}

// named is a heading or row with the namespace before it, if many are looked at.
func named[T any](all bool, namespace T, rest ...T) []T {
	if all {
		return append([]T{namespace}, rest...)
	}
	return rest
}

// byWeek is how many pages there were in each week, the oldest first.
func byWeek(n []int) string {
	words := make([]string, len(n))
	for i := range n {
		words[i] = fmt.Sprint(n[i])
	}
	return strings.Join(words, " ")
}

func (a *app) noisyChecks(n *v1.Noise, all bool, limit int, f format) error {
	if len(n.Checks) == 0 {
		fmt.Fprintln(a.Stdout, "\nno check opened a problem")
		return nil
	}
	t := newTable(named(all, "NAMESPACE", "CHECK", "PAGES", "BY WEEK", "REPEATS", "PROBLEMS", "NODES", "UNACKED", "TYPICAL", "FLAPS")...)
	for _, c := range n.Checks[:upTo(limit, len(n.Checks))] {
		unacked, typical := "–", "–"
		if c.Closed > 0 {
			unacked, typical = fmt.Sprintf("%d/%d", c.Unacked, c.Closed), model.TimeSpan(time.Duration(c.Typical*float64(time.Second)))
		}
		name := c.Check
		if name == "" {
			name = "(not kept)"
		}
		t.add(named[any](all, c.Namespace, name, orDash(c.Pages), byWeek(c.PerWeek), orDash(c.Reminders), orDash(c.Problems), orDash(c.Nodes), unacked, typical, orDash(c.Flaps))...)
	}
	return a.part("What fired (UNACKED: problems that closed without an acknowledgement, of those that closed)", t, len(n.Checks), limit, f)
}

func (a *app) noisyRoutes(n *v1.Noise, _ bool, limit int, f format) error {
	if len(n.Routes) == 0 {
		return nil
	}
	t := newTable("ROUTE", "HANDLER", "PAGES", "BY WEEK", "REPEATS")
	for _, r := range n.Routes[:upTo(limit, len(n.Routes))] {
		t.add(a.here(r.Route), a.here(r.Handler), orDash(r.Pages), byWeek(r.PerWeek), orDash(r.Reminders))
	}
	return a.part("Who was called", t, len(n.Routes), limit, f)
}

func (a *app) quietChecks(n *v1.Noise, all bool, limit int, f format) error {
	rows := slices.Concat(n.Nowhere, n.Quiet)
	if len(rows) == 0 {
		return nil
	}
	t := newTable(named(all, "NAMESPACE", "CHECK", "NODES", "MADE", "WHAT")...)
	for i, c := range rows[:upTo(limit, len(rows))] {
		what := "opened no problem"
		switch {
		case i < len(n.Nowhere):
			what = "runs nowhere: muster describe check " + c.Check
		case c.Made.After(n.Since):
			what += " since it was made"
		}
		t.add(named[any](all, c.Namespace, c.Check, orDash(c.Nodes), model.Age(a.Now(), c.Made)+" ago", what)...)
	}
	return a.part("What never fired", t, len(rows), limit, f)
}

func (a *app) staleSilences(n *v1.Noise, all bool, limit int, f format) error {
	if len(n.Silences) == 0 {
		return nil
	}
	t := newTable(named(all, "NAMESPACE", "NAME", "BY", "WHY", "REASON")...)
	for _, s := range n.Silences[:upTo(limit, len(n.Silences))] {
		t.add(named[any](all, s.Namespace, s.Name, s.Creator, strings.Join(s.Why, ", "), s.Reason)...)
	}
	return a.part("Silences to look at (muster silence end NAME)", t, len(n.Silences), limit, f)
}
