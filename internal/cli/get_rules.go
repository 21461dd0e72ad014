package cli

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/model"
)

// getRules lists the rules of RuleGroups with the outcome of their last evaluation. Failing and firing rules come
// first, then the slowest.
func getRules(c *commandCall, names []string, g *getFlags) error {
	if len(names) > 0 {
		return model.Errorf(model.Invalid, "the list of rules cannot be combined with names").WithHint("muster describe rulegroup %s", names[0])
	}
	if g.Selector != "" || g.Where != "" {
		return model.Errorf(model.Invalid, "the list of rules cannot be combined with -l or --where").WithHint("muster get rules")
	}
	rules, err := c.api.Rules(c.ctx, c.listNamespace())
	if err != nil {
		return err
	}
	slices.SortStableFunc(rules, func(a, b v1.RuleState) int {
		return cmp.Or(cmp.Compare(ruleRank(&a), ruleRank(&b)), cmp.Compare(b.Seconds, a.Seconds))
	})
	more := ""
	if g.limit > 0 && len(rules) > g.limit {
		rules, more = rules[:g.limit], "more rows: --limit 0 shows all"
	}
	return listOutput[v1.RuleState]{
		value: rules, items: rules, notes: []string{more}, empty: "no rules. Declare them: muster explain rulegroup; or convert a file of Prometheus: muster import prometheus rules.yml",
		columns: screen.SplitColumns("NAMESPACE|GROUP|RULE|STATE|TOOK|AGE|MISSED|ERROR").HideUnless(c.allNamespaces, "NAMESPACE"),
		row: func(r v1.RuleState) []any {
			took, age := "-", "-"
			if !r.At.IsZero() && r.At.Unix() > 0 {
				took, age = time.Duration(r.Seconds*float64(time.Second)).Round(10*time.Microsecond).String(), c.AgeText(r.At)
			}
			return []any{r.Namespace, r.Group, r.Rule, ruleCell(&r), took, age, r.Missed, cmp.Or(screen.FirstLine(r.Error), "-")}
		},
	}.print(c)
}

// ruleRank returns the number by which rules sort in a list, failing rules first. Failing rules come first,
// then firing, then pending, then all others.
func ruleRank(r *v1.RuleState) int {
	switch ruleState(r) {
	case "failing":
		return 0
	case "firing":
		return 1
	case "pending":
		return 2
	}
	return 3
}

// ruleState returns the state of a rule as one word, such as firing or failing.
func ruleState(r *v1.RuleState) string {
	switch {
	case r.Error != "":
		return "failing"
	case r.Firing > 0:
		return "firing"
	case r.Pending > 0:
		return "pending"
	case r.Health == "unknown":
		return "not evaluated yet"
	}
	return "ok"
}

// ruleCell formats the state of a rule, with the number of its alerts.
func ruleCell(r *v1.RuleState) screen.Cell {
	cell := screen.Cell{Text: ruleState(r)}
	if r.Firing+r.Pending > 0 {
		cell.Text += fmt.Sprintf(" (%d firing, %d pending)", r.Firing, r.Pending)
	}
	switch ruleState(r) {
	case "failing", "firing":
		cell.Colour = screen.Red
	case "pending":
		cell.Colour = screen.Yellow
	case "ok":
		cell.Colour = screen.Green
	}
	return cell
}
