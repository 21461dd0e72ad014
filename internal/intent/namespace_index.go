package intent

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/muster-fleet/muster/internal/model"
)

// Namespaces returns namespaces and their limits, from memory.
type Namespaces struct{ *repository }

// namespaceIndex has the id and limits of each namespace in memory.
type namespaceIndex struct {
	mu       sync.RWMutex
	defaults model.Limits // of the server
	byName   map[string]namespaceInfo
	limits   map[model.NamespaceID]model.Limits
}

// namespaceInfo has the id of one namespace and its limits.
type namespaceInfo struct {
	id     model.NamespaceID
	limits model.Limits
}

// newNamespaceIndex returns an empty index of namespaces, with the server's default limits.
func newNamespaceIndex(defaults model.Limits) namespaceIndex {
	return namespaceIndex{defaults: defaults, byName: map[string]namespaceInfo{}, limits: map[model.NamespaceID]model.Limits{}}
}

// putLimits sets the limits of a namespace. Unset limits get the server's defaults.
func (x *namespaceIndex) putLimits(name string, id model.NamespaceID, own *model.Limits) {
	info := namespaceInfo{id: id, limits: x.defaults}
	if own != nil {
		l := &info.limits
		for _, limit := range []struct {
			to  *int
			own int
		}{
			{&l.States, own.States}, {&l.StatesPerNode, own.StatesPerNode}, {&l.Nodes, own.Nodes}, {&l.Labels, own.Labels},
			{&l.OutputBytes, own.OutputBytes}, {&l.PassivePerNode, own.PassivePerNode},
			{&l.DiscoveredItems, own.DiscoveredItems}, {&l.Series, own.Series},
		} {
			*limit.to = cmp.Or(limit.own, *limit.to)
		}
		l.ResultsPerSec, l.NodeResultsSec = cmp.Or(own.ResultsPerSec, l.ResultsPerSec), cmp.Or(own.NodeResultsSec, l.NodeResultsSec)
		l.ValuesPerSec, l.NodeValuesPerSec, l.ReportsPerSec, l.NodeReportsPerSec = own.ValuesPerSec, own.NodeValuesPerSec, own.ReportsPerSec, own.NodeReportsPerSec
		l.BytesPerSec, l.NodeBytesPerSec = cmp.Or(own.BytesPerSec, l.BytesPerSec), cmp.Or(own.NodeBytesPerSec, l.NodeBytesPerSec)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.byName[name], x.limits[id] = info, info.limits
}

// removeNamespace removes a namespace from the index.
func (x *namespaceIndex) removeNamespace(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.limits, x.byName[name].id)
	delete(x.byName, name)
}

// idByName returns the id of a namespace. It returns false if the namespace does not exist.
func (x *namespaceIndex) idByName(name string) (model.NamespaceID, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	info, ok := x.byName[name]
	return info.id, ok
}

// names returns the names of all namespaces, in no order.
func (x *namespaceIndex) names() []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Collect(maps.Keys(x.byName))
}

// limitsByName returns the limits in force for a namespace. For an unknown namespace it returns the server's defaults.
func (x *namespaceIndex) limitsByName(name string) model.Limits {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if info, ok := x.byName[name]; ok {
		return info.limits
	}
	return x.defaults
}

// LimitsFor returns the limits of a namespace by its name. Unset limits have the server's defaults.
func (s *Namespaces) LimitsFor(namespace string) model.Limits {
	return s.namespaces.limitsByName(namespace)
}

// NamespaceLimits returns the limits of a namespace by its id. Unset limits have the server's defaults. Sessions ask
// for every batch, so a change takes effect at once.
func (s *Namespaces) NamespaceLimits(id model.NamespaceID) model.Limits {
	s.namespaces.mu.RLock()
	defer s.namespaces.mu.RUnlock()
	if limits, ok := s.namespaces.limits[id]; ok {
		return limits
	}
	return s.namespaces.defaults
}

