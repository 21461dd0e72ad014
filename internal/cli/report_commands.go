package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

// reportFlags holds the flags that all reports share.
type reportFlags struct {
	listFlags
	period       timeRange
	since, until time.Time
}

// registerFlags adds the flags that all reports share.
func (f *reportFlags) registerFlags(flags *pflag.FlagSet, since string, rows int) {
	f.period.registerFlags(flags, since, "")
	f.registerLimit(flags, rows)
}

// validate parses the flags --since and --until and returns an error for an invalid period
func (f *reportFlags) validate(c *commandCall) (err error) {
	f.since, f.until, err = f.period.parseTimes(c.commandLine)
	return err
}

// buildQuery returns the query of a report with namespace, condition and period.
func (f *reportFlags) buildQuery(c *commandCall) v1.ReportQuery {
	return v1.ReportQuery{Namespace: c.listNamespace(), Where: f.Where, Since: f.since, Until: f.until}
}

// cutRows returns the rows up to the limit, and the number of rows behind the limit. Zero is no limit.
func cutRows[T any](limit int, rows []T) ([]T, int) {
	if limit <= 0 || len(rows) <= limit {
		return rows, 0
	}
	return rows[:limit], len(rows) - limit
}

// cutRowsText returns the line with the number of rows that --limit cut off, below a table
func cutRowsText(n int) string {
	return textIf(n != 0, fmt.Sprintf("%d more: --limit 0 shows all", n))
}

// minuteFormat formats a time without its seconds.
const minuteFormat = "2006-01-02 15:04"

// reportPeriodText formats the period of a report, such as "from TIME to TIME"
func reportPeriodText(c *commandCall, since, until time.Time) string {
	return fmt.Sprintf("from %s to %s", since.In(c.Zone).Format(minuteFormat), until.In(c.Zone).Format(minuteFormat))
}

// printReportGaps prints the notes about times and notifications for which a report has no data
func printReportGaps(c *commandCall, notes []string) {
	for _, note := range notes {
		c.Printf("! %s\n", note)
	}
}

var availabilityUnits = []string{"event", "node", "check", "group"}

// availabilityFlags holds the flags of muster report availability.
type availabilityFlags struct {
	reportFlags
	check, group, by string
}

