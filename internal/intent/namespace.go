package intent

import (
	"cmp"
	"context"
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

// put keeps the limits of a namespace, merged with the server's defaults.
func (x *namespaceIndex) put(name string, id model.NamespaceID, own *model.Limits) {
	info := namespaceInfo{id: id, limits: x.defaults}
	if own != nil {
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
	x.mu.Lock()
	defer x.mu.Unlock()
	x.byName[name], x.limits[id] = info, info.limits
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
		return missingNamespaceError(name)
	}
	return nil
}

func missingNamespaceError(name string) error {
	return model.Errorf(model.NotFound, "namespace %q does not exist", name).WithHint("list them: muster get namespaces; create one: muster apply, kind Namespace")
}

// allGroupName is the group of all nodes that every namespace gets at its creation, so that a check may target "all" at
// once. Afterwards it is an ordinary group: a person may delete it.
const allGroupName = "all"

func allGroupKey(namespace string) Key { return Key{"Group", namespace, allGroupName} }

// newAllGroup returns the group of all nodes of a namespace.
func newAllGroup(namespace string) model.Resource {
	title := "every node of the namespace"
	if namespace == model.SharedNamespaceName {
		title = "every node"
	}
	return model.Resource{Kind: "Group", Metadata: model.Metadata{Name: allGroupName, Namespace: namespace, DisplayName: title}, Spec: &model.GroupSpec{Where: "true"}}
}

// addAllGroups adds the groups of namespaces that this apply creates.
func (a *application) addAllGroups(ctx context.Context, resources []model.Resource) ([]model.Resource, error) {
	declared := map[Key]bool{}
	for i := range resources {
		declared[KeyOf(&resources[i])] = true
	}
	for i := range resources[:len(resources):len(resources)] {
		key := KeyOf(&resources[i])
		if key.Kind != "Namespace" || declared[allGroupKey(key.Name)] {
			continue
		}
		_, err := a.repo.opts.Store.Get(ctx, key)
		if err == nil {
			continue // it got its group at its creation
		} else if model.ClassOf(err) != model.NotFound {
			return nil, err
		}
		declared[allGroupKey(key.Name)] = true // also where the namespace is declared twice, which is refused
		resources = append(resources, newAllGroup(key.Name))
		if a.implied == nil {
			a.implied = map[Key]bool{}
		}
		a.implied[allGroupKey(key.Name)] = true
	}
	return resources, nil
}

func isAllGroup(key Key) bool { return key.Kind == "Group" && key.Name == allGroupName }

// allGroupRow returns the row of a namespace's group; exists is false after somebody deleted it.
func (r *repository) allGroupRow(ctx context.Context, namespace string) (row Row, there bool, err error) {
	row, err = r.opts.Store.Get(ctx, allGroupKey(namespace))
	if model.ClassOf(err) == model.NotFound {
		return row, false, nil
	}
	return row, err == nil, err
}

// deleteAllGroup deletes the group with its namespace.
func (a *application) deleteAllGroup(ctx context.Context, namespace Key, deleted map[Key]bool) error {
	if namespace.Kind != "Namespace" || deleted[allGroupKey(namespace.Name)] {
		return nil
	}
	row, there, err := a.repo.allGroupRow(ctx, namespace.Name)
	if there {
		a.addWrite(Write{Key: row.Key, Expect: row.Revision}, Outcome{Key: row.Key, Op: OpDeleted, Diff: difference(row.Body, nil), Warnings: deleteWarning(row)})
	}
	return err
}

// pruneAllGroups decides about groups that an owner no longer declares: they are built in and go only with their namespace.
func (a *application) pruneAllGroups(ctx context.Context, list []undeclared) ([]undeclared, error) {
	for i := range list {
		switch key := list[i].row.Key; {
		case isAllGroup(key) && a.deleted[Key{Kind: "Namespace", Name: key.Namespace}]:
			a.deleted[key] = true
		case isAllGroup(key):
			list[i].keep = "it is built in and has no owner from now on"
		}
	}
	for i := 0; i < len(list); i++ {
		key := list[i].row.Key
		if key.Kind != "Namespace" || list[i].keep != "" || a.deleted[allGroupKey(key.Name)] {
			continue
		}
		row, there, err := a.repo.allGroupRow(ctx, key.Name)
		if err != nil {
			return nil, err
		}
		if there {
			a.deleted[row.Key] = true
			list = slices.Insert(list, i, undeclared{row: row}) // before the namespace
			i++
		}
	}
	return list, nil
}

// releaseOwner removes the owner of a group that it no longer declares, so that no later apply names it again.
func (a *application) releaseOwner(row Row, o Outcome) error {
	r, err := a.repo.decode(row)
	if err != nil {
		return err
	}
	r.Metadata.Owner = ""
	body, err := encode(r)
	if err != nil {
		return err
	}
	o.Op, o.Diff = OpUpdated, a.difference(row.Key, row.Body, body)
	a.addWrite(Write{Key: row.Key, Expect: row.Revision, Body: body}, o)
	return nil
}
