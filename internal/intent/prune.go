package intent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// undeclared is a resource that its owner declared once and no longer declares.
type undeclared struct {
	row  Row
	keep string // the reason to keep it; empty: delete it
}

// findUndeclared returns the resources that the owner no longer declares and marks in a.deleted those to delete.
// Resources of others or of nobody are ignored; joined machines, built-in resources and non-empty namespaces stay.
func (a *application) findUndeclared(ctx context.Context, set map[Key]*model.Resource) (list []undeclared, err error) {
	if !a.opts.Prune {
		return nil, nil
	}
	if a.opts.Owner == "" {
		return nil, model.Errorf(model.Invalid, "what to prune is not report: whose?").WithHint("--prune goes with --owner NAME")
	}
	if len(set) == 0 && !a.opts.AllowEmpty {
		return nil, model.Errorf(model.Invalid, "nothing is declared: with --prune all that %s owns would be deleted", a.opts.Owner).
			WithHint("is it the right folder? if all of it is to go: --allow-empty")
	}
	name, err := json.Marshal(a.opts.Owner)
	if err != nil {
		return nil, err
	}
	kinds := a.repo.opts.Kinds.Kinds()
	slices.Reverse(kinds) // dependent kinds first, namespaces last
	for _, k := range kinds {
		q := ListQuery{Kind: k.Name, Limit: listBatch}
		for {
			rows, err := a.repo.opts.Store.List(ctx, q)
			if err != nil {
				return nil, err
			}
			for _, row := range rows {
				if a.opts.prunes(row.Key) && set[row.Key] == nil && bytes.Contains(row.Body, name) && ownerOf(row) == a.opts.Owner {
					list = append(list, undeclared{row: row})
				}
			}
			if len(rows) < q.Limit {
				break
			}
			q.After = rows[len(rows)-1].Key
		}
	}
	for i := range list {
		row := list[i].row
		if isAllGroup(row.Key) {
			continue // as its namespace, which comes last
		}
		if list[i].keep, err = a.keepReason(ctx, row, set); err != nil {
			return nil, err
		}
		if list[i].keep == "" {
			a.deleted[row.Key] = true
		}
	}
	return a.pruneAllGroups(ctx, list)
}

// keepReason returns why a resource is not pruned; empty: it is.
func (a *application) keepReason(ctx context.Context, row Row, set map[Key]*model.Resource) (why string, err error) {
	switch row.Kind {
	case "Node":
		r, err := a.repo.decode(row)
		if err != nil {
			return "", err
		}
		if r.Spec.(*model.NodeSpec).UID != "" {
			return "its machine has joined; when it is to go: muster delete " + row.Key.String(), nil
		}
	case "Namespace":
		for key := range set {
			if key.Namespace == row.Name {
				return "it holds " + key.String(), nil
			}
		}
		err := a.repo.checkNamespaceDeletion(ctx, row.Key, a.deleted)
		if report := model.ClassOf(err); report == model.Conflict || report == model.Invalid {
			return err.(*model.Error).Message, nil
		} else if err != nil {
			return "", err
		}
		group, there, err := a.repo.allGroupRow(ctx, row.Name)
		if owner := ownerOf(group); there && owner != "" && owner != a.opts.Owner {
			return "it holds " + group.Key.String() + " (of " + owner + ")", nil
		}
		return "", err
	}
	return "", nil
}

// prune adds the deletions. A handler that somebody still references stays: its problems would notify nobody.
func (a *application) prune(ctx context.Context, list []undeclared) error {
	for _, s := range list {
		o := Outcome{Key: s.row.Key, Revision: s.row.Revision, Pruned: true}
		if s.keep != "" {
			o.Op, o.Warnings = OpUnchanged, []string{"it is not declared any more and stays: " + s.keep}
			if isAllGroup(s.row.Key) {
				if err := a.releaseOwner(s.row, o); err != nil {
					return err
				}
				continue
			}
			a.outcomes = append(a.outcomes, o)
			continue
		}
		o.Op, o.Diff = OpDeleted, a.difference(s.row.Key, s.row.Body, nil)
		a.keepNodeRow(s.row)
		a.add(Write{Key: s.row.Key, Expect: s.row.Revision}, o)
	}
	n, by, err := a.repo.referrer(ctx, a.deleted, a.applied)
	if err == nil && by != nil {
		a.dangling = model.Errorf(model.Conflict, "%s is not declared any more, but %s refers to it in %s", keyOfReference(n), describeOwned(by), n.Field).
			WithHint("keep its file until nothing refers to it; nothing was changed")
	}
	return err
}

// pruneSummary names the resources to delete, for the guard's message.
func (a *application) pruneSummary() string {
	var names []string
	for _, o := range a.outcomes {
		if o.Pruned && o.Op == OpDeleted {
			names = append(names, o.Key.String())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("; it would delete %s that %s declares no more: %s", model.CountNoun(len(names), "resource"), a.opts.Owner, model.ListFirst(names, 10))
}
