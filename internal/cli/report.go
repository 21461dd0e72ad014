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

func reportCommand(s *session) *cobra.Command {
	return s.group("report", "Report a period: availability, noise, and messages of shadow mode",
		availabilityCommand(s), noiseCommand(s), shadowCommand(s))
}

type reportFlags struct {
	listFlags
	period       timeRange
	since, until time.Time
}

func (f *reportFlags) declare(flags *pflag.FlagSet, since string, rows int) {
	f.period.declare(flags, since, "")
	f.declareAll(flags)
	f.declareLimit(flags, rows)
}

func (f *reportFlags) check(c *call) (err error) {
	f.since, f.until, err = f.period.read(c.Now())
	return err
}

func (f *reportFlags) query(c *call) v1.ReportQuery {
	return v1.ReportQuery{Namespace: c.listNamespace(f.all), Where: f.Where, Since: f.since, Until: f.until}
}

// firstRows returns the first rows, and how many the limit cut off.
func firstRows[T any](f *reportFlags, rows []T) ([]T, int) {
	if f.limit <= 0 || len(rows) <= f.limit {
		return rows, 0
	}
	return rows[:f.limit], len(rows) - f.limit
}

func moreRows(n int) string { return textIf(n != 0, fmt.Sprintf("%d more: --limit 0 shows all", n)) }

// minuteFormat formats a time without its seconds.
const minuteFormat = "2006-01-02 15:04"

func periodText(c *call, since, until time.Time) string {
	return fmt.Sprintf("from %s to %s", since.In(c.Zone).Format(minuteFormat), until.In(c.Zone).Format(minuteFormat))
}

// printWarnings writes the gaps of a report.
func printWarnings(c *call, notes []string) {
	for _, note := range notes {
		c.Printf("! %s\n", note)
	}
}

var availabilityUnits = []string{"event", "node", "check", "group"}

type availabilityFlags struct {
	reportFlags
	check, group, by string
}

