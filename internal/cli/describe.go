package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// describeRows is how many events or nodes a description lists.
const describeRows = 15

// fieldColumns is the width of the names of fields in a description.
const fieldColumns = 14

func describeCommand(s *session) *cobra.Command {
	var word string
	var names []string
	return s.build(command{
		use: "describe KIND NAME", short: "Show everything about one object",
		long:    "Shows an object, its effect, its state and its declaration. Of an event also its history and\nnotifications.",
		example: "  muster describe event web01/disk\n  muster describe node web01\n  muster describe check disk",
		args:    cobra.RangeArgs(1, 2), complete: s.completeObjects(1), noFormat: true,
		check: func(c *call) (err error) {
			if word, names, err = c.kindAndNames(c.cmd, c.args); err == nil && len(names) != 1 {
				err = c.missingName(c.cmd, word)
			}
			return err
		},
		run: func(c *call) error {
			switch list, _ := stateOf(word); list {
			case events:
				return describeEvent(c, names[0])
			case problems:
				return describeProblem(c, names[0])
			}
			k, err := c.kindOf(word)
			if err != nil {
				return err
			}
			return describeResource(c, k, names[0])
		},
	})
}

// field writes one field of a description.
func (c *call) field(name, format string, args ...any) { c.Field(fieldColumns, name, format, args...) }

// item writes one field below a heading.
func (c *call) item(name, format string, args ...any) {
	c.Field(fieldColumns+2, "  "+name, format, args...)
}

// describeResource shows a resource, its effect, related events or nodes, changes and declaration.
func describeResource(c *call, k kind.Kind, name string) error {
	data, _, err := c.api.Resources.Get(c.ctx, k.KindInfo, c.ns(), name)
	if err != nil {
		return err
	}
	view, err := viewOf(c, data)
	if err != nil {
		return err
	}
	namespace := c.nsUnless(!k.Namespaced)
	steps := []func() error{
		func() error {
			if node, ok := view.Resource.Spec.(*model.NodeSpec); ok {
				return describeNode(c, view.Resource, node)
			}
			return describeDeclared(c, k, view)
		},
		func() error { return describeRelated(c, k, namespace, name) },
		func() error { return describeChanges(c, k, namespace, name) },
		func() error { return printDeclaration(c, k, view.Resource) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// describeDeclared shows the effect of a resource and the details of its kind.
func describeDeclared(c *call, k kind.Kind, view kind.View) (err error) {
	r := view.Resource
	if view.State, err = c.api.Resources.State(c.ctx, k.KindInfo, c.ns(), r.Metadata.Name); err != nil {
		return err
	}
	c.Printf("%s\n\n", resourceTitle(r))
	if k.Namespaced {
		c.field("namespace", "%s", r.Metadata.Namespace)
	}
	if len(r.Metadata.Labels) > 0 {
		c.field("labels", "%s", labelText(r.Metadata.Labels))
	}
	if parts := k.FromSensu(r.Spec); parts != "" {
		c.field("from Sensu", "%s: works as before. Muster's own kind is Route: %s", parts, model.SensuKindsPage)
	}
	if view.State.Note != "" {
		c.field("effect", "%s", view.State.Note)
	}
	for _, detail := range k.Details(view) {
		c.field(detail.Name, "%s", detail.Text)
	}
	return nil
}

// resourceTitle returns kind, namespace and name, and the display name if there is one.
func resourceTitle(r *model.Resource) string {
	title := refOf(r.Kind, r.Metadata.Namespace, r.Metadata.Name)
	if r.Metadata.DisplayName != "" {
		title += " (" + r.Metadata.DisplayName + ")"
	}
	return title
}

// describeRelated lists the worst events or nodes of a resource, as its kind declares.
func describeRelated(c *call, k kind.Kind, namespace, name string) error {
	f, flag := v1.EventFilter{Namespace: namespace, Limit: describeRows}, "--node "+name
	switch k.Related {
	case kind.NodeEvents:
		f.Node = name
	case kind.CheckEvents:
		f.Check, flag = name, "--check "+name
		if namespace == model.SharedNamespaceName {
			f.Namespace = ""
		}
	case kind.GroupMembers:
		l, err := c.api.Nodes.States(c.ctx, v1.NodeFilter{Namespace: namespace, Group: name, Limit: describeRows})
		if err != nil || len(l.Items) == 0 {
			return err
		}
		c.Printf("\nnodes, worst first\n")
		more := ""
		if left := l.Total - len(l.Items); left > 0 {
			more = fmt.Sprintf("%d more: muster get nodes --group %s", left, name)
		}
		return list[v1.NodeState]{items: l.Items, columns: nodeColumns(c, false), notes: []string{more}}.print(c)
	default:
		return nil
	}
	l, err := c.api.Events.List(c.ctx, f)
	if model.ClassOf(err) == model.NotFound {
		return nil
	}
	if err != nil || len(l.Items) == 0 {
		return err
	}
	c.Printf("\nevents, worst first\n")
	more := ""
	if l.Next != "" {
		more = "there are more: muster get events " + flag
	}
	return eventList(c, l, &getFlags{}, more).print(c)
}

func describeChanges(c *call, k kind.Kind, namespace, name string) error {
	changes, err := c.api.Resources.Changes(c.ctx, k.Name, namespace, name, 5, "")
	if err != nil {
		return err
	}
	if len(changes.Items) > 0 {
		c.Printf("\nlast changes\n")
		for _, change := range changes.Items {
			c.Printf("  %s %s\n", c.Ago(change.At), changeText(change))
		}
	}
	return nil
}

// printDeclaration writes the resource as apply accepts it, without the fields of the server.
func printDeclaration(c *call, k kind.Kind, r *model.Resource) error {
	data, err := json.Marshal(model.Resource{APIVersion: r.APIVersion, Kind: r.Kind, Metadata: r.Metadata, Spec: k.Declared(r.Spec)})
	if err != nil {
		return fmt.Errorf("encode %s: %w", r.Metadata.Name, err)
	}
	text, err := document.YAML(data)
	if err != nil {
		return err
	}
	revision := ""
	if r.Status != nil {
		revision = fmt.Sprintf(" (revision %d)", r.Status.Revision)
	}
	c.Printf("\ndeclared%s\n%s\n", revision, screen.Painted(screen.Indent(string(text))))
	return nil
}

// handlerNotes returns handlers, each with the reason why it cannot take a message about a removed
// node: an agent of Sensu may name a handler that does not exist.
func handlerNotes(ctx context.Context, c *call, namespace string, refs []string) (string, error) {
	notes := make([]string, len(refs))
	for i, ref := range refs {
		ns, name := model.SplitRef(namespace, ref)
		data, _, err := c.api.Resources.Get(ctx, kind.Handler().KindInfo, ns, name)
		switch class := model.ClassOf(err); {
		case class == model.NotFound:
			ref += " (does not exist: the message waits until it is applied)"
		case class == model.Forbidden: // in a namespace that the reader may not see
		case err != nil:
			return "", err
		default:
			r, err := c.Kinds.DecodeResource(data)
			if err != nil {
				return "", err
			}
			if service := r.Spec.(*model.HandlerSpec).ProblemService(); service != "" {
				ref += " (" + service + " takes problems only: the message is given up)"
			}
		}
		notes[i] = ref
	}
	return strings.Join(notes, ", "), nil
}