// CheckNamespace returns an error if a namespace does not exist.
func (s *Namespaces) CheckNamespace(name string) error {
	if _, ok := s.namespaces.idByName(name); !ok {
		return missingNamespaceError(name)
	}
	return nil
}

// missingNamespaceError returns the NotFound error for a namespace that does not exist.
func missingNamespaceError(name string) error {
	return model.Errorf(model.NotFound, "namespace %q does not exist", name).WithHint("list namespaces: muster get namespaces; create a namespace: apply a resource of kind Namespace")
}

// allGroupName is the name of the group of all nodes in every namespace. A new namespace gets the group, so that a
// check may target "all" at once. After its creation the group is an ordinary one: a person may delete it.
const allGroupName = "all"

// allGroupKey returns the key of the group "all" of a namespace.
func allGroupKey(namespace string) Key { return Key{"Group", namespace, allGroupName} }

// newAllGroup returns the built-in group "all" of a namespace.
func newAllGroup(namespace string) model.Resource {
	title := "every node of the namespace"
	if namespace == model.SharedNamespaceName {
		title = "every node"
	}
	return model.Resource{Kind: "Group", Metadata: model.Metadata{Name: allGroupName, Namespace: namespace, DisplayName: title}, Spec: &model.GroupSpec{Where: "true"}}
}

// addAllGroups adds the built-in group "all" for each new namespace of the apply.
func (a *pendingApply) addAllGroups(ctx context.Context, resources []model.Resource) ([]model.Resource, error) {
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
			continue // the namespace exists already, and got its group at its creation
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

// isAllGroup reports whether a key names the group "all" of a namespace.
func isAllGroup(key Key) bool { return key.Kind == "Group" && key.Name == allGroupName }

// allGroupRow returns the database row of a namespace's group "all". exists is false after a person deleted the group.
func (r *repository) allGroupRow(ctx context.Context, namespace string) (row Row, exists bool, err error) {
	row, err = r.opts.Store.Get(ctx, allGroupKey(namespace))
	if model.ClassOf(err) == model.NotFound {
		return row, false, nil
	}
	return row, err == nil, err
}

// deleteAllGroup deletes the built-in group "all" of a deleted namespace.
func (a *pendingApply) deleteAllGroup(ctx context.Context, namespace Key, deleted map[Key]bool) error {
	if namespace.Kind != "Namespace" || deleted[allGroupKey(namespace.Name)] {
		return nil
	}
	row, exists, err := a.repo.allGroupRow(ctx, namespace.Name)
	if exists {
		a.addWrite(Write{Key: row.Key, Expect: row.Revision}, Outcome{Key: row.Key, Op: OpDeleted, Diff: difference(row.Body, nil), Warnings: deleteWarning(row)})
	}
	return err
}

// excludeAllGroups excludes the built-in groups "all" from the deletion of undeclared resources. It keeps the deletion
// in namespaces that are deleted as a whole.
func (a *pendingApply) excludeAllGroups(ctx context.Context, list []undeclaredResource) ([]undeclaredResource, error) {
	for i := range list {
		switch key := list[i].row.Key; {
		case isAllGroup(key) && a.deleted[Key{Kind: "Namespace", Name: key.Namespace}]:
			a.deleted[key] = true
		case isAllGroup(key):
			list[i].keep = "the group is built in and has no owner from now on"
		}
	}
	for i := 0; i < len(list); i++ {
		key := list[i].row.Key
		if key.Kind != "Namespace" || list[i].keep != "" || a.deleted[allGroupKey(key.Name)] {
			continue
		}
		row, exists, err := a.repo.allGroupRow(ctx, key.Name)
		if err != nil {
			return nil, err
		}
		if exists {
			a.deleted[row.Key] = true
			list = slices.Insert(list, i, undeclaredResource{row: row}) // before the namespace
			i++
		}
	}
	return list, nil
}

// releaseOwner removes the owner from a built-in group "all" if the owner's files no longer declare the group.
func (a *pendingApply) releaseOwner(row Row, o Outcome) error {
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
