package cli

import (
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/model"
)

// maxTexts is the most text values in one answer of the server.
const maxTexts = 10_000

// getTextValues lists the newest text and log values of items, with the newest value at the end.
func getTextValues(c *commandCall, names []string, g *getFlags) (err error) {
	f := v1.TextFilter{Node: g.node, Match: g.match, Contains: g.contains, RowFilter: g.RowFilter, Limit: min(g.limit, maxTexts)}
	if f.Namespace, err = c.cutNamespacePrefix(&f.Node); err != nil {
		return err
	}
	if len(names) > 1 {
		return model.Errorf(model.Invalid, "expected one item as NODE/KEY, got %d", len(names)).WithHint("muster get texts --node NODE")
	}
	if len(names) == 1 {
		if f.Namespace, f.Node, f.Key, err = c.findItem(names[0]); err != nil {
			return err
		}
	}
	if f.Limit == 0 {
		f.Limit = maxTexts
	}
	if f.Since, f.Until, err = g.period.parseTimes(c.commandLine); err != nil {
		return err
	}
	list, err := c.api.Texts(c.ctx, f)
	if err != nil {
		return err
	}
	empty := "no texts match"
	if f.Match+f.Contains == "" && !g.hasFilter() && f.Since.IsZero() && f.Until.IsZero() {
		empty = "no texts. Items of type log or text make them: muster get items"
	}
	columns := screen.SplitColumns("NAMESPACE|TIME|NODE|KEY|TEXT").HideUnless(c.allNamespaces, "NAMESPACE").HideUnless(f.Key == "", "NODE").HideUnless(f.Key == "", "KEY")
	return listOutput[v1.TextValue]{
		value: list, items: list.Items, notes: []string{textIf(list.More, "older texts match, too: --limit N shows more, --until TIME those before a time")},
		empty: empty, columns: columns,
		row: func(v v1.TextValue) []any {
			return []any{v.Namespace, c.DateAndTime(v.At), v.Node, v.Key, screen.FirstLine(v.Text)}
		},
	}.print(c)
}

// describedTexts is the number of text values in the description of an item.
const describedTexts = 5

// printTextValues prints the newest text values of an item.
func (c *commandCall) printTextValues(namespace, node, key string) error {
	list, err := c.api.Texts(c.ctx, v1.TextFilter{Namespace: namespace, Node: node, Key: key, Limit: describedTexts})
	for _, v := range list.Items {
		c.printField("text", "%s  %s", c.DateAndTime(v.At), screen.FirstLine(v.Text))
	}
	return err
}
