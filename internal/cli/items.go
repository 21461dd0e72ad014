package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// getItems lists the last values of items (metrics of Templates), unsupported items first
func getItems(c *commandCall, names []string, g *getFlags) error {
	namespace, err := c.cutNamespacePrefix(&g.node)
	if err != nil {
		return err
	}
	filter := v1.ItemFilter{Namespace: namespace, Node: g.node}
	if len(names) > 1 {
		return model.Errorf(model.Invalid, "expected one item as NODE/KEY, got %d", len(names)).WithHint("muster get items --node NODE")
	}
	if len(names) == 1 {
		if filter.Namespace, filter.Node, filter.Key, err = c.findItem(names[0]); err != nil {
			return err
		}
	}
	items, next, err := client.Pages(g.limit, func(size int, after string) ([]v1.ItemState, string, error) {
		page, err := c.api.Items(c.ctx, filter, size, after, g.RowFilter)
		return page.Items, page.Next, err
	})
	if err != nil {
		return err
	}
	if len(names) == 1 && len(items) == 0 {
		return itemNotFound(filter.Node, filter.Key)
	}
	slices.SortStableFunc(items, func(a, b v1.ItemState) int {
		return cmp.Or(cmp.Compare(itemRank(&a), itemRank(&b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Node, b.Node))
	})
	empty := "no items. Declare them in a Template: muster explain template; numbers in results of checks are items, too"
	if g.hasFilter() || g.node != "" {
		empty = "no items match"
	}
	keys := map[[4]string]bool{}
	for i := range items {
		keys[[4]string{items[i].Namespace, items[i].Node, items[i].Key, items[i].Check + labelsText(&items[i]) + items[i].State}] = true
	}
	ofChecks := slices.ContainsFunc(items, func(i v1.ItemState) bool { return i.Check != "" })
	doubled := len(keys) < len(items) // several Templates have one key
	return listOutput[v1.ItemState]{
		value: v1.ItemList{Items: items, Next: next}, items: items, notes: []string{textIf(next != "", "more rows: --limit 0 shows all, --node NODE only those of a node")},
		empty:   empty,
		columns: screen.SplitColumns("NAMESPACE|NODE|CHECK|KEY|TEMPLATE|LAST VALUE|AGE|STATE").HideUnless(c.allNamespaces, "NAMESPACE").HideUnless(doubled, "TEMPLATE").HideUnless(ofChecks, "CHECK"),
		row: func(i v1.ItemState) []any {
			return []any{i.Namespace, i.Node, cmp.Or(i.Check, "-"), i.Key + labelsText(&i), i.Template, cmp.Or(screen.FirstLine(i.Text), "-"), cmp.Or(textIf(!i.At.IsZero(), c.AgeText(i.At)), "-"), itemState(&i)}
		},
	}.print(c)
}

// labelsText formats the labels that a check gave to a metric value as in PromQL, such as {disk="sda"}. The
// check gave the labels to the number. The text is empty if the number has no labels.
func labelsText(i *v1.ItemState) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(i.Labels)) {
		list = append(list, fmt.Sprintf("%s=%q", name, i.Labels[name]))
	}
	return textIf(len(list) > 0, "{"+strings.Join(list, ",")+"}")
}

// boundText formats a threshold or range limit of a metric value, with its unit of measurement.
func boundText(b *v1.ItemBound, unit string) string {
	words := map[string]string{"max": "above ", "min": "below ", "inside_min": "not below ", "inside_max": "not above "}
	return words[b.End] + strconv.FormatFloat(b.Value, 'f', -1, 64) + textIf(unit != "", " "+unit)
}

// plotCommand returns the muster command that plots a check's metric value with its thresholds.
func plotCommand(i *v1.ItemState) string {
	return fmt.Sprintf(`muster query '{node=%q,check=%q,item=%q}' --range 1h`, i.Node, i.Check, i.Key)
}

// itemRank returns the number by which items sort in a list, unsupported items first. Unsupported items come
// first, then items without a value, then all others.
func itemRank(i *v1.ItemState) int {
	return slices.Index([]string{"unsupported", "waiting", "ok", "notCollected"}, i.State)
}

