// Package inventory answers about inventories of nodes: their entries, and their changes since a time. It asks agents to collect them now.
package inventory

import (
	"context"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/inventory"
	"github.com/muster-fleet/muster/internal/model"
	reducer "github.com/muster-fleet/muster/internal/pipeline/inventory"
)

// Options holds the functions that read a node's inventory, or ask the node's agent for a new inventory.
type Options struct {
	Inventories *reducer.View
	// Collect asks the agent of a node to collect its inventory; false: the node has no session.
	Collect func(model.NodeID) bool
}

// inventoryRequest handles an HTTP request about inventories. Its methods are the operations of the API.
type inventoryRequest struct {
	op.Request
	Options
}

// Register adds the API operations about inventories to the server.
func Register(r *op.Routes, o Options) {
	at := op.NewOperationSet(r, func(q op.Request) *inventoryRequest { return &inventoryRequest{q, o} })
	op.Handle(at, op.Get("getInventory", "/api/v1/nodes/{namespace}/{name}/inventory", "nodes", "Read the inventory of a node, or its changes since a time", model.NotFound), access.NeedOn(access.Read, "Node"), (*inventoryRequest).getInventory)
	op.Handle(at, op.Post("collectInventory", "/api/v1/nodes/{namespace}/{name}/inventory", "nodes", "Ask the agent of a node to collect its inventory now", model.NotFound, model.Conflict), access.NeedOn(access.Operate, "Node"), (*inventoryRequest).collectInventory)
}

// getInventory returns the inventory of a node.
func (s *inventoryRequest) getInventory(ctx context.Context, in *struct {
	op.NamedPath
	Section string    `query:"section" maxLength:"64" doc:"Only this section, such as packages."`
	Since   time.Time `query:"since" doc:"The changes since this time (RFC 3339), instead of the entries."`
	list.Where
}) (*op.Body[v1.Inventory], error) {
	node, ok := s.Directory.NodeByName(in.Namespace, in.Name)
	if !ok {
		return nil, s.NodeNotFoundError(ctx, in.Namespace, in.Name)
	}
	form, known := inventory.SchemaByName(in.Section)
	if !known && in.Section != "" {
		return nil, model.Errorf(model.Invalid, "an inventory has no section %s", in.Section).WithHint("its sections are %s", strings.Join(inventory.SectionNames(), ", "))
	}
	x, ok := s.Inventories.Inventory(node)
	if !ok {
		return nil, model.Errorf(model.NotFound, "node %s has no inventory yet", in.Name).WithHint("its agent sends one within seconds of its first session: muster get agents %s", in.Name)
	}
	out := v1.Inventory{Namespace: in.Namespace, Node: in.Name, Received: x.Received, Changed: x.Changed, Stale: x.Stale, Sections: []v1.InventorySection{}, Items: []v1.InventoryEntry{}}
	for _, e := range x.Entries {
		shown := *showEntry(e)
		if last := len(out.Sections) - 1; last < 0 || out.Sections[last].Name != shown.Section {
			out.Sections = append(out.Sections, v1.InventorySection{Name: shown.Section})
		}
		out.Sections[len(out.Sections)-1].Entries++
		if in.Since.IsZero() && (in.Section == "" || e.Section() == form.Section) {
			out.Items = append(out.Items, shown)
		}
	}
	if in.Since.IsZero() {
		items, err := list.FilterRows(ctx, s.View, in.Where, out.Items)
		out.Items = items
		return op.Answer(out), err
	}
	for _, d := range s.Inventories.History(node, in.Since) {
		for _, c := range inventory.Pair(d.Added, d.Removed) {
			if in.Section == "" || c.Entry().Section() == form.Section {
				out.Changes = append(out.Changes, v1.InventoryChange{At: d.At, Before: showEntry(c.Before), After: showEntry(c.After)})
			}
		}
	}
	changes, err := list.FilterRows(ctx, s.View, in.Where, out.Changes)
	out.Changes = changes
	return op.Answer(out), err
}

// showEntry converts an inventory entry to its API type, and nil to nil.
func showEntry(e inventory.Entry) *v1.InventoryEntry {
	if e == "" {
		return nil
	}
	form := inventory.SchemaOf(e.Section())
	out := &v1.InventoryEntry{Section: form.Name, Name: e.Name(), Fields: map[string]string{}}
	for i, name := range form.Fields {
		if value := e.Field(i); value != "" {
			out.Fields[name] = value
		}
	}
	return out
}

// collectInventory asks an agent to collect its inventory.
func (s *inventoryRequest) collectInventory(ctx context.Context, in *op.NamedPath) (*op.NoParameters, error) {
	node, ok := s.Directory.NodeByName(in.Namespace, in.Name)
	if !ok {
		return nil, s.NodeNotFoundError(ctx, in.Namespace, in.Name)
	}
	if !s.Collect(node) {
		return nil, model.Errorf(model.Conflict, "node %s has no session with an agent", in.Name).WithHint("see why: muster why %s", in.Name)
	}
	return nil, nil
}
