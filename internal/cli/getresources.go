package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

// getResources prints one resource or a list of them.
func (a *app) getResources(ctx context.Context, c *client.Client, k model.KindInfo, names []string, g *getFlags) error {
	var items []json.RawMessage
	var states []v1.State
	next := ""
	switch {
	case len(names) > 0:
		for _, name := range names {
			item, _, err := c.Get(ctx, k, a.ns(), name)
			if err != nil {
				return err
			}
			items = append(items, item)
			if !g.output.machine() {
				state, err := c.State(ctx, k, a.ns(), name)
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
	if k.Kept {
		fmt.Fprintf(a.Stdout, "kept from Sensu: they run; what Muster teaches is Route, see %s\n", model.KeptPage)
	}
	if next != "" {
		fmt.Fprintln(a.Stdout, "there are more: --limit 0 shows all, -l narrows")
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
func listAll(ctx context.Context, c *client.Client, k model.KindInfo, namespace string, g *getFlags) ([]json.RawMessage, []v1.State, string, error) {
	var items []json.RawMessage
	var states []v1.State
	after := ""
	for {
		size := 500
		if g.limit > 0 && !g.output.machine() {
			size = min(size, g.limit-len(items))
		}
		page, err := c.List(ctx, k, namespace, v1.ResourceFilter{Selector: g.selector, Where: g.where}, !g.output.machine(), size, after)
		if err != nil {
			return nil, nil, "", err
		}
		items, states = append(items, page.Items...), append(states, page.States...)
		if after = page.Next; after == "" || !g.output.machine() && g.limit > 0 && len(items) >= g.limit {
			return items, states, after, nil
		}
	}
}

func (a *app) where(g *getFlags, k model.KindInfo) string {
	if g.all || !k.Namespaced {
		return ""
	}
	return " in namespace " + a.ns()
}

// resourceTable shows resources; states are those of items, or fewer where the server
// does not say.
func (a *app) resourceTable(k model.KindInfo, items []json.RawMessage, states []v1.State, g *getFlags) error {
	wide := *g.output == "wide"
	head := []string{"NAME"}
	if g.all && k.Namespaced {
		head = []string{"NAMESPACE", "NAME"}
	}
	head = append(head, kindColumns(k.Name)...)
	head = append(head, "CHANGED")
	if wide {
		head = append(head, "REVISION", "LABELS")
	}
	t := newTable(head...)
	for i, item := range items {
		var state v1.State
		if i < len(states) {
			state = states[i]
		}
		o, err := decodeObject(item)
		if err != nil {
			return err
		}
		var row []any
		if g.all && k.Namespaced {
			row = append(row, o.Metadata.Namespace)
		}
		row = append(row, o.Metadata.Name)
		for _, v := range a.kindValues(o, state, wide) {
			row = append(row, v)
		}
		changed, revision := "", ""
		if o.Status != nil {
			changed, revision = age(a.Now(), o.Status.Updated), fmt.Sprint(o.Status.Revision)
		}
		row = append(row, changed)
		if wide {
			row = append(row, revision, pairs(o.Metadata.Labels))
		}
		t.add(row...)
	}
	return t.write(a.narrow(*g.output))
}

func kindColumns(kind string) []string {
	switch kind {
	case "Node":
		return []string{"GROUPS", "OS"}
	case "Group":
		return []string{"NODES", "CHECKS", "WHO"}
	case "Property":
		return []string{"SCOPE", "VALUE", "READ ON"}
	case "Check":
		return []string{"NODES", "NOT OK", "EVERY", "ON", "RUNS"}
	case "Handler":
		return []string{"USED BY", "TELLS"}
	case "Namespace":
		return []string{"NODES", "DESCRIPTION"}
	case "Secret":
		return []string{"USED BY", "VALUE IS IN"}
	case "Silence":
		return []string{"COVERS", "UNTIL", "BY", "HOLDS", "REASON"}
	case "Window":
		return []string{"ON NOW", "NEXT", "MAINTENANCE OF", "WHEN"}
	case "Route":
		return []string{"CHECKS", "TAKES", "TELLS"}
	case "Filter":
		return []string{"PASSES"}
	case "Mutator":
		return []string{"RUNS"}
	case "Hook":
		return []string{"CHECKS", "RUNS"}
	case "Asset":
		return []string{"USED BY", "FOR"}
	case "Pipeline":
		return []string{"USED BY", "WORKFLOWS"}
	}
	return nil
}

// kindValues are the cells of kindColumns; long ones are cut unless the table is wide.
func (a *app) kindValues(o object, state v1.State, wide bool) []string {
	spec, err := model.DecodeSpec(o.Kind, o.Spec)
	if err != nil {
		return make([]string, len(kindColumns(o.Kind)))
	}
	short := func(text string, columns int) string {
		if wide {
			return text
		}
		return cut(text, columns)
	}
	nodes, checks := fmt.Sprint(state.Nodes), fmt.Sprint(state.Checks)
	switch s := spec.(type) {
	case *model.NodeSpec:
		return []string{dash(strings.Join(s.AllGroups(), ",")), dash(strings.TrimSpace(s.Facts["os"] + " " + s.Facts["arch"]))}
	case *model.GroupSpec:
		return []string{nodes, checks, short(members(s), 60)}
	case *model.PropertySpec:
		return []string{cmp.Or(s.Scope, "namespace"), short(compact(s.Value), 40), model.Counted(state.Nodes, "node")}
	case *model.CheckSpec:
		failing := "-"
		if state.Events != nil {
			failing = notOK(*state.Events)
		}
		return []string{nodes, failing, every(s), short(targets(s), 40), short(runs(s), 50)}
	case *model.HandlerSpec:
		text := tells(s)
		if state.Stream != nil {
			text += "; " + streamBehind(state.Stream)
		}
		return []string{dash(state.UsedBy), short(text, 60)}
	case *model.NamespaceSpec:
		return []string{nodes, dash(o.Metadata.DisplayName)}
	case *model.SecretSpec:
		return []string{dash(state.UsedBy), short(s.Place(), 60)}
	case *model.SilenceSpec:
		cells := a.silenceCells(s, state)
		cells[0], cells[4] = short(cells[0], 50), short(cells[4], 50)
		return cells
	case *model.WindowSpec:
		cells := a.windowCells(s, state)
		cells[2], cells[3] = short(cells[2], 40), short(cells[3], 50)
		return cells
	case *model.FilterSpec:
		return []string{short(passes(s), 80)}
	case *model.MutatorSpec:
		return []string{short(mutates(s), 80)}
	case *model.HookSpec:
		return []string{checks, short(commandText(s.Command), 60)}
	case *model.AssetSpec:
		return []string{dash(state.UsedBy), short(machines(s), 80)}
	case *model.PipelineSpec:
		return []string{dash(state.UsedBy), short(flows(s), 80)}
	case *model.RouteSpec:
		takes := "what names it"
		switch {
		case s.Match != nil:
			takes = selected(s.Match)
		case o.Metadata.Name == "default":
			takes = "what no other takes"
		}
		return []string{checks, short(takes, 40), short(stepsText(s), 60)}
	}
	return nil
}

// members says in words who is in a group.
func members(s *model.GroupSpec) string {
	var from []string
	if len(s.Nodes) > 0 {
		from = append(from, model.Counted(len(s.Nodes), "node")+" listed")
	}
	if len(s.Groups) > 0 {
		from = append(from, "groups "+strings.Join(s.Groups, ","))
	}
	switch s.Where {
	case "":
	case "true":
		from = append(from, "every node")
	default:
		from = append(from, "where "+s.Where)
	}
	if s.SelfJoin {
		from = append(from, "who says so itself")
	}
	return dash(strings.Join(from, "; "))
}

func tells(s *model.HandlerSpec) string {
	switch {
	case s.Webhook != nil:
		return "POST " + s.Webhook.URL
	case s.Command != nil:
		return commandText(s.Command)
	case s.Email != nil:
		return "email " + strings.Join(append(slices.Clone(s.Email.To), s.Email.CC...), ", ")
	case s.Alertmanager != nil:
		return "alertmanager " + strings.Join(s.Alertmanager.URLs, ", ")
	case s.TCP != nil:
		return "tcp " + s.TCP.Address
	case s.UDP != nil:
		return "udp " + s.UDP.Address
	case s.Stream != nil:
		if s.Stream.Results == model.AllResults {
			return "every result to " + s.Stream.Address
		}
		return "stream " + s.Stream.Address
	}
	return strings.Join(s.Tells(), ", ")
}

func runs(s *model.CheckSpec) string {
	if s.Passive {
		return "passive"
	}
	if s.Probe != nil {
		return "probe " + s.Probe.Name
	}
	return commandText(s.Command)
}

func every(s *model.CheckSpec) string {
	switch {
	case s.Disabled:
		return "disabled"
	case s.Cron != "":
		return s.Cron
	case s.Passive:
		return "-"
	}
	return s.Interval.String()
}

func targets(s *model.CheckSpec) string {
	if s.Targets == nil {
		return "-"
	}
	var on []string
	for _, g := range s.Targets.Groups {
		on = append(on, "group "+g)
	}
	on = append(on, s.Targets.Nodes...)
	if s.Targets.Where != "" {
		on = append(on, s.Targets.Where)
	}
	return dash(strings.Join(on, ", "))
}

func commandText(c *model.Command) string {
	switch {
	case c == nil:
		return "-"
	case c.Argv != nil:
		return strings.Join(c.Argv, " ")
	}
	return c.Shell
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
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