// itemState returns the state of an item as text, with the reason if the item is unsupported
func itemState(i *v1.ItemState) screen.Cell {
	switch i.State {
	case "unsupported":
		return screen.Cell{Text: "unsupported: " + failureText(i.Reason), Colour: screen.Red}
	case "notCollected":
		return screen.Cell{Text: "not collected: " + i.Reason, Colour: screen.Yellow}
	case "waiting":
		if i.Trapper {
			return screen.Cell{Text: "no value yet: external senders provide the value", Colour: screen.Yellow}
		}
		return screen.Cell{Text: "no value yet", Colour: screen.Yellow}
	}
	return screen.Cell{Text: i.State, Colour: screen.Green}
}

// failureText returns, from a failure reason of several lines, the line that names the cause. It is the last
// line if a preprocessing step failed, because the lines before it have the value and the outputs of other
// steps.
func failureText(reason string) string {
	if at := strings.LastIndexByte(reason, '\n'); at >= 0 && strings.HasPrefix(reason, "Preprocessing failed for: ") {
		return "step " + screen.FirstLine(reason[at+1:])
	}
	return screen.FirstLine(reason)
}

// findItem parses the name of an item, NODE/KEY, to namespace, node and key. The name is NODE/KEY or
// NAMESPACE/NODE/KEY. A key may contain slashes, which do not count within its parameters.
func (c *commandCall) findItem(text string) (namespace, node, key string, err error) {
	node, key, _ = strings.Cut(text, "/")
	names, _, _ := strings.Cut(key, "[")
	if second, _, three := strings.Cut(names, "/"); three && second != "" && c.nodeExists(node, second) {
		node, key = node+"/"+second, key[len(second)+1:]
	}
	if node == "" || key == "" {
		return "", "", "", model.Errorf(model.Invalid, "%q: expected NODE/KEY or NAMESPACE/NODE/KEY", text).WithHint("list items: muster get items")
	}
	namespace, node, err = c.findObject(kind.Node().KindInfo, node)
	return namespace, node, key, err
}

// itemNotFound returns the error for an item (metric) that a node does not have
func itemNotFound(node, key string) error {
	return model.Errorf(model.NotFound, "node %s has no item %s", node, key).WithHint("list the node's items: muster get items --node %s", node)
}

// describeItem prints one item, a metric of a node, with its value, time, Template and triggers.
func describeItem(c *commandCall, name string) error {
	namespace, node, key, err := c.findItem(name)
	if err != nil {
		return err
	}
	l, err := c.api.Items(c.ctx, v1.ItemFilter{Namespace: namespace, Node: node, Key: key}, 100, "")
	if err != nil {
		return err
	}
	if len(l.Items) == 0 {
		return itemNotFound(node, key)
	}
	for i := range l.Items {
		one := &l.Items[i]
		if i > 0 {
			c.Printf("\n")
		}
		c.printField("item", "%s/%s%s", one.Node, one.Key, labelsText(one))
		if one.Check == "" {
			c.printField("template", "%s", one.Template)
		}
		switch {
		case one.Check != "":
			c.printField("check", "%s: the results have the number", one.Check)
		case one.From != "":
			c.printField("from", "%s", one.From)
		case one.Trapper:
			c.printField("from", "others: a trapper item")
		case one.Formula != "":
			c.printField("formula", "%s, every %s", one.Formula, one.Interval)
		case one.Internal:
			c.printField("from", "the server itself, every %s", one.Interval)
		case one.Interval != "":
			c.printField("interval", "%s", one.Interval)
		}
		c.printField("state", "%s", itemState(one).Text)
		if one.State == "unsupported" && strings.Contains(one.Reason, "\n") {
			c.printField("reason", "%s", one.Reason)
		}
		if one.Text != "" {
			c.printField("value", "%s", one.Text)
		}
		if !one.At.IsZero() {
			c.printField("at", "%s", c.TimeAndAge(one.At))
		}
		for k := range one.Bounds {
			c.printField(one.Bounds[k].Kind, "%s", boundText(&one.Bounds[k], one.Unit))
		}
		if one.Check != "" && one.State == "ok" {
			c.printField("plot", "%s", plotCommand(one))
		}
		if one.Type == "log" || one.Type == "text" {
			if err := c.printTextValues(one.Namespace, one.Node, one.Key); err != nil {
				return err
			}
		}
		for _, t := range one.Triggers {
			state := "OK"
			switch {
			case t.Problem:
				state = "PROBLEM"
			case t.Unknown != "":
				state = "UNKNOWN: " + t.Unknown
			}
			c.printField("trigger", "%s: %s  (%s)", t.Name, state, t.Expression)
		}
	}
	return nil
}

