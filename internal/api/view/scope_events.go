package view

import (
	"context"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// scopedEvents is the event view within a scope.
type scopedEvents struct {
	all       event.Reader
	directory scopedDirectory
	ids       []model.NamespaceID // of the existing namespaces of the scope
}

var _ event.Reader = scopedEvents{}

func newScopedEvents(all event.Reader, directory Directory, x *scope) scopedEvents {
	e := scopedEvents{all: all, directory: scopedDirectory{directory, x}}
	for _, name := range x.namespaces {
		if id, ok := directory.NamespaceByName(name); ok {
			e.ids = append(e.ids, id)
		}
	}
	return e
}

func (e scopedEvents) has(id model.NamespaceID) bool { return slices.Contains(e.ids, id) }

// bound limits a query to the scope.
func (e scopedEvents) bound(q event.Query) event.Query {
	if q.Namespaces == nil {
		q.Namespaces = e.ids
	} else {
		q.Namespaces = slices.DeleteFunc(slices.Clone(q.Namespaces), func(id model.NamespaceID) bool { return !e.has(id) })
	}
	if len(q.Namespaces) == 0 { // nil would be all namespaces
		q.Nodes = []model.NodeID{}
	}
	return q
}

func (e scopedEvents) Get(node model.NodeID, check model.CheckID) (event.State, bool) {
	st, ok := e.all.Get(node, check)
	if !ok || !e.has(st.Namespace) {
		return event.State{}, false
	}
	return st, true
}

func (e scopedEvents) List(ctx context.Context, q event.Query) (event.Page, error) {
	return e.all.List(ctx, e.bound(q))
}

func (e scopedEvents) Watch(ctx context.Context, q event.Query) (<-chan event.State, error) {
	return e.all.Watch(ctx, e.bound(q))
}

func (e scopedEvents) Counts(namespace model.NamespaceID) (sum event.Counts) {
	for _, id := range e.ids {
		if namespace == 0 || namespace == id {
			sum.Add(e.all.Counts(id))
		}
	}
	return sum
}

func (e scopedEvents) CountsByNamespace() map[model.NamespaceID]event.Counts {
	out := e.all.CountsByNamespace()
	for id := range out {
		if !e.has(id) {
			delete(out, id)
		}
	}
	return out
}

// CountsOf counts state by state, because a built-in or shared check also has events in other
// namespaces.
func (e scopedEvents) CountsOf(check model.CheckID) (sum event.Counts) {
	if namespace, _, ok := e.directory.all.CheckName(check); ok && e.directory.has(namespace) && model.BuiltinCheckName(check) == "" {
		return e.all.CountsOf(check)
	}
	for q := e.bound(event.Query{Checks: []model.CheckID{check}, Limit: 1000}); ; {
		page, err := e.all.List(context.Background(), q)
		for i := range page.States {
			st := &page.States[i]
			one := event.Counts{States: 1}
			if one.ByStatus[st.Status&3] = 1; st.Problem != nil {
				one.Problems = 1
			}
			sum.Add(one)
		}
		if q.After = page.Next; err != nil || q.After == "" {
			return sum
		}
	}
}

func (e scopedEvents) Wrong(namespace model.NamespaceID) (list []event.Wrong) {
	for _, id := range e.ids {
		if namespace == 0 || namespace == id {
			list = append(list, e.all.Wrong(id)...)
		}
	}
	slices.SortStableFunc(list, event.CompareWrong)
	return list
}

func (e scopedEvents) Summaries(nodes []model.NodeID) []event.Summary {
	out := e.all.Summaries(nodes)
	for i, id := range nodes {
		if !e.directory.node(id) {
			out[i] = event.Summary{}
		}
	}
	return out
}
