package cli

import (
	"cmp"
	"encoding/csv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/parquet"
)

// getCompliance lists policy directives on nodes with the outcome of their last runs, least compliant first. With
// --by, it lists sums, such as one per component of a directive.
func getCompliance(c *commandCall, names []string, g *getFlags) error {
	if g.by != "" {
		if len(names) > 0 || g.node+g.policy+g.status != "" || g.hasFilter() {
			return model.Errorf(model.Invalid, "--by counts all nodes of the namespace: it can be combined with --directive, --directive-labels, --at and --limit only").
				WithHint("muster get compliance --by component --directive NAME")
		}
		return complianceSums{v1.ComplianceQuery{By: g.by, Directive: g.directive, DirectiveLabels: g.directiveLabels}, g.at, g.limit}.print(c)
	}
	namespace, err := c.cutNamespacePrefix(&g.node)
	if err != nil {
		return err
	}
	filter := v1.ComplianceFilter{Namespace: namespace, Node: g.node, Directive: g.directive, DirectiveLabels: g.directiveLabels, Policy: g.policy, Status: g.status}
	if filter.At, err = parsePastTime(c.commandLine, "at", g.at); err != nil {
		return err
	}
	if len(names) > 1 {
		return model.Errorf(model.Invalid, "expected one name, NODE or NODE/DIRECTIVE, got %d", len(names)).WithHint("muster get compliance --policy POLICY")
	}
	if len(names) == 1 {
		n, err := c.findNodeOrEvent(names[0])
		if err != nil {
			return err
		}
		filter.Namespace, filter.Node, filter.Directive = n.namespace, n.node, n.check
	}
	items, next, err := client.Pages(g.limit, func(size int, after string) ([]v1.Compliance, string, error) {
		page, err := c.api.Compliance(c.ctx, filter, size, after, g.RowFilter)
		return page.Items, page.Next, err
	})
	if err != nil {
		return err
	}
	if filter.Directive != "" && filter.Node != "" && len(items) == 0 && len(names) == 1 {
		return model.Errorf(model.NotFound, "directive %s is not assigned to node %s", filter.Directive, filter.Node).
			WithHint("see why: muster why %s/%s", filter.Node, filter.Directive)
	}
	slices.SortStableFunc(items, func(a, b v1.Compliance) int { return cmp.Compare(percentOf(a.Percent), percentOf(b.Percent)) })
	empty := "no node has a directive. Declare a Technique, a Directive and a Policy: muster explain policy"
	if !filter.At.IsZero() && filter.DirectiveLabels != "" {
		empty = "no directive with these labels matches. List their labels: muster get directives -o wide"
	} else if !filter.At.IsZero() {
		empty = "history has no directive runs of these nodes at this time"
	} else if g.hasFilter() || filter.Node+filter.Directive+filter.DirectiveLabels+filter.Policy+filter.Status != "" {
		empty = "no directives match"
	}
	return listOutput[v1.Compliance]{
		value: v1.ComplianceList{Items: items, Next: next}, items: items, notes: []string{textIf(next != "", "more rows: --limit 0 shows all, --node NODE only those of a node")},
		empty:   empty,
		columns: screen.SplitColumns("NAMESPACE|NODE|DIRECTIVE|MODE|COMPLIANCE|STATUS|LAST RUN").HideUnless(c.allNamespaces, "NAMESPACE"),
		row: func(i v1.Compliance) []any {
			return []any{i.Namespace, i.Node, i.Directive, i.Mode, percentText(i.Percent), complianceCell(i.Status, i.Counts), cmp.Or(textIf(!i.Run.IsZero(), c.AgeText(i.Run)), "-")}
		},
	}.print(c)
}

// percentOf returns a percentage as a number for sorting. A directive without counted components sorts last.
func percentOf(text string) float64 {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 101
	}
	return f
}

// percentText formats a percentage for a table cell, or "-" if no component counts. If no component counts, the
// text is -.
func percentText(text string) string {
	if text == "" {
		return "-"
	}
	return text + " %"
}

