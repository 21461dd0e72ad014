package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// getFlags holds the flags of muster get. Each list takes some of them: see validateGetFlags.
type getFlags struct {
	listFlags
	watch                      bool
	node, check, group, status string
	directive, policy, by      string
	directiveLabels            string
	problem, open              bool
	at                         string
	match, contains            string
	period                     timeRange
	version                    string
	spooling, disconnected     bool
	noHeaders                  bool
	sortBy                     string
}

// registerFlags adds the flags of muster get.
func (g *getFlags) registerFlags(flags *pflag.FlagSet) {
	g.registerSelector(flags, "labels; of node or problem in events and problems, of the node in history and agents")
	g.registerWhere(flags, "event and node (events), node (nodes), metadata and spec (resources), or row, as -o json shows it, and node (other lists)")
	flags.BoolVarP(&g.watch, "watch", "w", false, "events, problems, nodes: continue with each change (events with -o wide: also of output); with -o json or name only changes, one per line")
	flags.IntVar(&g.limit, "limit", 50, "maximum number of rows (0: all); JSON and YAML of resources are always complete")
	flags.StringVar(&g.group, "group", "", "nodes, events: of this group")
	flags.StringVar(&g.node, "node", "", "events, problems, history, items, texts, compliance: of this node")
	flags.StringVar(&g.directive, "directive", "", "compliance: of this Directive")
	flags.StringVar(&g.directiveLabels, "directive-labels", "", "compliance: of directives with these labels: cis=5.1.20,tier!=lab,!old")
	flags.StringVar(&g.by, "by", "", "compliance: sums over all nodes, with this unit of a row: "+strings.Join(complianceUnits[:len(complianceUnits)-1], ", "))
	flags.StringVar(&g.policy, "policy", "", "compliance: of this Policy")
	flags.StringVar(&g.check, "check", "", "events, problems, history: of this check")
	flags.StringVar(&g.status, "status", "", "events: ok, warning, critical, unknown; comma-separated. compliance: such as non-compliant, error or \"no report\"")
	flags.BoolVar(&g.problem, "problem", false, "events: only with an open problem; history: with the id of a problem, what happened to it")
	flags.BoolVar(&g.open, "open", false, "problems: only open ones")
	g.period.registerFlags(flags, "", "history, texts, inventory (--since only): ")
	flags.StringVar(&g.match, "match", "", "texts: with each of these words")
	flags.StringVar(&g.contains, "contains", "", "texts: with this part, which may begin and end within words")
	flags.BoolVar(&g.noHeaders, "no-headers", false, "leave the heads of tables out")
	flags.StringVar(&g.sortBy, "sort-by", "", "sort all rows by a field of -o json: .metadata.name, .received")
	flags.StringVar(&g.at, "at", "", "events, compliance: their state at this time: "+pastTimes)
	flags.StringVar(&g.version, "version", "", "agents: with this version; 1.2 also means 1.2.x")
	flags.BoolVar(&g.spooling, "spooling", false, "agents: only agents with results that wait longer than a minute")
	flags.BoolVar(&g.disconnected, "disconnected", false, "agents: only agents that should have a session and have none")
}

// selectsAllEvents reports whether muster get lists all events of a namespace, because no flag filters the
// list.
func (g *getFlags) selectsAllEvents() bool {
	return g.node+g.check+g.status+g.group == "" && !g.hasFilter() && !g.problem
}

