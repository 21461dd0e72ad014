package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/inventory"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// getInventory prints a node's inventory, such as packages, or the changes of the inventory since a time.
func getInventory(c *commandCall, names []string, g *getFlags) error {
	if len(names) == 0 || len(names) > 2 {
		return model.Errorf(model.Invalid, "expected one or two arguments, NODE [SECTION], got %d", len(names)).
			WithHint(`search in all nodes: muster get nodes --where 'inventory.packages.exists(p, p.name == "openssl")'`)
	}
	if g.Selector != "" {
		return model.Errorf(model.Invalid, "entries of an inventory have no labels").WithHint(`muster get inventory %s --where 'row.name == "openssl"'`, names[0])
	}
	namespace, node, err := c.findObject(kind.Node().KindInfo, names[0])
	if err != nil {
		return err
	}
	section := ""
	if len(names) == 2 {
		section = names[1]
	}
	since, err := parsePastTime(c.commandLine, "since", g.period.since)
	if err != nil {
		return err
	}
	x, err := c.api.Nodes.Inventory(c.ctx, namespace, node, section, since, g.RowFilter)
	if err != nil {
		return err
	}
	matching := textIf(g.Where != "", "no entries match")
	stale := textIf(x.Stale, "a change was lost; the agent sends the complete inventory with its next session")
	if !since.IsZero() {
		return listOutput[v1.InventoryChange]{
			value: x, items: x.Changes, empty: cmp.Or(matching, "no changes since "+c.TimeAndAge(since)), notes: []string{stale},
			columns: screen.SplitColumns("TIME|SECTION|NAME|CHANGE"),
			row: func(d v1.InventoryChange) []any {
				e := cmp.Or(d.After, d.Before)
				return []any{c.AgeText(d.At), e.Section, e.Name, inventoryChangeText(d)}
			},
		}.print(c)
	}
	items := x.Items
	if g.limit > 0 && len(items) > g.limit {
		items = items[:g.limit]
	}
	more := textIf(len(items) < len(x.Items), model.CountNoun(len(x.Items)-len(items), "more entry")+": --limit 0 shows all, a section narrows: "+strings.Join(inventory.SectionNames(), ", "))
	if form, ok := inventory.SchemaByName(section); ok {
		return listOutput[v1.InventoryEntry]{
			value: x, items: items, empty: cmp.Or(matching, "no "+section+" on node "+node), notes: []string{more, stale},
			columns: screen.SplitColumns(strings.ToUpper(strings.Join(form.Fields, "|"))),
			row: func(e v1.InventoryEntry) (row []any) {
				for _, name := range form.Fields {
					row = append(row, e.Fields[name])
				}
				return row
			},
		}.print(c)
	}
	return listOutput[v1.InventoryEntry]{
		value: x, items: items, empty: cmp.Or(matching, "the inventory is empty"), notes: []string{more, stale},
		columns: screen.SplitColumns("SECTION|NAME|VALUE"),
		row:     func(e v1.InventoryEntry) []any { return []any{e.Section, e.Name, fieldsText(&e)} },
	}.print(c)
}

// fieldsText formats all fields of an inventory entry, such as a version, except its name. A single field is
// its value; several are NAME=VALUE.
func fieldsText(e *v1.InventoryEntry) string {
	form, _ := inventory.SchemaByName(e.Section)
	var parts []string
	for _, name := range form.Fields[min(1, len(form.Fields)):] {
		value := e.Fields[name]
		if len(form.Fields) == 2 {
			return value
		}
		if value != "" {
			parts = append(parts, name+"="+value)
		}
	}
	return strings.Join(parts, " ")
}

// inventoryChangeText describes one change of a node's inventory, such as an updated package. The text starts
// with new or gone, or has the fields with old and new values.
func inventoryChangeText(d v1.InventoryChange) string {
	switch {
	case d.Before == nil:
		return "new: " + fieldsText(d.After)
	case d.After == nil:
		return "gone: " + fieldsText(d.Before)
	}
	form, _ := inventory.SchemaByName(d.After.Section)
	var parts []string
	for _, name := range form.Fields {
		if before, after := d.Before.Fields[name], d.After.Fields[name]; before != after {
			parts = append(parts, name+" "+cmp.Or(before, `""`)+" → "+cmp.Or(after, `""`))
		}
	}
	return strings.Join(parts, ", ")
}

// describeInventory prints how many entries each section of a node's inventory has, if the node has one.
func describeInventory(c *commandCall, namespace, node string) error {
	x, err := c.api.Nodes.Inventory(c.ctx, namespace, node, inventory.SchemaOf(inventory.System).Name, time.Time{})
	if model.ClassOf(err) == model.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	var parts []string
	for _, s := range x.Sections {
		if !slices.Contains([]string{"system", "hardware"}, s.Name) {
			parts = append(parts, fmt.Sprint(s.Entries, " ", s.Name))
		}
	}
	c.printField("inventory", "%s; changed %s", strings.Join(parts, ", "), c.AgeText(x.Changed))
	return nil
}

// nodeInventoryCommand makes the command muster node inventory.
func nodeInventoryCommand(s *commandLine) *cobra.Command {
	return s.buildCommand(command{
		use: "inventory NAME", short: "Ask the agent of a node to collect its inventory now",
		args: cobra.ExactArgs(1), complete: s.completeNames(kind.Node().KindInfo),
		run: func(c *commandCall) error {
			namespace, name, err := c.findObject(kind.Node().KindInfo, c.args[0])
			if err != nil {
				return err
			}
			if err := c.api.Nodes.CollectInventory(c.ctx, namespace, name); err != nil {
				return err
			}
			c.Printf("the agent of node %s collects its inventory: muster get inventory %s\n", name, name)
			return nil
		},
	})
}
