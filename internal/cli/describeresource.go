package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// shownEvents is how many events or nodes a description shows.
const shownEvents = 15

// describeResource shows a resource, its effect and its state; the declaration comes last.
func (a *app) describeResource(ctx context.Context, c *client.Client, k kind.Kind, name string) error {
	data, _, err := c.Resources.Get(ctx, k.KindInfo, a.ns(), name)
	if err != nil {
		return err
	}
	view, err := a.view(data)
	if err != nil {
		return err
	}
	namespace := ""
	if k.Namespaced {
		namespace = a.ns()
	}
	if node, ok := view.Resource.Spec.(*model.NodeSpec); ok {
		err = a.describeNode(ctx, c, view.Resource, node)
	} else {
		err = a.describeDeclared(ctx, c, k, view)
	}
	if err != nil {
		return err
	}
	switch k.Related {
	case kind.NodeEvents:
		err = a.describedEvents(ctx, c, v1.EventFilter{Namespace: namespace, Node: name}, "--node "+name)
	case kind.CheckEvents:
		f := v1.EventFilter{Namespace: namespace, Check: name}
		if namespace == model.SharedNamespaceName {
			f.Namespace = ""
		}
		err = a.describedEvents(ctx, c, f, "--check "+name)
	case kind.GroupMembers:
		err = a.describedMembers(ctx, c, namespace, name)
	}
	if err != nil {
		return err
	}
	changes, err := c.Resources.Changes(ctx, k.Name, namespace, name, 5, "")
	if err != nil {
		return err
	}
	if len(changes.Items) > 0 {
		fmt.Fprintln(a.Stdout, "\nlast changes")
		for _, change := range changes.Items {
			fmt.Fprintln(a.Stdout, "  "+clean(a.changeLine(change), false))
		}
	}
	return a.printDeclared(k, view.Resource)
}

// title is the first line: a name and how it is.
func (a *app) title(o *model.Resource, how cell) {
	name := clean(refOf(o.Kind, o.Metadata.Namespace, o.Metadata.Name), false)
	if o.Metadata.DisplayName != "" {
		name += " (" + clean(o.Metadata.DisplayName, false) + ")"
	}
	if how.text != "" {
		name += " is " + a.paint(how.colour, how.text)
	}
	fmt.Fprintf(a.Stdout, "%s\n\n", name)
}

func (a *app) describeNode(ctx context.Context, c *client.Client, o *model.Resource, spec *model.NodeSpec) error {
	list, err := c.Nodes.States(ctx, v1.NodeFilter{Namespace: o.Metadata.Namespace, Name: o.Metadata.Name, Limit: 1})
	if err != nil {
		return err
	}
	if len(list.Items) == 0 {
		return model.Errorf(model.NotFound, "node %s was deleted meanwhile", o.Metadata.Name).WithHint("muster get nodes; muster audit says who did it")
	}
	n := list.Items[0]
	a.title(o, nodeStatus(n))
	a.field("namespace", "%s", n.Namespace)
	switch bad := n.Events.NotOK(); {
	case bad > 0:
		a.field("events", "%s are not OK; %s open", n.Events.Failing(), model.CountNoun(n.Problems, "problem"))
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
		if spec.JoinGrant != nil && spec.JoinGrant.Token != "" {
			joined += ", with " + spec.JoinGrant.Source()
		}
		a.long("joined", "%s", joined)
	}
	if forget := spec.EffectiveLifecycle().ForgetDelay(); forget > 0 {
		whence := ""
		if spec.Lifecycle == nil {
			whence = "; " + spec.JoinGrant.Source()
			if spec.Facts["sensuEntity"] != "" {
				whence = "; its Sensu agent"
			}
		}
		tell, err := a.told(ctx, c, n.Namespace, spec.EffectiveLifecycle().Handlers)
		if err != nil {
			return err
		}
		whence = tell + whence
		a.long("lifecycle", "ephemeral: it is forgotten when it had no session for %s%s", model.Duration(forget), whence)
	}
	if h, said := spec.KeepaliveReceivers(); h != nil {
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

// describeDeclared shows the effect of a resource and the details of its kind.
func (a *app) describeDeclared(ctx context.Context, c *client.Client, k kind.Kind, view kind.View) (err error) {
	r := view.Resource
	if view.State, err = c.Resources.State(ctx, k.KindInfo, a.ns(), r.Metadata.Name); err != nil {
		return err
	}
	a.title(r, cell{})
	if k.Namespaced {
		a.field("namespace", "%s", r.Metadata.Namespace)
	}
	if len(r.Metadata.Labels) > 0 {
		a.field("labels", "%s", pairs(r.Metadata.Labels))
	}
	if parts := k.FromSensu(r.Spec); parts != "" {
		a.field("from Sensu", "%s: runs as it is; Muster's own kind is Route, see %s", parts, model.SensuKindsPage)
	}
	if view.State.Note != "" {
		a.field("effect", "%s", view.State.Note)
	}
	for _, detail := range k.Details(view) {
		a.field(detail.Name, "%s", detail.Text)
	}
	return nil
}

// describedEvents lists the worst events of a node or check.
func (a *app) describedEvents(ctx context.Context, c *client.Client, f v1.EventFilter, more string) error {
	f.Limit = shownEvents
	list, err := c.Events.List(ctx, f)
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
	list, err := c.Nodes.States(ctx, v1.NodeFilter{Namespace: namespace, Group: group, Limit: shownEvents})
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
func hearsText(h *model.KeepaliveReceivers, said bool) string {
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

// printDeclared shows the resource as apply takes it, without the fields that the server sets.
func (a *app) printDeclared(k kind.Kind, o *model.Resource) error {
	data, err := json.Marshal(model.Resource{APIVersion: o.APIVersion, Kind: o.Kind, Metadata: o.Metadata, Spec: k.Declared(o.Spec)})
	if err != nil {
		return fmt.Errorf("encode %s: %w", o.Metadata.Name, err)
	}
	text, err := document.YAML(data)
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
