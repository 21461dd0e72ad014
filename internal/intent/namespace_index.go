package intent

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/muster-fleet/muster/internal/model"
)

// Namespaces answers for the limits of namespaces, from memory.
type Namespaces struct{ *repository }

// namespaceIndex holds the number and the limits in force of each namespace.
type namespaceIndex struct {
	mu       sync.RWMutex
	defaults model.Limits // of the server
	byName   map[string]namespaceInfo
	limits   map[model.NamespaceID]model.Limits
}

type namespaceInfo struct {
	id     model.NamespaceID
	limits model.Limits
}

func newNamespaceIndex(defaults model.Limits) namespaceIndex {
	return namespaceIndex{defaults: defaults, byName: map[string]namespaceInfo{}, limits: map[model.NamespaceID]model.Limits{}}
}

func (x *namespaceIndex) put(name string, info namespaceInfo) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.byName[name], x.limits[info.id] = info, info.limits
}

func (x *namespaceIndex) remove(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.limits, x.byName[name].id)
	delete(x.byName, name)
}

func (x *namespaceIndex) id(name string) (model.NamespaceID, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	info, ok := x.byName[name]
	return info.id, ok
}

func (x *namespaceIndex) names() []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Collect(maps.Keys(x.byName))
}

func (x *namespaceIndex) limitsByName(name string) model.Limits {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if info, ok := x.byName[name]; ok {
		return info.limits
	}
	return x.defaults
}

// LimitsFor returns the limits in force in a namespace.
func (s *Namespaces) LimitsFor(namespace string) model.Limits {
	return s.namespaces.limitsByName(namespace)
}

// NamespaceLimits returns the limits in force in a namespace, by number. Sessions ask for every batch, so a change
// takes effect at once.
func (s *Namespaces) NamespaceLimits(id model.NamespaceID) model.Limits {
	s.namespaces.mu.RLock()
	defer s.namespaces.mu.RUnlock()
	if limits, ok := s.namespaces.limits[id]; ok {
		return limits
	}
	return s.namespaces.defaults
}

// CheckNamespace returns an error for a namespace that does not exist.
func (s *Namespaces) CheckNamespace(name string) error {
	if _, ok := s.namespaces.id(name); !ok {
		return namespaceMissing(name)
	}
	return nil
}

func namespaceMissing(name string) error {
	return model.Errorf(model.NotFound, "namespace %q does not exist", name).WithHint("list them: muster get namespaces; create one: muster apply, kind Namespace")
}

// indexNamespace merges the limits of a namespace with the server's defaults and keeps them.
func (r *repository) indexNamespace(row Row) error {
	resource, err := r.decode(row)
	if err != nil {
		return err
	}
	info := namespaceInfo{id: model.NamespaceID(row.ID), limits: r.opts.Limits}
	if own := resource.Spec.(*model.NamespaceSpec).Limits; own != nil {
		l := &info.limits
		for _, limit := range []struct {
			to  *int
			own int
		}{
			{&l.States, own.States}, {&l.StatesPerNode, own.StatesPerNode}, {&l.Nodes, own.Nodes}, {&l.Labels, own.Labels},
			{&l.OutputBytes, own.OutputBytes}, {&l.PassivePerNode, own.PassivePerNode},
		} {
			*limit.to = cmp.Or(limit.own, *limit.to)
		}
		l.ResultsPerSec, l.NodeResultsSec = cmp.Or(own.ResultsPerSec, l.ResultsPerSec), cmp.Or(own.NodeResultsSec, l.NodeResultsSec)
	}
	r.namespaces.put(row.Name, info)
	return nil
}
