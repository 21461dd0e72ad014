package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

func (a *app) reportCmd() *cobra.Command {
	c := &cobra.Command{Use: "report", Short: "What a time came to: availability, noise, and what would have been sent", RunE: helpOf,
		Example: "  muster report availability --since 30d\n  muster report noise --since 30d\n  muster report shadow -n beside --since 7d"}
	c.AddCommand(a.availabilityCmd(), a.noiseCmd(), a.shadowCmd())
	return c
}

// reportShapes are what rows of a report may stand for.
const reportShapes = "event, node, check, group"

func (a *app) availabilityCmd() *cobra.Command {
	var output *format
	var p period
	var q v1.AvailabilityQuery
	var all bool
	var by string
	var limit int
	c := &cobra.Command{
		Use:   "availability [NODE[/CHECK]]",
		Short: "How long events had which status, the worst first",
		Long: "Says of each event for which part of a time it was available, which is OK or WARNING, and how often its\n" +
			"status changed. Time before the first result, and before what history still holds, counts for nothing.\n" +
			"Rows of a node or check are all its events together. Nodes that were deleted count until then.\n" +
			"A row of a group (--by group) is of its nodes: a node is up while all its events, or that of --check,\n" +
			"are OK or WARNING. WORST is the node that was up least, MEAN the mean of all nodes; ALL UP is the\n" +
			"part of the time in which every node was up, ANY UP in which at least one was.",
		Example: "  muster report availability --since 30d\n  muster report availability web01/disk --since 2026-11-01T00:00:00Z --until 2026-12-01T00:00:00Z\n" +
			"  muster report availability --group prod --by node --since 7d\n  muster report availability --by group --check http --since 30d",
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeEvents,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if len(args) == 1 {
				q.Node, q.Check, _ = strings.Cut(args[0], "/")
			}
			if !slices.Contains(strings.Split(reportShapes, ", "), by) {
				return model.Errorf(model.Invalid, "--by %q is not known", by).WithHint("one of: %s", reportShapes)
			}
			if q.Since, q.Until, err = p.read(a.Now()); err != nil {
				return err
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			if q.Namespace = a.ns(); all {
				q.Namespace = ""
			}
			if by == "group" {
				if q.Node != "" || q.Selector+q.Where != "" || all {
					return model.Errorf(model.Invalid, "--by group is of whole groups of one namespace").WithHint("muster report availability --by group --check %s", cmp.Or(q.Check, "http"))
				}
				list, err := client.Reports.GroupAvailability(c.Context(), q)
				if err != nil {
					return err
				}
				if output.machine() {
					return a.printValue(*output, list)
				}
				return a.printGroups(list, q.Check, limit)
			}
			var list v1.AvailabilityList
			for {
				page, err := client.Reports.Availability(c.Context(), q)
				if err != nil {
					return err
				}
				list.Since, list.Items = page.Since, append(list.Items, page.Items...)
				if list.Until.IsZero() {
					list.Until = page.Until
				}
				if q.Until, q.After = list.Until, page.Next; q.After == "" {
					break
				}
			}
			list.Items = together(list.Items, by)
			if output.machine() {
				return a.printValue(*output, list)
			}
			return a.printAvailability(list, by, all, limit)
		},
	}
	output = formatFlag(c)
	p.flags(c, "24h", "")
	flags := c.Flags()
	flags.BoolVarP(&all, "all-namespaces", "A", false, "of all namespaces")
	flags.StringVar(&q.Check, "check", "", "of this check")
	flags.StringVar(&q.Group, "group", "", "of nodes in this group")
	flags.StringVarP(&q.Selector, "selector", "l", "", "of nodes with these labels: env=prod,tier!=db")
	flags.StringVar(&q.Where, "where", "", "CEL over row (an event, as -o json --by event shows it) and node: row.critical > 3600")
	flags.StringVar(&by, "by", "event", "what a row is: "+reportShapes)
	flags.IntVar(&limit, "limit", 50, "rows at most (0: all)")
	_ = c.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(strings.Split(reportShapes, ", "), cobra.ShellCompDirectiveNoFileComp))
	return c
}

