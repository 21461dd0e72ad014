package sensuctl

import (
	"context"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// view writes resources in Sensu's forms. It reads each other resource that a form needs once per request.
type view struct {
	ctx       context.Context
	r         *request
	declared  bool // entities have declared labels and subscriptions only
	resources map[resourceKey]*model.Resource
	states    map[resourceKey]*v1.NodeState // nil: not read yet
}

type resourceKey struct{ kind, namespace, name string }

func newView(ctx context.Context, r *request) *view {
	return &view{ctx: ctx, r: r, resources: map[resourceKey]*model.Resource{}}
}

// find returns a resource; nil: it does not exist.
func (v *view) find(kind, namespace, name string) (*model.Resource, error) {
	k := resourceKey{kind, namespace, name}
	m, ok := v.resources[k]
	if ok {
		return m, nil
	}
	m, err := v.r.find(v.ctx, kind, namespace, name)
	if err == nil {
		v.resources[k] = m
	}
	return m, err
}

// maxStates bounds the nodes of a list whose last contact and effective groups are read; the others have declared
// values only.
const maxStates = 1000

// state returns the server's state of a node; nil: unknown, or only declared values are wanted.
func (v *view) state(namespace, name string) (*v1.NodeState, error) {
	if v.declared {
		return nil, nil
	}
	if v.states == nil {
		filter := v1.NodeFilter{Namespace: v.r.namespace, Limit: maxStates}
		if v.r.kind == "events" || len(v.r.names) > 0 {
			filter.Name = v.r.name(0)
		}
		list, err := v.r.muster.Nodes.States(v.ctx, filter)
		if err != nil && model.ClassOf(err) != model.NotFound {
			return nil, err
		}
		v.states = map[resourceKey]*v1.NodeState{}
		for i := range list.Items {
			n := &list.Items[i]
			v.states[resourceKey{"Node", n.Namespace, n.Name}] = n
		}
	}
	return v.states[resourceKey{"Node", namespace, name}], nil
}

// metadata returns the metadata of a resource in Sensu's form. name is Sensu's, where it differs.
func metadata(m *model.Resource, name string) object {
	out := object{"name": name, "namespace": m.Metadata.Namespace}
	if len(m.Metadata.Labels) > 0 {
		out["labels"] = m.Metadata.Labels
	}
	if len(m.Metadata.Annotations) > 0 {
		out["annotations"] = m.Metadata.Annotations
	}
	return out
}

// sensuName returns the name that Sensu had for a resource: its display name, where the import derived the name from it.
func sensuName(m *model.Resource) string {
	return originalName(m.Metadata.Name, m.Metadata.DisplayName)
}

func originalName(name, original string) string {
	if model.CleanName(original) == name {
		return original
	}
	return name
}
