package cli

import (
	"context"
	"encoding/json"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// getResources lists the resources of a kind, or those with the names.
func getResources(c *call, k kind.Kind, names []string, g *getFlags) (err error) {
	var items []json.RawMessage
	var states []v1.State
	next := ""
	switch {
	case len(names) > 0:
		for _, name := range names {
			item, _, err := c.api.Resources.Get(c.ctx, k.KindInfo, c.ns(), name)
			if err != nil {
				return err
			}
			items = append(items, item)
			if !c.Format.Machine() {
				state, err := c.api.Resources.State(c.ctx, k.KindInfo, c.ns(), name)
				if err != nil {
					return err
				}
				states = append(states, state)
			}
		}
	case k.Name == "Node" && !c.Format.Machine():
		return getNodes(c, g)
	default:
		limit := g.limit
		if c.Format.Machine() {
			limit = 0
		}
		items, next, err = client.Pages(limit, func(size int, after string) ([]json.RawMessage, string, error) {
			page, err := c.api.Resources.List(c.ctx, k.KindInfo, c.nsUnless(g.all || !k.Namespaced), v1.ResourceFilter{Selector: g.Selector, Where: g.Where}, !c.Format.Machine(), size, after)
			states = append(states, page.States...)
			return page.Items, page.Next, err
		})
		if err != nil {
			return err
		}
	}
	switch {
	case c.Format.Machine() && len(names) == 1:
		return c.Value(items[0])
	case c.Format == screen.YAML:
		return printDocuments(c, items)
	case c.Format == screen.JSON && items == nil:
		items = []json.RawMessage{}
	}
	views := make([]kind.View, len(items))
	for i := range items {
		if c.Format.Machine() {
			break
		}
		if views[i], err = viewOf(c, items[i]); err != nil {
			return err
		}
		if i < len(states) {
			views[i].State = states[i]
		}
	}
	empty := "no " + k.Plural
	if g.narrows() {
		empty += " match"
	}
	if !g.all && k.Namespaced {
		empty += " in namespace " + c.ns()
	}
	var notes []string
	if k.Sensu && len(items) > 0 {
		notes = append(notes, "kept from Sensu: they work as before. Muster's own kind is Route: "+model.SensuKindsPage)
	}
	if next != "" {
		notes = append(notes, "there are more: --limit 0 shows all, -l selects")
	}
	return list[kind.View]{value: items, items: views, columns: resourceColumns(c, k, g.all), empty: empty, notes: notes}.print(c)
}

// resourceColumns returns the columns of a kind between its name and its last change.
func resourceColumns(c *call, k kind.Kind, all bool) []screen.Column[kind.View] {
	wide := c.Format == screen.Wide
	columns := []screen.Column[kind.View]{
		screen.Col("NAMESPACE", func(v kind.View) any { return v.Resource.Metadata.Namespace }).If(all && k.Namespaced),
		screen.Col("NAME", func(v kind.View) any { return v.Resource.Metadata.Name }),
	}
	for _, column := range k.Columns() {
		columns = append(columns, screen.Col(column.Name, func(v kind.View) any {
			text := column.Cell(v, v.Resource.Spec)
			if column.Max > 0 && !wide {
				text = screen.Cut(text, column.Max)
			}
			return text
		}))
	}
	stored := func(name string, cell func(*model.ResourceStatus) any) screen.Column[kind.View] {
		return screen.Col(name, func(v kind.View) any {
			if v.Resource.Status == nil {
				return ""
			}
			return cell(v.Resource.Status)
		})
	}
	return append(columns,
		stored("CHANGED", func(s *model.ResourceStatus) any { return model.Age(c.Now(), s.Updated) }),
		stored("REVISION", func(s *model.ResourceStatus) any { return s.Revision }).If(wide),
		screen.Col("LABELS", func(v kind.View) any { return labelText(v.Resource.Metadata.Labels) }).If(wide))
}

// printDocuments writes resources as YAML documents that apply accepts.
func printDocuments(c *call, items []json.RawMessage) error {
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

// viewOf decodes a resource of the server.
func viewOf(c *call, data []byte) (kind.View, error) {
	r, err := c.Kinds.DecodeResource(data)
	return kind.View{Resource: r, Now: c.Now(), Zone: c.Zone}, err
}

// resourceRefs returns all resources of a kind in a namespace (empty: all) with the labels.
func resourceRefs(ctx context.Context, api *client.Client, k model.KindInfo, namespace, selector string) ([]v1.Ref, error) {
	refs, _, err := client.Pages(0, func(size int, after string) (refs []v1.Ref, _ string, _ error) {
		page, err := api.Resources.List(ctx, k, namespace, v1.ResourceFilter{Selector: selector}, false, size, after)
		if err != nil {
			return nil, "", err
		}
		for _, item := range page.Items {
			e, err := decodeEnvelope(item)
			if err != nil {
				return nil, "", err
			}
			refs = append(refs, e.ref())
		}
		return refs, page.Next, nil
	})
	return refs, err
}

// envelope is a resource with its spec undecoded.
type envelope struct {
	Kind     string          `json:"kind"`
	Metadata model.Metadata  `json:"metadata"`
	Spec     json.RawMessage `json:"spec"`
}

func decodeEnvelope(data []byte) (e envelope, err error) {
	if err := json.Unmarshal(data, &e); err != nil {
		return e, model.Errorf(model.Invalid, "decode a resource: %w", err)
	}
	return e, nil
}

func (e envelope) ref() v1.Ref {
	return v1.Ref{Kind: e.Kind, Namespace: e.Metadata.Namespace, Name: e.Metadata.Name}
}