// together are rows of what a row stands for, the worst first.
func together(items []v1.Availability, by string) []v1.Availability {
	type place struct {
		namespace, node, check string
		gone                   time.Time // a node of the name may be there again
	}
	rows, of := []v1.Availability{}, map[place]int{}
	for _, one := range items {
		switch by {
		case "node":
			one.Check = ""
		case "check":
			one.Node, one.Gone = "", time.Time{}
		}
		key := place{one.Namespace, one.Node, one.Check, one.Gone}
		if i, ok := of[key]; ok {
			rows[i].Add(one)
			continue
		}
		of[key] = len(rows)
		rows = append(rows, one)
	}
	share := func(x v1.Availability) float64 {
		if x.Known() == 0 {
			return 2 // after all of which something is known
		}
		return x.Available() / x.Known()
	}
	slices.SortFunc(rows, func(x, y v1.Availability) int {
		return cmp.Or(cmp.Compare(share(x), share(y)), cmp.Compare(y.Critical, x.Critical), cmp.Compare(x.Namespace, y.Namespace),
			cmp.Compare(x.Node, y.Node), cmp.Compare(x.Check, y.Check))
	})
	return rows
}

func (a *app) printAvailability(list v1.AvailabilityList, by string, all bool, limit int) error {
	if len(list.Items) == 0 {
		fmt.Fprintln(a.Stdout, "no events match")
		return nil
	}
	var head []string
	if all {
		head = append(head, "NAMESPACE")
	}
	if by != "check" {
		head = append(head, "NODE")
	}
	if by != "node" {
		head = append(head, "CHECK")
	}
	t := newTable(append(head, "AVAILABLE", "WARNING", "CRITICAL", "UNKNOWN", "NOTHING", "CHANGES")...)
	var total v1.Availability
	for i, x := range list.Items {
		if total.Add(x); limit > 0 && i >= limit {
			continue
		}
		var row []any
		for k, name := range []string{x.Namespace, x.Node, x.Check} {
			if k == 0 && all || k == 1 && by != "check" || k == 2 && by != "node" {
				if k == 1 && !x.Gone.IsZero() {
					name += " (gone)"
				}
				row = append(row, name)
			}
		}
		t.add(append(row, percent(x), lastedFor(x.Warning), lastedFor(x.Critical), lastedFor(x.Unknown), lastedFor(x.Nothing), fmt.Sprint(x.Changes))...)
	}
	if err := t.write(a.Env); err != nil {
		return err
	}
	if more := len(list.Items) - limit; limit > 0 && more > 0 {
		fmt.Fprintf(a.Stdout, "%d more, available for longer: --limit 0 shows all\n", more)
	}
	fmt.Fprintf(a.Stdout, "%s in all, from %s to %s\n", percent(total), list.Since.In(a.Zone).Format("2006-01-02 15:04:05"), list.Until.In(a.Zone).Format("2006-01-02 15:04:05"))
	return nil
}

// printGroups says of each group how its nodes did.
func (a *app) printGroups(list v1.GroupAvailabilityList, check string, limit int) error {
	if len(list.Items) == 0 {
		fmt.Fprintln(a.Stdout, "no group has nodes with such events")
		return nil
	}
	t := newTable("GROUP", "NODES", "MEAN", "WORST", "WORST NODE", "ALL UP", "ANY UP")
	for _, x := range list.Items[:upTo(limit, len(list.Items))] {
		if x.Nodes == 0 {
			t.add(x.Group, "0", "–", "–", "–", "–", "–")
			continue
		}
		t.add(x.Group, fmt.Sprint(x.Nodes), ofTime(x.Mean), ofTime(x.Worst), x.WorstNode, ofTime(x.AllUp), ofTime(x.AnyUp))
	}
	if err := t.write(a.Env); err != nil {
		return err
	}
	if more := len(list.Items) - limit; limit > 0 && more > 0 {
		fmt.Fprintf(a.Stdout, "%d more: --limit 0 shows all\n", more)
	}
	what := "all its events are"
	if check != "" {
		what = check + " is"
	}
	fmt.Fprintf(a.Stdout, "%s; a node is up while %s OK or WARNING\n", a.fromTo(list.Since, list.Until), clean(what, false))
	return nil
}

// percent is rounded down: what was not there all the time is not 100 %.
func percent(x v1.Availability) string {
	known := x.Known()
	if known == 0 {
		return "–"
	}
	return ofTime(x.Available() / known)
}

func ofTime(share float64) string {
	return fmt.Sprintf("%.3f %%", float64(int64(share*100_000))/1000)
}

func lastedFor(seconds float64) string {
	if seconds == 0 {
		return "–"
	}
	return model.TimeSpan(time.Duration(seconds * float64(time.Second)))
}
