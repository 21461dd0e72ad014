package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

// shownEvents is how many events or nodes a description shows.
const shownEvents = 15

// describeResource says what the thing is, where it lands and how it is; what was
// declared comes last.
func (a *app) describeResource(ctx context.Context, c *client.Client, k model.KindInfo, name string) error {
	data, _, err := c.Get(ctx, k, a.ns(), name)
	if err != nil {
		return err
	}
	o, err := decodeObject(data)
	if err != nil {
		return err
	}
	spec, err := model.DecodeSpec(o.Kind, o.Spec)
	if err != nil {
		return err
	}
	namespace := ""
	if k.Namespaced {
		namespace = a.ns()
	}
	if node, ok := spec.(*model.NodeSpec); ok {
		err = a.describeNode(ctx, c, o, node)
	} else {
		err = a.describeDeclared(ctx, c, k, o, spec)
	}
	if err != nil {
		return err
	}
	switch k.Name {
	case "Node":
		err = a.describedEvents(ctx, c, v1.EventFilter{Namespace: namespace, Node: name}, "--node "+name)
	case "Check":
		f := v1.EventFilter{Namespace: namespace, Check: name}
		if namespace == model.SharedNamespaceName {
			f.Namespace = ""
		}
		err = a.describedEvents(ctx, c, f, "--check "+name)
	case "Group":
		err = a.describedMembers(ctx, c, namespace, name)
	}
	if err != nil {
		return err
	}
	changes, err := c.Changes(ctx, k.Name, namespace, name, 5, "")
	if err != nil {
		return err
	}
	if len(changes.Items) > 0 {
		fmt.Fprintln(a.Stdout, "\nlast changes")
		for _, change := range changes.Items {
			fmt.Fprintln(a.Stdout, "  "+clean(a.changeLine(change), false))
		}
	}
	return a.printDeclared(o, spec)
}

// title is the first line: a name and how it is.
func (a *app) title(o object, how cell) {
	name := clean(refOf(o.Kind, o.Metadata.Namespace, o.Metadata.Name), false)
	if o.Metadata.DisplayName != "" {
		name += " (" + clean(o.Metadata.DisplayName, false) + ")"
	}
	if how.text != "" {
		name += " is " + a.paint(how.colour, how.text)
	}
	fmt.Fprintf(a.Stdout, "%s\n\n", name)
}

func (a *app) describeNode(ctx context.Context, c *client.Client, o object, spec *model.NodeSpec) error {
	list, err := c.NodeStates(ctx, v1.NodeFilter{Namespace: o.Metadata.Namespace, Name: o.Metadata.Name, Limit: 1})
	if err != nil {
		return err
	}
	if len(list.Items) == 0 {
		return model.Errorf(model.NotFound, "node %s was deleted meanwhile", o.Metadata.Name).WithHint("muster get nodes; muster audit says who did it")
	}
	n := list.Items[0]
	a.title(o, nodeStatus(n))
	a.field("namespace", "%s", n.Namespace)
	switch bad := wrong(n.Events); {
	case bad > 0:
		a.field("events", "%s are not OK; %s open", notOK(n.Events), model.Counted(n.Problems, "problem"))
	case n.Events.OK > 0:
		a.field("events", "%d, all OK", n.Events.OK)
	default:
		a.field("events", "none yet")
	}
	if !n.Proxy {
		a.field("heard of", "%s", a.when(n.Heard))
	}
	session := "not connected"
	switch {
	case n.Proxy:
		session = "none: it is a proxy node, other nodes run the checks about it"
	case n.Connected:
		session = "connected"
	case spec.UID == "":
		session = "its machine has not joined yet: muster node token"
	case n.Stopped:
		session = "stopped on purpose"
	}
	if n.Agent != "" {
		session += ", version " + n.Agent
	}
	a.field("agent", "%s", session)
	if err := a.describeAgent(ctx, c, n.Namespace, n.Name); err != nil {
		return err
	}
	a.describeMachine(spec.Facts)
	a.long("checks", "%d: %s", len(n.Checks), dash(strings.Join(n.Checks, ", ")))
	if o.Status != nil {
		joined := a.when(o.Status.Created)
		if spec.Given != nil && spec.Given.Token != "" {
			joined += ", with " + spec.Given.Source()
		}
		a.long("joined", "%s", joined)
	}
	if forget := spec.Life().Forget(); forget > 0 {
		whence := ""
		if spec.Lifecycle == nil {
			whence = "; " + spec.Given.Source()
			if spec.Facts["sensuEntity"] != "" {
				whence = "; its Sensu agent"
			}
		}
		tell, err := a.told(ctx, c, n.Namespace, spec.Life().Handlers)
		if err != nil {
			return err
		}
		whence = tell + whence
		a.long("lifecycle", "ephemeral: it is forgotten when it had no session for %s%s", model.Duration(forget), whence)
	}
	if h, said := spec.Hears(); h != nil {
		a.long("keepalive", "%s", hearsText(h, said))
	}
	if n.Origins == nil {
		return nil
	}
	a.describeNodeLimits(n.Origins.Limits)
	a.describeGroups(n.Origins, n.Name)
	a.describeLabels(n.Origins.Labels, spec.Facts)
	a.describeProperties(n.Origins.Properties)
	return nil
}