// availabilityCommand makes the command muster report availability.
func availabilityCommand(s *commandLine) *cobra.Command {
	f := &availabilityFlags{}
	c := s.buildCommand(command{
		use: "availability [NODE[/CHECK]]", short: "Report how long events were in each status, worst first",
		args: cobra.MaximumNArgs(1), complete: s.completeEvents,
		flags: func(flags *pflag.FlagSet) {
			f.registerFlags(flags, "24h", 50)
			flags.StringVar(&f.check, "check", "", "events of this check")
			flags.StringVar(&f.group, "group", "", "events of nodes in this group")
			f.registerSelector(flags, "events of nodes with these labels")
			f.registerWhere(flags, "row (an event, as -o json --by event shows it) and node: row.critical > 3600")
			flags.StringVar(&f.by, "by", "event", "unit of a row: "+strings.Join(availabilityUnits, ", "))
		},
		check: func(c *commandCall) error {
			if !slices.Contains(availabilityUnits, f.by) {
				return model.Errorf(model.Invalid, "--by: unknown value %q", f.by).WithHint("one of: %s", strings.Join(availabilityUnits, ", "))
			}
			return f.reportFlags.validate(c)
		},
		run: func(c *commandCall) error {
			namespace, err := c.cutNamespacePrefix(&f.group, &f.check)
			if err != nil {
				return err
			}
			q := v1.AvailabilityQuery{Namespace: namespace, Check: f.check, Group: f.group, Selector: f.Selector, Where: f.Where, Since: f.since, Until: f.until}
			if len(c.args) == 1 {
				n, err := c.findNodeOrEventOfList(c.args[0])
				if err != nil {
					return err
				}
				q.Namespace, q.Node, q.Check = n.namespace, n.node, cmp.Or(n.check, f.check)
			}
			if f.by == "group" {
				return reportGroupAvailability(c, f, q)
			}
			l, err := readAvailability(c, q)
			if err != nil {
				return err
			}
			l.Items = sumAvailability(l.Items, f.by)
			return printAvailability(c, f, l)
		},
	})
	_ = c.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(availabilityUnits, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// readAvailability reads the availability of all events, page by page. The first page fixes the end of the period
// for the other pages.
func readAvailability(c *commandCall, q v1.AvailabilityQuery) (l v1.AvailabilityList, err error) {
	l.Items, _, err = client.Pages(0, func(_ int, after string) ([]v1.Availability, string, error) {
		q.After = after
		page, err := c.api.Reports.Availability(c.ctx, q)
		if after == "" {
			l.Until, q.Until = page.Until, page.Until
		}
		l.Since = page.Since
		return page.Items, page.Next, err
	})
	return l, err
}

// sumAvailability adds up the availability of events by node or by check. The rows are sorted, the worst first.
func sumAvailability(items []v1.Availability, by string) []v1.Availability {
	type key struct {
		namespace, node, check string
		gone                   time.Time // a deleted node and a new one of its name are two rows
	}
	rows, index := []v1.Availability{}, map[key]int{}
	for _, one := range items {
		switch by {
		case "node":
			one.Check, one.Source = "", v1.Source{}
		case "check":
			one.Node, one.DeletedAt = "", time.Time{}
		}
		k := key{one.Namespace, one.Node, one.Check, one.DeletedAt}
		if i, ok := index[k]; ok {
			rows[i].Add(one)
			continue
		}
		index[k] = len(rows)
		rows = append(rows, one)
	}
	share := func(x v1.Availability) float64 {
		if x.Covered() == 0 {
			return 2 // rows without any known time come last
		}
		return x.Available() / x.Covered()
	}
	slices.SortFunc(rows, func(x, y v1.Availability) int {
		return cmp.Or(cmp.Compare(share(x), share(y)), cmp.Compare(y.Critical, x.Critical), cmp.Compare(x.Namespace, y.Namespace),
			cmp.Compare(x.Node, y.Node), cmp.Compare(x.Check, y.Check))
	})
	return rows
}

// printAvailability prints the table of muster report availability.
func printAvailability(c *commandCall, f *availabilityFlags, l v1.AvailabilityList) error {
	var total v1.Availability
	for _, x := range l.Items {
		total.Add(x)
	}
	duration := func(seconds float64) any {
		return screen.ValueIf(seconds != 0, exactDurationText(seconds))
	}
	rows, more := cutRows(f.limit, l.Items)
	var notes []string
	if len(rows) > 0 {
		notes = []string{cutRowsText(more), availabilityTotalText(c, total, l)}
	}
	return listOutput[v1.Availability]{
		value: l, items: rows, empty: "no events match", notes: notes,
		columns: screen.SplitColumns("NAMESPACE|NODE|CHECK|AVAILABLE|WARNING|CRITICAL|UNKNOWN|NO RESULT|CHANGES").
			HideUnless(c.allNamespaces, "NAMESPACE").HideUnless(f.by != "check", "NODE").HideUnless(f.by != "node", "CHECK"),
		row: func(x v1.Availability) []any {
			return []any{
				x.Namespace, nodeNameOrDeleted(x.Node, x.DeletedAt), x.Check, availablePercent(x),
				duration(x.Warning), duration(x.Critical), duration(x.Unknown), duration(x.WithoutData), x.Changes,
			}
		},
	}.print(c)
}

// exactDurationText formats seconds as a duration that is exact to the second. The rows of a report so add up to its total.
func exactDurationText(seconds float64) string {
	span, days := (time.Duration(seconds * float64(time.Second))).Round(time.Second), ""
	if n := span / (24 * time.Hour); n > 0 && span%(24*time.Hour) != 0 {
		span, days = span-n*24*time.Hour, model.Duration(n*24*time.Hour).String()
	}
	return days + model.Duration(span).String()
}

// availabilityTotalText returns the last line of the availability report. It has the availability of all rows
// together, and the period.
func availabilityTotalText(c *commandCall, total v1.Availability, l v1.AvailabilityList) string {
	period := fmt.Sprintf("from %s to %s", c.DateAndTime(l.Since), c.DateAndTime(l.Until))
	if total.Covered() == 0 {
		return "no event has results " + period
	}
	return fmt.Sprintf("%s in total, of %s with results%s, %s", availablePercent(total), exactDurationText(total.Covered()),
		textIf(total.WithoutData > 0, "; "+exactDurationText(total.WithoutData)+" without results do not count"), period)
}

// reportGroupAvailability prints the availability of whole groups of nodes.
func reportGroupAvailability(c *commandCall, f *availabilityFlags, q v1.AvailabilityQuery) error {
	if q.Node != "" || f.hasFilter() {
		return model.Errorf(model.Invalid, "--by group reports whole groups: it cannot be combined with --node, -l or --where").WithHint("muster report availability --by group --check %s", cmp.Or(q.Check, "http"))
	}
	l, err := c.api.Reports.GroupAvailability(c.ctx, q)
	if err != nil {
		return err
	}
	rows, more := cutRows(f.limit, l.Items)
	var notes []string
	if len(rows) > 0 {
		condition := "all its events are"
		if q.Check != "" {
			condition = q.Check + " is"
		}
		notes = []string{cutRowsText(more), fmt.Sprintf("%s; a node is up while %s OK or WARNING", reportPeriodText(c, l.Since, l.Until), condition)}
	}
	return listOutput[v1.GroupAvailability]{
		value: l, items: rows, empty: "no group has nodes with matching events", notes: notes,
		columns: screen.SplitColumns("NAMESPACE|GROUP|NODES|MEAN|WORST|WORST NODE|ALL UP|ANY UP").HideUnless(c.allNamespaces, "NAMESPACE"),
		row: func(g v1.GroupAvailability) []any {
			up := func(share float64) any { return screen.ValueIf(g.Nodes != 0, availabilityPercentText(share)) }
			return []any{g.Namespace, g.Group, g.Nodes, up(g.Mean), up(g.Worst), g.WorstNode, up(g.AllUp), up(g.AnyUp)}
		},
	}.print(c)
}

// availablePercent formats the percentage of time in which an event was available (OK or WARNING)
func availablePercent(x v1.Availability) string {
	if x.Covered() == 0 {
		return "-"
	}
	return availabilityPercentText(x.Available() / x.Covered())
}

// availabilityPercentText formats a ratio as a percentage, rounded down so that only full availability shows 100 %
func availabilityPercentText(share float64) string {
	return fmt.Sprintf("%.3f %%", float64(int64(share*100_000))/1000)
}

// noiseCommand makes the command muster report noise. The report lists checks and routes with the most problems and
// messages.
func noiseCommand(s *commandLine) *cobra.Command {
	f := &reportFlags{}
	return s.buildCommand(command{
		use: "noise", short: "Report pages, unacknowledged problems, and checks and silences without effect",
		args:  cobra.NoArgs,
		flags: func(flags *pflag.FlagSet) { f.registerFlags(flags, "30d", 20) },
		check: f.validate,
		run: func(c *commandCall) error {
			n, err := c.api.Reports.Noise(c.ctx, f.buildQuery(c))
			if err != nil {
				return err
			}
			if c.Format.IsForPrograms() {
				return c.WriteValue(n)
			}
			return printNoise(c, f, &n)
		},
	})
}

// printNoise prints the non-empty sections of the noise report
func printNoise(c *commandCall, f *reportFlags, n *v1.Noise) error {
	c.Printf("%s %s", model.CountNoun(n.Pages, "page"), reportPeriodText(c, n.Since, n.Until))
	if n.Failed > 0 {
		c.Printf(", %d undelivered", n.Failed)
	}
	if n.Shadow > 0 {
		c.Printf(", %d in shadow mode", n.Shadow)
	}
	c.Printf("\n")
	printReportGaps(c, n.Notes)
	if len(n.Checks) == 0 {
		c.Printf("\nno check opened a problem\n")
	}
	for _, section := range []func(*commandCall, *reportFlags, *v1.Noise) error{printNoisyChecks, printNoisyRoutes, printQuietChecks, printStaleSilences} {
		if err := section(c, f, n); err != nil {
			return err
		}
	}
	return nil
}

// printReportSection writes one table of a report below its title. A table without rows is left out.
func printReportSection[T any](c *commandCall, f *reportFlags, title string, rows []T, columns screen.Columns, row func(T) []any) error {
	if len(rows) == 0 {
		return nil
	}
	c.Printf("\n%s\n", title)
	shown, more := cutRows(f.limit, rows)
	return listOutput[T]{items: shown, columns: columns.HideUnless(c.allNamespaces, "NAMESPACE"), row: row, notes: []string{cutRowsText(more)}}.print(c)
}

// countOrEmpty formats a count for a table cell, and zero as an empty text. Zero gives an empty cell.
func countOrEmpty(n int) any { return screen.ValueIf(n != 0, n) }

// countsByWeek formats counts, one for each week of the report, separated by blanks.
func countsByWeek(counts []int) string { return strings.Trim(fmt.Sprint(counts), "[]") }

// printNoisyChecks writes the checks with the most problems.
func printNoisyChecks(c *commandCall, f *reportFlags, n *v1.Noise) error {
	return printReportSection(c, f, "Checks with problems (UNACKED: closed problems without acknowledgement)", n.Checks,
		screen.SplitColumns("NAMESPACE|CHECK|PAGES|BY WEEK|REPEATS|PROBLEMS|NODES|UNACKED|TYPICAL|FLAPS"), func(x v1.NoisyCheck) []any {
			return []any{
				x.Namespace, cmp.Or(x.Check, "(not kept)"), countOrEmpty(x.Pages), countsByWeek(x.PerWeek), countOrEmpty(x.Reminders), countOrEmpty(x.Problems), countOrEmpty(x.Nodes),
				screen.ValueIf(x.Closed != 0, fmt.Sprintf("%d/%d", x.Unacked, x.Closed)),
				screen.ValueIf(x.Closed != 0, model.TimeSpan(time.Duration(x.Typical*float64(time.Second)))), countOrEmpty(x.Flaps),
			}
		})
}

// printNoisyRoutes writes the routes with the most messages.
func printNoisyRoutes(c *commandCall, f *reportFlags, n *v1.Noise) error {
	return printReportSection(c, f, "Routes that paged people", n.Routes,
		screen.SplitColumns("ROUTE|HANDLER|PAGES|BY WEEK|REPEATS"), func(x v1.NoisyRoute) []any {
			return []any{nameWithoutNamespace(c, x.Route), nameWithoutNamespace(c, x.Handler), countOrEmpty(x.Pages), countsByWeek(x.PerWeek), countOrEmpty(x.Reminders)}
		})
}

// nameWithoutNamespace removes the namespace of the report from an object's name, to keep the table short. The
// namespace is added if the report has another namespace.
func nameWithoutNamespace(c *commandCall, name string) string {
	return strings.TrimPrefix(name, c.objectNamespace()+"/")
}

// printQuietChecks writes the checks that opened no problem or run on no node.
func printQuietChecks(c *commandCall, f *reportFlags, n *v1.Noise) error {
	return printReportSection(c, f, "Checks without problems", slices.Concat(n.Unassigned, n.Quiet),
		screen.SplitColumns("NAMESPACE|CHECK|NODES|CREATED|STATE"), func(x v1.QuietCheck) []any {
			text := "opened no problem"
			switch {
			case slices.ContainsFunc(n.Unassigned, func(y v1.QuietCheck) bool { return y.Namespace == x.Namespace && y.Check == x.Check }):
				text = "runs on no node: muster describe check " + x.Check
			case x.CreatedAt.After(n.Since):
				text = "opened no problem since its creation"
			}
			return []any{x.Namespace, x.Check, countOrEmpty(x.Nodes), c.AgeText(x.CreatedAt), text}
		})
}

// printStaleSilences prints silences that somebody should end, each with the reason, such as no matching check.
func printStaleSilences(c *commandCall, f *reportFlags, n *v1.Noise) error {
	return printReportSection(c, f, "Silences to review (muster silence end NAME)", n.Silences,
		screen.SplitColumns("NAMESPACE|NAME|BY|WHY|REASON"), func(x v1.StaleSilence) []any {
			return []any{x.Namespace, x.Name, x.Creator, strings.Join(x.Reasons, ", "), x.Reason}
		})
}
