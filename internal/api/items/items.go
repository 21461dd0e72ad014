// Package items answers about items of Templates and numbers in results of checks: their last values on the nodes, and why one has
// none. In: states of items, series. Out: lists and the load of the pipeline of values. Start reading at itemRequest.listItems.
package items

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/metric"
	"github.com/muster-fleet/muster/internal/store/textlog"
)

// Options holds the functions that read items (the metrics of Templates) from the server's state.
type Options struct {
	// Items returns the items of a node for which values came, by Template and key.
	Items func(model.NodeID) []metric.ItemState
	// Refusals returns the refused numbers in the last results of a node's checks. Nil: none.
	Refusals func(model.NodeID) map[model.UnitID]metric.RejectedNumbers
	// Texts returns the newest text values that match, in the order of their times, and whether older ones may match.
	Texts func(context.Context, textlog.Query) ([]textlog.Row, bool, error)
	// Load returns the load of the pipeline of values, with at most a number of items, of triggers and of nodes.
	Load func(most int) Load
}

// itemRequest handles an HTTP request about items, the metrics of Templates. Its methods are the operations of the
// API.
type itemRequest struct {
	op.Request
	*operations
}

// operations holds the state that all API requests about items share, such as the limit of searches.
type operations struct {
	Options
	searches *op.Quota[string] // of texts, by user
}

// Bounds of the searches of texts that run at a time.
const (
	maxSearches     = 4
	maxUserSearches = 2
)

// Register adds the API operations about items (metrics of Templates).
func Register(r *op.Routes, o Options) {
	shared := &operations{o, op.NewQuota[string](maxUserSearches, maxSearches)}
	at := op.NewOperationSet(r, func(q op.Request) *itemRequest { return &itemRequest{q, shared} })
	op.Handle(at, op.Get("listTexts", "/api/v1/texts", "items", "List the newest text and log values of items that match, by time", model.NotFound), access.NeedOn(access.Read, "item"), (*itemRequest).listTextValues)
	op.Handle(at, op.Get("showValueLoad", "/api/v1/items/load", "items", "Show the load of the pipeline of values, and the items that take most time"), access.NeedOn(access.Read, "item"), (*itemRequest).showLoad)
	op.Handle(at, op.Get("listItems", "/api/v1/items", "items", "List items with their last values, by node and key", model.NotFound), access.NeedOn(access.Read, "item"), (*itemRequest).listItems)
}

// listItems returns a page of items (metrics of Templates) on the nodes that the parameters select
func (s *itemRequest) listItems(ctx context.Context, in *struct {
	Namespace string `query:"namespace" maxLength:"253" doc:"Namespace of the nodes; empty: all."`
	Node      string `query:"node" maxLength:"253" doc:"Of this node; needs namespace."`
	Template  string `query:"template" maxLength:"510" doc:"Of this Template."`
	Key       string `query:"key" maxLength:"2048" doc:"With exactly this key."`
	State     string `query:"state" enum:"ok,unsupported,waiting,notCollected" doc:"In this state."`
	list.NodeRows
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	After string `query:"after" maxLength:"4096" doc:"The field next of the page before."`
}) (*op.Body[v1.ItemList], error) {
	if err := s.RequireNamespace(ctx, in.Namespace); err != nil {
		return nil, err
	}
	filter, err := list.NewNodeRowFilter(ctx, s.View, in.NodeRows)
	if err != nil {
		return nil, err
	}
	nodes := filter.Nodes(s.View, in.Namespace)
	if in.Node != "" {
		node, ok := s.Directory.NodeByName(in.Namespace, in.Node)
		if !ok {
			return nil, s.NodeNotFoundError(ctx, in.Namespace, in.Node)
		}
		nodes = []model.NodeID{node}
	}
	nodes = slices.Sorted(slices.Values(nodes)) // a page continues behind a node, even behind a deleted one
	want := itemFilter{in.Template, in.Key, in.State}
	items, next, err := list.ReadPage(s.View, list.PagedRows[nodeItem]{
		Limit: in.Limit, After: in.After, Filter: filter,
		Read: func(behind list.Cursor, size int) (rows []nodeItem, err error) {
			first, _ := slices.BinarySearch(nodes, model.NodeID(behind.Number))
			for _, node := range nodes[first:] {
				items, err := s.itemsOf(ctx, node, &want)
				if err != nil {
					return nil, err
				}
				for _, i := range items {
					row := nodeItem{node, i}
					if !want.matches(&i) || node == model.NodeID(behind.Number) && row.sortKey() <= behind.ID {
						continue
					}
					if rows = append(rows, row); len(rows) == size {
						return rows, nil
					}
				}
			}
			return rows, nil
		},
		Cursor: func(i *nodeItem) list.Cursor { return list.Cursor{Number: int64(i.node), ID: i.sortKey()} },
	}, func(i *nodeItem) (model.NodeID, v1.ItemState) { return i.node, i.ItemState })
	return op.Answer(v1.ItemList{Items: items, Next: next}), err
}

