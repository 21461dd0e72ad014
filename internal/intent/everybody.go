package intent

import (
	"context"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// Every namespace begins with a group that holds all its nodes, so that a check may land on
// "all" at once. From then on it is a group as any other: who takes it away by hand has none.

const everybodyName = "all"

func everybodyKey(namespace string) Key { return Key{"Group", namespace, everybodyName} }

// everybody is the group of all nodes of a namespace.
func everybody(namespace string) model.Resource {
	title := "every node of the namespace"
	if namespace == model.SharedNamespaceName {
		title = "every node"
	}
	return model.Resource{Kind: "Group", Metadata: model.Metadata{Name: everybodyName, Namespace: namespace, DisplayName: title}, Spec: &model.GroupSpec{Where: "true"}}
}

// withEverybody adds the groups of the namespaces that this apply makes.
func (a *application) withEverybody(ctx context.Context, resources []model.Resource) ([]model.Resource, error) {
	declared := map[Key]bool{}
	for i := range resources {
		declared[KeyOf(&resources[i])] = true
	}
	for i := range resources[:len(resources):len(resources)] {
		key := KeyOf(&resources[i])
		if key.Kind != "Namespace" || declared[everybodyKey(key.Name)] {
			continue
		}
		_, err := a.service.opts.Store.Get(ctx, key)
		if err == nil {
			continue // it had its group when it was made
		} else if model.ClassOf(err) != model.NotFound {
			return nil, err
		}
		declared[everybodyKey(key.Name)] = true // also where the namespace is declared twice, which is refused
		resources = append(resources, everybody(key.Name))
		if a.implied == nil {
			a.implied = map[Key]bool{}
		}
		a.implied[everybodyKey(key.Name)] = true
	}
	return resources, nil
}

// goesAlong says whether a group is no reason for its namespace to stay: it goes with it.
func goesAlong(row Row, namespace string) bool { return row.Key == everybodyKey(namespace) }

func isEverybody(key Key) bool { return key.Kind == "Group" && key.Name == everybodyName }

// everybodyOf is a namespace's group; false: somebody has taken it away.
func (s *Service) everybodyOf(ctx context.Context, namespace string) (row Row, there bool, err error) {
	row, err = s.opts.Store.Get(ctx, everybodyKey(namespace))
	if model.ClassOf(err) == model.NotFound {
		return row, false, nil
	}
	return row, err == nil, err
}

// deleteEverybody takes the group away with its namespace.
func (a *application) deleteEverybody(ctx context.Context, namespace Key, going map[Key]bool) error {
	if namespace.Kind != "Namespace" || going[everybodyKey(namespace.Name)] {
		return nil
	}
	row, there, err := a.service.everybodyOf(ctx, namespace.Name)
	if there {
		a.add(Write{Key: row.Key, Expect: row.Revision}, Outcome{Key: row.Key, Op: OpDeleted, Diff: difference(row.Body, nil), Warnings: disowned(row)})
	}
	return err
}

// straysEverybody decides about groups that an owner declares no more: they are built in, and
// go with their namespace alone.
func (a *application) straysEverybody(ctx context.Context, list []stray) ([]stray, error) {
	for i := range list {
		switch key := list[i].row.Key; {
		case isEverybody(key) && a.going[Key{Kind: "Namespace", Name: key.Namespace}]:
			a.going[key] = true
		case isEverybody(key):
			list[i].stay = "it is built in, and belongs to nobody from now on"
		}
	}
	for i := 0; i < len(list); i++ {
		key := list[i].row.Key
		if key.Kind != "Namespace" || list[i].stay != "" || a.going[everybodyKey(key.Name)] {
			continue
		}
		row, there, err := a.service.everybodyOf(ctx, key.Name)
		if err != nil {
			return nil, err
		}
		if there {
			a.going[row.Key] = true
			list = slices.Insert(list, i, stray{row: row}) // before the namespace
			i++
		}
	}
	return list, nil
}

// disown lets go of a group that its owner declares no more, so that no later apply names it again.
func (a *application) disown(row Row, o Outcome) error {
	r, err := a.service.decode(row)
	if err != nil {
		return err
	}
	r.Metadata.Owner = ""
	body, err := encode(r)
	if err != nil {
		return err
	}
	o.Op, o.Diff = OpUpdated, a.difference(row.Key, row.Body, body)
	a.add(Write{Key: row.Key, Expect: row.Revision, Body: body}, o)
	return nil
}