func (a *app) describeDeclared(ctx context.Context, c *client.Client, k model.KindInfo, o object, spec model.Spec) error {
	state, err := c.State(ctx, k, a.ns(), o.Metadata.Name)
	if err != nil {
		return err
	}
	a.title(o, cell{})
	if k.Namespaced {
		a.field("namespace", "%s", o.Metadata.Namespace)
	}
	if len(o.Metadata.Labels) > 0 {
		a.field("labels", "%s", pairs(o.Metadata.Labels))
	}
	if what, kept := model.KeptFromSensu(&model.Resource{Kind: k.Name, Spec: spec}); kept {
		a.field("kept", "from Sensu (%s): it runs; what Muster teaches is Route, see %s", what, model.KeptPage)
	}
	if state.Note != "" {
		a.field("effect", "%s", state.Note)
	}
	switch s := spec.(type) {
	case *model.CheckSpec:
		a.describeCheck(s, state)
	case *model.NamespaceSpec:
		a.describeLimits(state.Limits)
	case *model.GroupSpec:
		a.field("who", "%s", members(s))
		a.field("checks", "%s", "targeted by "+model.Counted(state.Checks, "check"))
	case *model.PropertySpec:
		a.field("scope", "%s", cmp.Or(s.Scope, "namespace"))
		a.field("value", "%s", compact(s.Value))
		a.field("read by", "%s", model.Counted(state.Checks, "check"))
	case *model.HandlerSpec:
		a.field("tells", "%s", tells(s))
		a.needsAssets(s.Assets)
		if state.Stream != nil {
			a.describeStream(state.Stream)
		}
	case *model.SecretSpec:
		a.field("value is in", "%s", s.Place())
	case *model.FilterSpec:
		a.field("passes", "%s", passes(s))
		a.needsAssets(s.Assets)
	case *model.MutatorSpec:
		a.field("runs", "%s", mutates(s))
		a.needsAssets(s.Assets)
	case *model.HookSpec:
		a.field("runs", "%s", commandText(s.Command))
	case *model.AssetSpec:
		for i := range s.Builds {
			a.field("for", "%s", s.Builds[i].For())
			a.field("  sha512", "%s", s.Builds[i].SHA512)
			if s.Builds[i].URL != "" {
				a.field("  from", "%s", s.Builds[i].URL)
			}
		}
	case *model.PipelineSpec:
		a.field("workflows", "%s", flows(s))
	}
	return nil
}

// describeLimits shows each limit beside its use, and how often it was met.
func (a *app) describeLimits(limits []v1.LimitUse) {
	for i, l := range limits {
		name := ""
		if i == 0 {
			name = "limits"
		}
		text := l.Name + " " + strconv.FormatFloat(l.Limit, 'f', -1, 64)
		if l.Used != nil && l.Name == "statesPerNode" {
			text += fmt.Sprintf(", at most %d on one node", *l.Used)
		} else if l.Used != nil {
			text += fmt.Sprintf(", %d are used", *l.Used)
		}
		if l.Met > 0 {
			text += fmt.Sprintf("; met %d times, last %s ago by node %s: %s", l.Met, age(a.Now(), l.Last), l.Node, l.Reason)
		}
		a.field(name, "%s", text)
	}
}