// complianceCell returns a table cell with the worst component status and the number of components with the
// status. The cell has the colour of the status.
func complianceCell(worst string, counts map[string]int) screen.Cell {
	total := 0
	for _, n := range counts {
		total += n
	}
	cell := screen.Cell{Text: worst, Colour: screen.Red}
	if n := counts[worst]; n < total {
		cell.Text += " (" + strconv.Itoa(n) + " of " + strconv.Itoa(total) + ")"
	}
	switch worst {
	case "not applicable", "compliant", "success", "repaired":
		cell.Colour = screen.Green
	case "pending", "no report", "missing", "could not check":
		cell.Colour = screen.Yellow
	case "overridden", "waived":
		cell.Colour = screen.Faint
	}
	return cell
}

// countsText formats the number of components with each status, such as "3 compliant, 1 error".
func countsText(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, strconv.Itoa(counts[name])+" "+name)
	}
	return strings.Join(parts, ", ")
}

// describeCompliance prints each component (checked part) of a policy directive on a node, with its status.
func describeCompliance(c *commandCall, name string) error {
	n, err := c.findEvent(name)
	if err != nil {
		return err
	}
	directive := strings.TrimSuffix(n.check, ":"+model.ComplianceInstance)
	l, err := c.api.Compliance(c.ctx, v1.ComplianceFilter{Namespace: n.namespace, Node: n.node, Directive: directive, Details: true}, 1, "")
	if err != nil {
		return err
	}
	if len(l.Items) == 0 {
		return model.Errorf(model.NotFound, "directive %s is not assigned to node %s", directive, n.node).WithHint("list its directives: muster get compliance %s", n.node)
	}
	one := &l.Items[0]
	c.printField("directive", "%s", one.Directive)
	c.printField("node", "%s", one.Node)
	c.printField("technique", "%s", one.Technique)
	c.printField("mode", "%s", one.Mode)
	c.printField("status", "%s", one.Status)
	c.printField("compliance", "%s", percentText(one.Percent))
	if !one.Run.IsZero() {
		c.printField("last run", "%s", c.TimeAndAge(one.Run))
		c.printField("since", "%s", c.TimeAndAge(one.Changed))
	}
	c.printNonEmptyField("reason", one.Reason)
	for i := range one.Waivers {
		c.printField("waiver", "%s; expires %s", one.Waivers[i].Text(), c.TimeAndAge(one.Waivers[i].Expires))
	}
	for _, b := range one.Blocks {
		c.printField("block", "%s  %s  %s%s", b.Name, b.Reporting, percentText(b.Percent), textIf(len(b.Counts) > 0, ": "+countsText(b.Counts)))
	}
	for _, x := range one.Components {
		c.printField("component", "%s  %s%s%s%s", x.Name, x.Status, textIf(x.Waiver != "", " by "+x.Waiver), textIf(x.Mode != one.Mode && x.Waiver == "", " ("+x.Mode+")"), textIf(x.Message != "", ": "+x.Message))
	}
	return nil
}

// complianceUnits are the units of a row in muster report compliance.
var complianceUnits = []string{"policy", "directive", "component", "node", "group", "day"}

// validateComplianceUnit returns an error if a report of compliance has no rows of the given unit.
func validateComplianceUnit(by string, units []string) error {
	if slices.Contains(units, by) {
		return nil
	}
	return model.Errorf(model.Invalid, "--by: unknown value %q", by).WithHint("one of: %s", strings.Join(units, ", "))
}

// complianceSums prints the compliance summed up by a unit, such as one row per component of a directive.
type complianceSums struct {
	v1.ComplianceQuery
	at    string
	limit int // of a table; 0: none
}

