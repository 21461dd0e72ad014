package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// getResources prints one resource or a list of them.
func (a *app) getResources(ctx context.Context, c *client.Client, k kind.Kind, names []string, g *getFlags) error {
	var items []json.RawMessage
	var states []v1.State
	next := ""
	switch {
	case len(names) > 0:
		for _, name := range names {
			item, _, err := c.Resources.Get(ctx, k.KindInfo, a.ns(), name)
			if err != nil {
				return err
			}
			items = append(items, item)
			if !g.output.machine() {
				state, err := c.Resources.State(ctx, k.KindInfo, a.ns(), name)
				if err != nil {
					return err
				}
				states = append(states, state)
			}
		}
	case k.Name == "Node" && !g.output.machine():
		return a.getNodes(ctx, c, g)
	default:
		namespace := a.namespace
		if g.all || !k.Namespaced {
			namespace = ""
		} else if namespace == "" {
			namespace = model.DefaultNamespaceName
		}
		var err error
		if items, states, next, err = listAll(ctx, c, k, namespace, g); err != nil {
			return err
		}
	}
	switch {
	case g.output.machine() && len(names) == 1:
		return a.printValue(*g.output, items[0])
	case *g.output == "yaml":
		return a.printDocuments(items)
	case *g.output == "json":
		return a.printValue("json", items)
	}
	if len(items) == 0 {
		match := ""
		if g.selector+g.where != "" {
			match = " match"
		}
		fmt.Fprintf(a.Stdout, "no %s%s%s\n", k.Plural, match, a.where(g, k))
		return nil
	}
	if err := a.resourceTable(k, items, states, g); err != nil {
		return err
	}
	if k.Sensu {
		fmt.Fprintf(a.Stdout, "kept from Sensu: they run as they are; Muster's own kind is Route, see %s\n", model.SensuKindsPage)
	}
	if next != "" {
		fmt.Fprintln(a.Stdout, "there are more: --limit 0 shows all, -l selects")
	}
	return nil
}

// printDocuments writes YAML documents that apply takes again.
func (a *app) printDocuments(items []json.RawMessage) error {
	for i, item := range items {
		if i > 0 {
			fmt.Fprintln(a.Stdout, "---")
		}
		if err := writeYAML(a.Stdout, item); err != nil {
			return err
		}
	}
	return nil
}

// listAll reads pages until there are enough; a program gets everything.
func listAll(ctx context.Context, c *client.Client, k kind.Kind, namespace string, g *getFlags) ([]json.RawMessage, []v1.State, string, error) {
	var items []json.RawMessage
	var states []v1.State
	after := ""
	for {
		size := 500
		if g.limit > 0 && !g.output.machine() {
			size = min(size, g.limit-len(items))
		}
		page, err := c.Resources.List(ctx, k.KindInfo, namespace, v1.ResourceFilter{Selector: g.selector, Where: g.where}, !g.output.machine(), size, after)
		if err != nil {
			return nil, nil, "", err
		}
		items, states = append(items, page.Items...), append(states, page.States...)
		if after = page.Next; after == "" || !g.output.machine() && g.limit > 0 && len(items) >= g.limit {
			return items, states, after, nil
		}
	}
}

func (a *app) where(g *getFlags, k kind.Kind) string {
	if g.all || !k.Namespaced {
		return ""
	}
	return " in namespace " + a.ns()
}

// resourceTable shows resources by the columns of their kind; states are those of items, or fewer
// where the server says less.
func (a *app) resourceTable(k kind.Kind, items []json.RawMessage, states []v1.State, g *getFlags) error {
	wide := *g.output == "wide"
	head := []string{"NAME"}
	if g.all && k.Namespaced {
		head = []string{"NAMESPACE", "NAME"}
	}
	for _, column := range k.Columns() {
		head = append(head, column.Name)
	}
	head = append(head, "CHANGED")
	if wide {
		head = append(head, "REVISION", "LABELS")
	}
	t := newTable(head...)
	for i, item := range items {
		view, err := a.view(item)
		if err != nil {
			return err
		}
		if i < len(states) {
			view.State = states[i]
		}
		r := view.Resource
		var row []any
		if g.all && k.Namespaced {
			row = append(row, r.Metadata.Namespace)
		}
		row = append(row, r.Metadata.Name)
		for _, column := range k.Columns() {
			text := column.Cell(view, r.Spec)
			if column.Max > 0 && !wide {
				text = cut(text, column.Max)
			}
			row = append(row, text)
		}
		changed, revision := "", ""
		if r.Status != nil {
			changed, revision = model.Age(a.Now(), r.Status.Updated), fmt.Sprint(r.Status.Revision)
		}
		row = append(row, changed)
		if wide {
			row = append(row, revision, pairs(r.Metadata.Labels))
		}
		t.add(row...)
	}
	return t.write(a.narrow(*g.output))
}

// view decodes a resource that the server sent.
func (a *app) view(data []byte) (kind.View, error) {
	r, err := a.Kinds.DecodeResource(data)
	return kind.View{Resource: r, Now: a.Now(), Zone: a.Zone}, err
}

func pairs(m map[string]string) string {
	keys := slices.Sorted(maps.Keys(m))
	for i, k := range keys {
		keys[i] = k + "=" + m[k]
	}
	return dash(strings.Join(keys, ","))
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