// traceItem returns the trace of an item for muster why. The trace has the source of the item, the agent of its node,
// its value or the reason why it has none, its bounds and its triggers. ok is false if the node has no such item.
func traceItem(c *commandCall, name string) (trace v1.Trace, ok bool, err error) {
	namespace, node, key, err := c.findItem(name)
	if err != nil {
		return trace, false, err
	}
	l, err := c.api.Items(c.ctx, v1.ItemFilter{Namespace: namespace, Node: node, Key: key}, 100, "")
	if err != nil || len(l.Items) == 0 {
		return trace, false, err
	}
	trace = v1.Trace{Namespace: namespace, Node: node, Check: key}
	of, err := c.api.Events.Trace(c.ctx, namespace, node, "")
	if err != nil {
		return trace, false, err
	}
	for _, link := range of.Links {
		if link.Name == "agent" || link.Name == "limit" {
			trace.Links = append(trace.Links, link)
		}
	}
	for i := range l.Items {
		one := &l.Items[i]
		trace.Links = append(trace.Links, itemTraceSteps(one)...)
		if one.From != "" && one.State == "waiting" {
			masters, err := c.api.Items(c.ctx, v1.ItemFilter{Namespace: namespace, Node: node, Key: one.From, Template: one.Template}, 1, "")
			if err == nil && len(masters.Items) == 1 {
				state := "a value came, and no value of this item"
				if masters.Items[0].State != "ok" {
					state = itemState(&masters.Items[0]).Text
				}
				trace.Links = append(trace.Links, v1.Link{Name: "master", Holds: masters.Items[0].State == "ok", Text: one.From + ": " + state, At: masters.Items[0].At})
			}
		}
	}
	return trace, true, nil
}

// itemTraceSteps returns the steps of an item's trace that describe the item's current state.
func itemTraceSteps(i *v1.ItemState) []v1.Link {
	source := v1.Link{Name: "source", Holds: true, Text: "template " + i.Template + ": "}
	switch {
	case i.Check != "":
		source.Text = "check " + i.Check + ": a number in its results" + textIf(i.Labels != nil, ", labels "+labelsText(i))
	case i.From != "":
		source.Text += "computed from item " + i.From
	case i.Trapper:
		source.Text += "external senders provide the value"
	case i.Formula != "":
		source.Text += fmt.Sprintf("formula %s, every %s", i.Formula, i.Interval)
	case i.Internal:
		source.Text += fmt.Sprintf("the server measures itself, every %s", i.Interval)
	case i.Interval != "":
		source.Text += fmt.Sprintf("the agent collects the item every %s", i.Interval)
	default:
		source.Text += "nobody collects the item"
	}
	value := v1.Link{Name: "value", Holds: i.State == "ok", Text: itemState(i).Text, At: i.At}
	if i.State == "unsupported" && strings.Contains(i.Reason, "\n") {
		for line := range strings.Lines(i.Reason) {
			value.Steps = append(value.Steps, v1.Link{Holds: true, Text: screen.FirstLine(line)})
		}
	}
	if i.State == "ok" {
		value.Text = cmp.Or(screen.FirstLine(i.Text), "-")
	}
	links := []v1.Link{source, value}
	for k := range i.Bounds {
		links = append(links, v1.Link{Name: i.Bounds[k].Kind, Holds: true, Text: boundText(&i.Bounds[k], i.Unit)})
	}
	for _, t := range i.Triggers {
		link := v1.Link{Name: "trigger", Holds: t.Unknown == "", Text: t.Name + ": " + t.Expression}
		if t.Problem {
			link.Text += "; PROBLEM"
		} else if t.Unknown != "" {
			link.Text += "; UNKNOWN: " + t.Unknown
		}
		links = append(links, link)
	}
	return links
}