// print requests the sums, and prints a table or the format of the flag -o.
func (q complianceSums) print(c *commandCall) error {
	if err := validateComplianceUnit(q.By, complianceUnits[:len(complianceUnits)-1]); err != nil {
		return err
	}
	if q.Directive != "" && q.By != "component" {
		return model.Errorf(model.Invalid, "--directive needs --by component").WithHint("muster report compliance --by component --directive %s", q.Directive)
	}
	var err error
	if q.At, err = parsePastTime(c.commandLine, "at", q.at); err != nil {
		return err
	}
	q.Namespace = c.listNamespace()
	report, err := c.api.Reports.Compliance(c.ctx, q.ComplianceQuery)
	if err != nil {
		return err
	}
	ofComponents := q.By == "component"
	if c.Format == "csv" || c.Format == "parquet" {
		return q.printTable(c, report.Items)
	}
	var notes []string
	if t := report.Total; t.Components > 0 {
		notes = append(notes, "all: "+percentText(t.Percent)+" of "+model.CountNoun(t.Components, "component")+" on "+model.CountNoun(t.Nodes, "node")+
			", "+percentText(t.NodePercent)+" with equal weight of nodes")
	}
	items, more := cutRows(q.limit, report.Items)
	notes = append(notes, cutRowsText(more))
	if report.More > 0 {
		notes = append(notes, model.CountNoun(report.More, "more component")+" with higher compliance: --directive NAME shows only those of a Directive")
	}
	first := textIf(ofComponents, "DIRECTIVE|") + strings.ToUpper(q.By)
	return listOutput[v1.ComplianceSum]{
		value: report, items: items, notes: notes,
		empty: cmp.Or(textIf(q.DirectiveLabels != "", "no node has a directive with these labels"), "no node has a directive. Declare a Technique, a Directive and a Policy: muster explain policy"),
		columns: screen.SplitColumns("NAMESPACE|"+first+"|NODES|COMPONENTS|COMPLIANCE|BY NODE|COUNTS").
			HideUnless(c.allNamespaces, "NAMESPACE").HideUnless(!ofComponents, "COMPONENTS", "BY NODE"),
		row: func(i v1.ComplianceSum) []any {
			row := []any{i.Namespace, i.Name}
			if ofComponents {
				row = append(row, i.Component)
			}
			return append(row, i.Nodes, i.Components, percentText(i.Percent), percentText(i.NodePercent), countsText(i.Counts))
		},
	}.print(c)
}

// printTable prints the sums as CSV or Parquet.
func (q complianceSums) printTable(c *commandCall, items []v1.ComplianceSum) error {
	columns := []parquet.Column{{Name: "namespace"}, {Name: q.By}, {Name: "nodes", Kind: parquet.Integer}, {Name: "components", Kind: parquet.Integer}, {Name: "percent", Kind: parquet.Number},
		{Name: "node percent", Kind: parquet.Number}, {Name: "compliant", Kind: parquet.Integer}, {Name: "not compliant", Kind: parquet.Integer}, {Name: "waived", Kind: parquet.Integer}}
	if q.By == "component" {
		columns = slices.Insert(columns, 1, parquet.Column{Name: "directive"})
	}
	var rows [][]string
	for _, i := range items {
		kept, missed := sumCounts(i.Counts)
		row := []string{i.Namespace, i.Name, strconv.Itoa(i.Nodes), strconv.Itoa(i.Components), i.Percent, i.NodePercent, strconv.Itoa(kept), strconv.Itoa(missed), strconv.Itoa(i.Counts["waived"])}
		if q.By == "component" {
			row = slices.Insert(row, 2, i.Component)
		}
		rows = append(rows, row)
	}
	return writeTable(c, columns, rows)
}