// getCommand makes the command muster get.
func getCommand(s *commandLine) *cobra.Command {
	var g getFlags
	var word string
	var names []string
	c := s.buildCommand(command{
		use:      "get KIND [NAME...]",
		short:    "List events, problems, agents, resources or queues, worst first",
		args:     cobra.MinimumNArgs(1),
		complete: s.completeObjects(1000),
		flags:    g.registerFlags,
		formats:  []string{"name"},
		run: func(c *commandCall) (err error) {
			if word, names, err = c.kindAndNames(c.cmd, c.args); err != nil {
				return err
			}
			if g.limit < 0 {
				return model.Errorf(model.Invalid, "--limit %d: expected a number of rows, or 0 for all", g.limit)
			}
			if c.NoHeaders, c.sortBy = g.noHeaders, g.sortBy; g.sortBy != "" {
				g.limit = 0
			}
			if words := strings.Split(word, ","); len(words) > 1 {
				return getSeveralKinds(c, words, names, &g)
			}
			return getKind(c, word, names, &g)
		},
	})
	_ = c.RegisterFlagCompletionFunc("status", cobra.FixedCompletions([]string{"ok", "warning", "critical", "unknown"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// getSeveralKinds prints the lists of several kinds, one after another. As JSON it prints one object with a list for
// each kind.
func getSeveralKinds(c *commandCall, words, names []string, g *getFlags) error {
	if len(names) > 0 || g.watch {
		return model.Errorf(model.Invalid, "a list of several kinds cannot be combined with names or -w").WithHint("muster get %s", words[0])
	}
	out, objects := c.Out, map[string]json.RawMessage{}
	for i, word := range words {
		var one bytes.Buffer
		if c.Format == screen.JSON {
			c.Out = &one
		} else if i > 0 && c.Format == screen.YAML {
			c.Printf("---\n")
		} else if i > 0 && !c.Format.IsForPrograms() {
			c.Printf("\n")
		}
		err := getKind(c, word, nil, g)
		if c.Out = out; err != nil {
			return err
		}
		objects[word] = one.Bytes()
	}
	if c.Format == screen.JSON {
		return c.WriteValue(objects)
	}
	return nil
}

// getKind prints the list of all objects of a kind, or only the named objects
func getKind(c *commandCall, word string, names []string, g *getFlags) error {
	list, known := findServerStateList(word)
	if err := validateGetFlags(c, cmp.Or(list.name, word)); err != nil {
		return err
	}
	if known {
		return list.get(c, names, g)
	}
	k, err := c.findKind(word)
	if err != nil {
		return err
	}
	return getResources(c, k, names, g)
}

// validateGetFlags returns an error for flags of muster get that do not apply to the requested list
func validateGetFlags(c *commandCall, list string) (err error) {
	common := []string{"output", "selector", "limit", "where", "help", "no-headers", "sort-by"}
	computed, _ := findServerStateList(list)
	own := strings.Fields(computed.flags)
	if k, ok := c.Kinds.Lookup(list); ok {
		list = k.Plural
	}
	if list == "nodes" {
		own = []string{"watch", "group"}
	}
	c.cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Changed || err != nil || slices.Contains(common, f.Name) || slices.Contains(own, f.Name) {
			return
		}
		e := model.Errorf(model.Invalid, "--%s is not a flag of %s", f.Name, list)
		switch {
		case f.Name == "group" && (list == "problems" || list == "history" || list == "agents"):
			err = e.WithHint(`muster get %s --where '"%s" in node.groups'`, list, f.Value)
		case f.Name == "status" && list == "problems":
			err = e.WithHint("muster get problems --where 'row.status == %s'", strings.ToUpper(strings.Split(f.Value.String(), ",")[0]))
		case f.Name == "watch":
			err = model.Errorf(model.Invalid, "only events, problems and nodes can be watched").WithHint("muster get events -w")
		default:
			err = e.WithHint("flags of each list: muster get --help")
		}
	})
	return err
}

// getResources lists the declared resources of a kind, or shows the named resources.
func getResources(c *commandCall, k kind.Kind, names []string, g *getFlags) (err error) {
	var items []json.RawMessage
	var states []v1.State
	next := ""
	switch {
	case len(names) > 0 && g.watch:
		return model.Errorf(model.Invalid, "-w watches a list of nodes: it cannot be combined with names of single nodes").WithHint("muster get events -w --node %s", names[0])
	case len(names) > 0:
		for _, name := range names {
			namespace, name, err := c.findObject(k.KindInfo, name)
			if err != nil {
				return err
			}
			item, _, err := c.api.Resources.Get(c.ctx, k.KindInfo, namespace, name)
			if err != nil {
				return err
			}
			items = append(items, item)
			if !c.Format.IsForPrograms() {
				state, err := c.api.Resources.State(c.ctx, k.KindInfo, namespace, name)
				if err != nil {
					return err
				}
				states = append(states, state)
			}
		}
	case k.Name == "Node" && (g.watch || !c.Format.IsForPrograms()):
		return getNodes(c, g)
	default:
		limit := g.limit
		if c.Format.IsForPrograms() {
			limit = 0
		}
		items, next, err = client.Pages(limit, func(size int, after string) ([]json.RawMessage, string, error) {
			page, err := c.api.Resources.List(c.ctx, k.KindInfo, c.kindNamespace(k.KindInfo), v1.ResourceFilter{Selector: g.Selector, Where: g.Where}, !c.Format.IsForPrograms(), size, after)
			states = append(states, page.States...)
			return page.Items, page.Next, err
		})
		if err != nil {
			return err
		}
	}
	if c.sortBy != "" {
		order, err := screen.SortByPath(items, c.sortBy)
		if err != nil {
			return err
		}
		sorted, sortedStates := slices.Clone(items), slices.Clone(states)
		for to, from := range order {
			sorted[to] = items[from]
			if from < len(states) {
				sortedStates[to] = states[from]
			}
		}
		items, states, c.sortBy = sorted, sortedStates, ""
	}
	switch {
	case c.Format.IsForPrograms() && len(names) == 1:
		return c.WriteValue(items[0])
	case c.Format == screen.YAML:
		return printDocuments(c, items)
	case c.Format == screen.JSON && items == nil:
		items = []json.RawMessage{}
	}
	views := make([]kind.ResourceView, len(items))
	for i := range items {
		if c.Format.IsForPrograms() {
			break
		}
		if views[i], err = newResourceView(c, items[i]); err != nil {
			return err
		}
		if i < len(states) {
			views[i].State = states[i]
		}
	}
	empty := "no " + k.Plural
	empty += textIf(g.hasFilter(), " match")
	empty += textIf(!c.allNamespaces && k.Namespaced, " in namespace "+c.objectNamespace())
	notes := []string{
		textIf(k.Sensu && len(items) > 0, "Sensu kinds: they work as in Sensu. Muster's own kind is Route: "+model.SensuKindsPage),
		textIf(next != "", "more rows: --limit 0 shows all, -l selects"),
	}
	columns := "NAMESPACE|NAME|"
	for _, column := range k.Columns {
		columns += column.Name + "|"
	}
	return listOutput[kind.ResourceView]{
		value: items, items: views, empty: empty, notes: notes,
		columns: screen.SplitColumns(columns+"CHANGED|REVISION|LABELS").HideUnless(c.allNamespaces && k.Namespaced, "NAMESPACE").
			HideUnless(c.Format == screen.Wide, "REVISION", "LABELS"),
		row: func(v kind.ResourceView) []any { return resourceCells(c, k, v) },
	}.print(c)
}

// resourceCells returns the cells of a resource's row in the table of muster get. They are its namespace and
// name, the columns of its kind, and the age of its last change.
func resourceCells(c *commandCall, k kind.Kind, v kind.ResourceView) []any {
	row := []any{v.Resource.Metadata.Namespace, v.Resource.Metadata.Name}
	for _, column := range k.Columns {
		text := column.Cell(v, v.Resource.Spec)
		if column.Max > 0 && c.Format != screen.Wide {
			text = screen.CutToWidth(text, column.Max)
		}
		row = append(row, text)
	}
	if s := v.Resource.Status; s != nil {
		row = append(row, model.Age(c.Now(), s.Updated), s.Revision)
	} else {
		row = append(row, "", "")
	}
	return append(row, labelText(v.Resource.Metadata.Labels))
}

// printDocuments prints resources as YAML documents in a form that muster apply accepts.
func printDocuments(c *commandCall, items []json.RawMessage) error {
	for i, item := range items {
		if i > 0 {
			c.Printf("---\n")
		}
		if err := screen.WriteYAML(c.Out, item); err != nil {
			return err
		}
	}
	return nil
}

// newResourceView decodes a resource for a table. The present time and time zone are for the columns.
func newResourceView(c *commandCall, data []byte) (kind.ResourceView, error) {
	r, err := c.Kinds.DecodeResource(data)
	return kind.ResourceView{Resource: r, Now: c.Now(), Zone: c.Zone}, err
}