func availabilityCommand(s *session) *cobra.Command {
	f := &availabilityFlags{}
	c := s.build(command{
		use: "availability [NODE[/CHECK]]", short: "Report how long events were in each status, worst first",
		args: cobra.MaximumNArgs(1), complete: s.completeEvents,
		flags: func(flags *pflag.FlagSet) {
			f.declare(flags, "24h", 50)
			flags.StringVar(&f.check, "check", "", "events of this check")
			flags.StringVar(&f.group, "group", "", "events of nodes in this group")
			f.declareSelector(flags, "events of nodes with these labels")
			f.declareWhere(flags, "row (an event, as -o json --by event shows it) and node: row.critical > 3600")
			flags.StringVar(&f.by, "by", "event", "unit of a row: "+strings.Join(availabilityUnits, ", "))
		},
		check: func(c *call) error {
			if !slices.Contains(availabilityUnits, f.by) {
				return model.Errorf(model.Invalid, "--by %q is unknown", f.by).WithHint("one of: %s", strings.Join(availabilityUnits, ", "))
			}
			return f.reportFlags.check(c)
		},
		run: func(c *call) error {
			q := v1.AvailabilityQuery{Namespace: c.listNamespace(f.all), Check: f.check, Group: f.group, Selector: f.Selector, Where: f.Where, Since: f.since, Until: f.until}
			if len(c.args) == 1 {
				q.Node, q.Check, _ = strings.Cut(c.args[0], "/")
			}
			if f.by == "group" {
				return reportGroups(c, f, q)
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

// readAvailability reads all pages. The first answer fixes the end of the period for the others.
func readAvailability(c *call, q v1.AvailabilityQuery) (l v1.AvailabilityList, err error) {
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

// sumAvailability sums events up by node or check, and sorts the rows: worst first.
func sumAvailability(items []v1.Availability, by string) []v1.Availability {
	type key struct {
		namespace, node, check string
		gone                   time.Time // a deleted node and a new one of its name are two rows
	}
	rows, index := []v1.Availability{}, map[key]int{}
	for _, one := range items {
		switch by {
		case "node":
			one.Check = ""
		case "check":
			one.Node, one.Gone = "", time.Time{}
		}
		k := key{one.Namespace, one.Node, one.Check, one.Gone}
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

func printAvailability(c *call, f *availabilityFlags, l v1.AvailabilityList) error {
	var total v1.Availability
	for _, x := range l.Items {
		total.Add(x)
	}
	duration := func(seconds float64) any {
		return screen.When(seconds != 0, model.TimeSpan(time.Duration(seconds*float64(time.Second))))
	}
	rows, more := firstRows(&f.reportFlags, l.Items)
	var notes []string
	if len(rows) > 0 {
		notes = []string{moreRows(more), fmt.Sprintf("%s in total, from %s to %s", availablePercent(total), c.Date(l.Since), c.Date(l.Until))}
	}
	return list[v1.Availability]{
		value: l, items: rows, empty: "no events match", notes: notes,
		columns: screen.Head("NAMESPACE|NODE|CHECK|AVAILABLE|WARNING|CRITICAL|UNKNOWN|NOTHING|CHANGES").
			HideUnless(f.all, "NAMESPACE").HideUnless(f.by != "check", "NODE").HideUnless(f.by != "node", "CHECK"),
		row: func(x v1.Availability) []any {
			return []any{
				x.Namespace, nodeOrGone(x.Node, x.Gone), x.Check, availablePercent(x),
				duration(x.Warning), duration(x.Critical), duration(x.Unknown), duration(x.Nothing), x.Changes,
			}
		},
	}.print(c)
}

func reportGroups(c *call, f *availabilityFlags, q v1.AvailabilityQuery) error {
	if q.Node != "" || f.narrows() || f.all {
		return model.Errorf(model.Invalid, "--by group reports whole groups of one namespace").WithHint("muster report availability --by group --check %s", cmp.Or(q.Check, "http"))
	}
	l, err := c.api.Reports.GroupAvailability(c.ctx, q)
	if err != nil {
		return err
	}
	rows, more := firstRows(&f.reportFlags, l.Items)
	var notes []string
	if len(rows) > 0 {
		condition := "all its events are"
		if q.Check != "" {
			condition = q.Check + " is"
		}
		notes = []string{moreRows(more), fmt.Sprintf("%s; a node is up while %s OK or WARNING", periodText(c, l.Since, l.Until), condition)}
	}
	return list[v1.GroupAvailability]{
		value: l, items: rows, empty: "no group has nodes with matching events", notes: notes,
		columns: screen.Head("GROUP|NODES|MEAN|WORST|WORST NODE|ALL UP|ANY UP"),
		row: func(g v1.GroupAvailability) []any {
			up := func(share float64) any { return screen.When(g.Nodes != 0, percentText(share)) }
			return []any{g.Group, g.Nodes, up(g.Mean), up(g.Worst), g.WorstNode, up(g.AllUp), up(g.AnyUp)}
		},
	}.print(c)
}

func availablePercent(x v1.Availability) string {
	if x.Covered() == 0 {
		return "-"
	}
	return percentText(x.Available() / x.Covered())
}

// percentText rounds down: 100 % is all the time.
func percentText(share float64) string {
	return fmt.Sprintf("%.3f %%", float64(int64(share*100_000))/1000)
}

func noiseCommand(s *session) *cobra.Command {
	f := &reportFlags{}
	return s.build(command{
		use: "noise", short: "Report pages, unacknowledged problems, and checks and silences without effect",
		args:  cobra.NoArgs,
		flags: func(flags *pflag.FlagSet) { f.declare(flags, "30d", 20) },
		check: f.check,
		run: func(c *call) error {
			n, err := c.api.Reports.Noise(c.ctx, f.query(c))
			if err != nil {
				return err
			}
			if c.Format.Machine() {
				return c.Value(n)
			}
			return printNoise(c, f, &n)
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
func printSection[T any](c *call, f *reportFlags, title string, rows []T, columns screen.Columns, row func(T) []any) error {
	if len(rows) == 0 {
		return nil
	}
	c.Printf("\n%s\n", title)
	shown, more := firstRows(f, rows)
	return list[T]{items: shown, columns: columns.HideUnless(f.all, "NAMESPACE"), row: row, notes: []string{moreRows(more)}}.print(c)
}

// countOrEmpty returns a count, and nothing for zero.
func countOrEmpty(n int) any { return screen.When(n != 0, n) }

// countsByWeek returns a count for each week, with blanks between them.
func countsByWeek(counts []int) string { return strings.Trim(fmt.Sprint(counts), "[]") }

func noisyChecks(c *call, f *reportFlags, n *v1.Noise) error {
	return printSection(c, f, "Checks with problems (UNACKED: closed problems without acknowledgement)", n.Checks,
		screen.Head("NAMESPACE|CHECK|PAGES|BY WEEK|REPEATS|PROBLEMS|NODES|UNACKED|TYPICAL|FLAPS"), func(x v1.NoisyCheck) []any {
			return []any{
				x.Namespace, cmp.Or(x.Check, "(not kept)"), countOrEmpty(x.Pages), countsByWeek(x.PerWeek), countOrEmpty(x.Reminders), countOrEmpty(x.Problems), countOrEmpty(x.Nodes),
				screen.When(x.Closed != 0, fmt.Sprintf("%d/%d", x.Unacked, x.Closed)),
				screen.When(x.Closed != 0, model.TimeSpan(time.Duration(x.Typical*float64(time.Second)))), countOrEmpty(x.Flaps),
			}
		})
}

func noisyRoutes(c *call, f *reportFlags, n *v1.Noise) error {
	return printSection(c, f, "Routes that paged people", n.Routes,
		screen.Head("ROUTE|HANDLER|PAGES|BY WEEK|REPEATS"), func(x v1.NoisyRoute) []any {
			return []any{localName(c, x.Route), localName(c, x.Handler), countOrEmpty(x.Pages), countsByWeek(x.PerWeek), countOrEmpty(x.Reminders)}
		})
}

// localName returns a name without the namespace of the report.
func localName(c *call, name string) string { return strings.TrimPrefix(name, c.objectNamespace()+"/") }

func quietChecks(c *call, f *reportFlags, n *v1.Noise) error {
	return printSection(c, f, "Checks without problems", slices.Concat(n.Nowhere, n.Quiet),
		screen.Head("NAMESPACE|CHECK|NODES|MADE|WHAT"), func(x v1.QuietCheck) []any {
			text := "opened no problem"
			switch {
			case slices.ContainsFunc(n.Nowhere, func(y v1.QuietCheck) bool { return y.Namespace == x.Namespace && y.Check == x.Check }):
				text = "runs on no node: muster describe check " + x.Check
			case x.Made.After(n.Since):
				text = "opened no problem since its creation"
			}
			return []any{x.Namespace, x.Check, countOrEmpty(x.Nodes), c.Ago(x.Made), text}
		})
}

func staleSilences(c *call, f *reportFlags, n *v1.Noise) error {
	return printSection(c, f, "Silences to review (muster silence end NAME)", n.Silences,
		screen.Head("NAMESPACE|NAME|BY|WHY|REASON"), func(x v1.StaleSilence) []any {
			return []any{x.Namespace, x.Name, x.Creator, strings.Join(x.Why, ", "), x.Reason}
		})
}