// nodeItem is the state of an item (a metric of a Template) together with its node
type nodeItem struct {
	node model.NodeID
	v1.ItemState
}

// sortKey returns the sort key of an item within its node. Items sort by key, then by Template, check and labels.
func (i *nodeItem) sortKey() string { return itemSortKey(&i.ItemState) }

// itemSortKey returns the sort key of an item within its node.
func itemSortKey(i *v1.ItemState) string {
	key := i.Key + "\x00" + i.Template + "\x00" + i.Check + "\x00" + i.Unit + "\x00" + i.State
	for _, name := range slices.Sorted(maps.Keys(i.Labels)) {
		key += "\x00" + name + "\x00" + i.Labels[name]
	}
	return key
}

// itemsOf returns a node's items sorted by key. They are the items with values, the items of its Templates that have
// no value yet, and the numbers in results of its checks that the filter selects.
func (s *itemRequest) itemsOf(ctx context.Context, node model.NodeID, filter *itemFilter) ([]v1.ItemState, error) {
	type itemKey struct {
		template model.UnitID
		key      string
	}
	seen := map[itemKey]bool{}
	states := s.Items(node)
	for i := range states {
		seen[itemKey{states[i].Template, states[i].Key}] = true
	}
	for _, unit := range s.Directory.NodeUnits(node) {
		u := s.Directory.SourceUnit(model.TriggerSource(unit, ""))
		if u == nil {
			continue
		}
		template := u.Definition.AsTemplate()
		if template == nil {
			continue
		}
		for i := range template.Items {
			if of := &template.Items[i]; !seen[itemKey{unit, of.Key}] {
				states = append(states, metric.ItemState{Item: of, Template: unit, Idle: template.NotCollected(of)})
			}
		}
	}
	namespace, name, _ := s.Directory.NodeName(node)
	rows, err := s.checkItemsOf(ctx, node, namespace, name, filter)
	for i := range states {
		rows = append(rows, s.showItem(namespace, name, &states[i]))
	}
	slices.SortFunc(rows, func(a, b v1.ItemState) int { return cmp.Compare(itemSortKey(&a), itemSortKey(&b)) })
	return rows, err
}

// showItem converts the state of an item to the API type ItemState
func (s *itemRequest) showItem(namespace, node string, i *metric.ItemState) v1.ItemState {
	out := v1.ItemState{
		Namespace: namespace, Node: node, Key: i.Key, Type: cmp.Or(i.Type, "float"), Unit: i.Unit, Interval: i.Interval, From: i.From, Trapper: i.Trapper, Formula: i.Formula, Internal: i.Internal,
		State: "ok", Reason: i.Reason, Value: i.Value.String(), At: i.At,
	}
	out.Template = s.templateName(i.Template, namespace)
	switch {
	case i.Reason != "":
		out.State = "unsupported"
	case i.Idle != "":
		out.State, out.Reason = "notCollected", i.Idle
	case i.At.IsZero():
		out.State = "waiting"
	}
	if out.Value != "" {
		out.Text = i.Text()
	}
	for _, t := range i.Triggers {
		out.Triggers = append(out.Triggers, v1.ItemTrigger{Name: t.Name, Expression: t.Expression, Problem: t.Problem, Unknown: t.Unknown})
	}
	return out
}

// templateName returns the name of an item's Template, prefixed with its namespace unless the node has the
// same. It is empty for a deleted Template.
func (s *itemRequest) templateName(id model.UnitID, namespace string) string {
	own, template, ok := s.Directory.SourceName(model.TriggerSource(id, ""))
	if ok && own != namespace {
		return own + "/" + template
	}
	return template
}