// complianceCommand makes the command muster report compliance.
func complianceCommand(s *commandLine) *cobra.Command {
	var sums complianceSums
	var period timeRange
	c := s.buildCommand(command{
		use: "compliance", short: "Report compliance by policy, directive, component, node or group, least compliant first, or by day",
		args: cobra.NoArgs, formats: []string{"csv", "parquet"},
		flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&sums.By, "by", "policy", "unit of a row: "+strings.Join(complianceUnits, ", "))
			flags.StringVar(&sums.Directive, "directive", "", "--by component: only components of this Directive")
			flags.StringVar(&sums.DirectiveLabels, "directive-labels", "", "only directives with these labels: cis=5.1.20,tier!=lab,!old")
			flags.StringVar(&sums.at, "at", "", "the last runs up to this time: "+pastTimes+"; default now")
			period.registerFlags(flags, "", "--by day: ")
		},
		check: func(*commandCall) error {
			if err := validateComplianceUnit(sums.By, complianceUnits); err != nil {
				return err
			}
			if sums.By != "day" && period != (timeRange{}) {
				return model.Errorf(model.Invalid, "--since and --until need --by day").WithHint("muster report compliance --by day --since 30d; one time: --at 2d")
			}
			if sums.By == "day" && sums.at+sums.Directive != "" {
				return model.Errorf(model.Invalid, "--%s cannot be combined with --by day", cmp.Or(textIf(sums.at != "", "at"), "directive")).WithHint("muster report compliance --by day --since 30d")
			}
			return nil
		},
		run: func(c *commandCall) error {
			if sums.By == "day" {
				return reportComplianceDays(c, sums.DirectiveLabels, &period)
			}
			return sums.print(c)
		},
	})
	_ = c.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(complianceUnits, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// sumCounts returns the number of compliant components and of other components, without pending and waived
// components.
func sumCounts(counts map[string]int) (compliant, other int) {
	for name, n := range counts {
		switch name {
		case "not applicable", "compliant", "success", "repaired":
			compliant += n
		case "pending", "waived":
		default:
			other += n
		}
	}
	return compliant, other
}

// writeTable prints table rows as CSV or Parquet to standard output.
func writeTable(c *commandCall, columns []parquet.Column, rows [][]string) error {
	if c.Format == "parquet" {
		return parquet.Write(c.Out, columns, rows)
	}
	names := make([]string, len(columns))
	for i := range columns {
		names[i] = columns[i].Name
	}
	return writeCSV(c, append([][]string{names}, rows...))
}

// writeCSV writes rows as CSV. A spreadsheet executes none of their texts.
func writeCSV(c *commandCall, rows [][]string) error {
	w := csv.NewWriter(c.Out)
	for _, row := range rows {
		for i := range row {
			row[i] = escapeFormula(row[i])
		}
		_ = w.Write(row) // Error returns its errors
	}
	w.Flush()
	return w.Error()
}

// reportComplianceDays prints the compliance of each day of a period.
func reportComplianceDays(c *commandCall, directiveLabels string, period *timeRange) error {
	since, until, err := period.parseTimes(c.commandLine)
	if err != nil {
		return err
	}
	report, err := c.api.Reports.ComplianceDays(c.ctx, c.listNamespace(), directiveLabels, since, until)
	if err != nil {
		return err
	}
	if c.Format == "csv" || c.Format == "parquet" {
		columns := []parquet.Column{{Name: "day"}, {Name: "components", Kind: parquet.Integer}, {Name: "percent", Kind: parquet.Number}, {Name: "drifted", Kind: parquet.Integer},
			{Name: "repaired", Kind: parquet.Integer}, {Name: "remediated", Kind: parquet.Integer}, {Name: "remediation seconds", Kind: parquet.Integer}, {Name: "intended", Kind: parquet.Integer}}
		var rows [][]string
		for _, i := range report.Items {
			rows = append(rows, []string{i.Day, strconv.Itoa(i.Components), i.Percent, strconv.Itoa(i.Drifted), strconv.Itoa(i.Repaired), strconv.Itoa(i.Remediated),
				strconv.FormatFloat(i.RemediationSeconds, 'f', 0, 64), strconv.Itoa(i.Intended)})
		}
		return writeTable(c, columns, rows)
	}
	return listOutput[v1.ComplianceDay]{
		value: report, items: report.Items,
		empty:   "history has no directive runs in this period",
		columns: screen.SplitColumns("DAY|COMPONENTS|COMPLIANCE|DRIFTED|REPAIRED|REMEDIATED|AFTER|INTENDED"),
		row: func(i v1.ComplianceDay) []any {
			after := textIf(i.Remediated > 0, model.Duration(time.Duration(i.RemediationSeconds)*time.Second).String())
			return []any{i.Day, i.Components, percentText(i.Percent), i.Drifted, i.Repaired, i.Remediated, cmp.Or(after, "-"), i.Intended}
		},
		notes: []string{"days are UTC. Drifted: no longer compliant under the same declaration; after: the mean time until remediated; intended: changed with its declaration or mode"},
	}.print(c)
}