func (a *app) describeCheck(s *model.CheckSpec, state v1.State) {
	a.field("runs", "%s", runs(s))
	when := every(s)
	if s.Cron == "" && !s.Disabled {
		when = "every " + when
	}
	if s.Timeout > 0 {
		when += ", ended after " + s.Timeout.String()
	}
	if s.TTL > 0 {
		when += ", missed after " + s.TTL.String()
	}
	a.field("when", "%s", when)
	a.field("on", "%s", targets(s))
	alert := model.Alert{}
	if s.Alert != nil {
		alert = *s.Alert
	}
	tells := "tells the handlers of the node's namespace"
	switch {
	case len(alert.Handlers) > 0:
		tells = "tells " + strings.Join(alert.Handlers, ", ")
	case alert.Route != "":
		tells = "tells those of route " + alert.Route
	case len(s.Pipelines) > 0:
		tells = "tells nobody but routes that match"
	}
	a.field("problem", "opens after %s not OK, closes after %d OK; %s", model.Counted(max(alert.FailAfter, 1), "result"), max(alert.RecoverAfter, 1), tells)
	if len(s.Pipelines) > 0 {
		a.field("pipelines", "%s get every event", strings.Join(s.Pipelines, ", "))
	}
	if e := state.Events; e != nil {
		a.field("events", "%d: %d critical, %d unknown, %d warning, %d ok; %s open", e.OK+wrong(*e), e.Critical, e.Unknown, e.Warning, e.OK, model.Counted(state.Problems, "problem"))
	}
}

// describedEvents lists the worst events of a node or check.
func (a *app) describedEvents(ctx context.Context, c *client.Client, f v1.EventFilter, more string) error {
	f.Limit = shownEvents
	list, err := c.Events(ctx, f)
	if model.ClassOf(err) == model.NotFound {
		return nil
	}
	if err != nil || len(list.Items) == 0 {
		return err
	}
	fmt.Fprintln(a.Stdout, "\nevents, worst first")
	table := format("table")
	if err := a.eventTable(list.Items, &getFlags{output: &table}).write(a.Env); err != nil {
		return err
	}
	if list.Next != "" {
		fmt.Fprintf(a.Stdout, "there are more: muster get events %s\n", more)
	}
	return nil
}

// describedMembers lists the worst members of a group.
func (a *app) describedMembers(ctx context.Context, c *client.Client, namespace, group string) error {
	list, err := c.NodeStates(ctx, v1.NodeFilter{Namespace: namespace, Group: group, Limit: shownEvents})
	if err != nil || len(list.Items) == 0 {
		return err
	}
	fmt.Fprintln(a.Stdout, "\nnodes, worst first")
	table := format("table")
	if err := a.nodeTable(list.Items, &getFlags{output: &table}).write(a.Env); err != nil {
		return err
	}
	if list.Total > len(list.Items) {
		fmt.Fprintf(a.Stdout, "%d more: muster get nodes --group %s\n", list.Total-len(list.Items), group)
	}
	return nil
}

// hearsText is who hears of a node's keepalive; said: by its agent.
func hearsText(h *model.Hears, said bool) string {
	var parts []string
	for _, p := range []struct {
		what  string
		names []string
	}{{"handlers", h.Handlers}, {"pipelines", h.Pipelines}} {
		if len(p.names) > 0 {
			parts = append(parts, p.what+" "+strings.Join(p.names, ", "))
		}
	}
	text := "is heard by " + strings.Join(parts, " and ")
	if said {
		text += "; its Sensu agent, as far as they are there"
	}
	return text
}

// printDeclared shows the resource as it can be applied again, without what agents
// measured and what it was given: that stands above.
func (a *app) printDeclared(o object, spec model.Spec) error {
	if node, ok := spec.(*model.NodeSpec); ok {
		node.Given, node.Facts, node.AgentLabels, node.AgentGroups, node.AgentHears = nil, nil, nil, nil, nil
	}
	data, err := json.Marshal(model.Resource{APIVersion: o.APIVersion, Kind: o.Kind, Metadata: o.Metadata, Spec: spec})
	if err != nil {
		return fmt.Errorf("encode %s: %w", o.Metadata.Name, err)
	}
	text, err := model.YAML(data)
	if err != nil {
		return err
	}
	revision := ""
	if o.Status != nil {
		revision = fmt.Sprintf(" (revision %d)", o.Status.Revision)
	}
	fmt.Fprintf(a.Stdout, "\ndeclared%s\n%s\n", revision, indent(strings.TrimRight(clean(string(text), true), "\n")))
	return nil
}
