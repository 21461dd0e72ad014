package intent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// setOwner sets the owner of a resource to the owner of the apply.
//
// metadata.owner names a team or a repository. An apply for an owner (ApplyOptions.Owner) writes that name on all
// its resources and takes none of another owner unless told to; it takes resources without an owner and says so. A
// change by hand leaves the owner.
func (a *pendingApply) setOwner(r *model.Resource) error {
	switch of := r.Metadata.Owner; {
	case a.opts.Owner == "" || of == a.opts.Owner:
	case of != "":
		return model.Errorf(model.Invalid, "%s has owner: %s, but this apply has --owner %s", KeyOf(r), of, a.opts.Owner).
			WithHint("remove metadata.owner from the file, or move the file to the folder of %s", of)
	default:
		r.Metadata.Owner = a.opts.Owner
	}
	return nil
}

// checkOwner compares a resource's owner with the owner of the apply, and returns warnings about a changed
// owner.
func (a *pendingApply) checkOwner(r *model.Resource, row Row, exists bool) (warnings []string) {
	if !exists {
		return nil
	}
	was := ownerOf(row)
	_, seen := a.opts.Expect[KeyOf(r)] // a caller that states a revision has read the owner
	if r.Metadata.Owner == "" && !seen {
		r.Metadata.Owner = was
	}
	now := r.Metadata.Owner
	switch {
	case was == now && (was == "" || a.opts.Owner != ""):
		return nil
	case was == "":
		return []string{"the resource had no owner; its owner is now " + now}
	case was == now:
		return []string{"it belongs to " + was + ", whose next apply undoes the change: change it in its files"}
	case a.opts.TakeOver:
		return []string{"taken over from " + was}
	case seen:
		return []string{"its former owner was " + was + ", whose next apply may take it over again or fail"}
	}
	a.foreign = append(a.foreign, foreignResource{KeyOf(r), was})
	return []string{"belongs to " + was}
}

// foreignResource is an applied resource of another owner.
type foreignResource struct {
	key   Key
	owner string
}

// foreignResourcesError returns the error about applied resources of other owners. It returns nil if the apply has no
// such resource.
func (a *pendingApply) foreignResourcesError() error {
	if len(a.foreign) == 0 {
		return nil
	}
	owners := map[string][]string{}
	var order []string
	for _, f := range a.foreign {
		if owners[f.owner] == nil {
			order = append(order, f.owner)
		}
		owners[f.owner] = append(owners[f.owner], f.key.String())
	}
	report := make([]string, len(order))
	for i, owner := range order {
		verb := " belongs to "
		if len(owners[owner]) > 1 {
			verb = " belong to "
		}
		report[i] = model.ListFirst(owners[owner], 10) + verb + owner
	}
	return model.Errorf(model.Guarded, "%s; nothing was changed", strings.Join(report, "; ")).
		WithHint("agree with the owner, or remove the resource from your files; to become its owner: --take-over")
}

// ownerOf returns the owner of a stored resource. The text is empty if the resource has no owner.
func ownerOf(row Row) string {
	var body struct {
		Metadata struct {
			Owner string `json:"owner"`
		} `json:"metadata"`
	}
	if json.Unmarshal(row.Body, &body) != nil {
		return ""
	}
	return body.Metadata.Owner
}

// deleteWarning returns a warning about deleting by hand a resource that an owner declares.
func deleteWarning(row Row) []string {
	if owner := ownerOf(row); owner != "" {
		return []string{"it belongs to " + owner + ", whose next apply creates it again if its files still declare it"}
	}
	return nil
}

// renameWarning returns a warning about renaming by hand a node that an owner declares.
func renameWarning(row Row) []string {
	if owner := ownerOf(row); owner != "" {
		return []string{"it belongs to " + owner + ": change metadata.name in its files too, or its next apply creates a second node " + row.Name}
	}
	return nil
}

// keyWithOwner formats the key of a resource for messages, with the owner, if any.
func keyWithOwner(r *model.Resource) string {
	if r.Metadata.Owner != "" {
		return KeyOf(r).String() + " (of " + r.Metadata.Owner + ")"
	}
	return KeyOf(r).String()
}

// refusalReason returns the first reason to refuse the apply, such as too many changed nodes. The reasons are
// resources of other owners, a reference to a missing resource, and too many changed nodes.
func (a *pendingApply) refusalReason(affected int) error {
	reasons := slices.DeleteFunc([]error{a.foreignResourcesError(), a.dangling, a.checkAffected(affected)}, func(err error) bool { return err == nil })
	if len(reasons) == 0 {
		return nil
	}
	return reasons[0]
}

// undeclaredResource is a stored resource that its owner's files no longer declare.
type undeclaredResource struct {
	row  Row
	keep string // reason why the prune keeps the resource; empty: the prune deletes it
}

// findUndeclared returns the owner's stored resources that are missing in the applied files. It marks in a.deleted the
// resources that a prune deletes. It ignores resources of other owners and without an owner; joined machines, built-in
// resources and non-empty namespaces stay.
func (a *pendingApply) findUndeclared(ctx context.Context, set map[Key]*model.Resource) (list []undeclaredResource, err error) {
	if !a.opts.Prune {
		return nil, nil
	}
	if a.opts.Owner == "" {
		return nil, model.Errorf(model.Invalid, "--prune needs --owner").WithHint("repeat with --owner NAME")
	}
	if len(set) == 0 && !a.opts.AllowEmpty {
		return nil, model.Errorf(model.Invalid, "the files declare no resource: --prune would delete all resources of %s", a.opts.Owner).
			WithHint("check the path of the files; to delete all resources of this owner: --allow-empty")
	}
	name, err := json.Marshal(a.opts.Owner)
	if err != nil {
		return nil, err
	}
	kinds := a.repo.opts.Kinds.Kinds()
	slices.Reverse(kinds) // dependent kinds first, namespaces last
	for _, k := range kinds {
		for row, err := range a.repo.rows(ctx, ListQuery{Kind: k.Name, Limit: rowsPerQuery}) {
			if err != nil {
				return nil, err
			}
			if a.opts.prunes(row.Key) && set[row.Key] == nil && bytes.Contains(row.Body, name) && ownerOf(row) == a.opts.Owner {
				list = append(list, undeclaredResource{row: row})
			}
		}
	}
	for i := range list {
		row := list[i].row
		if isAllGroup(row.Key) {
			continue // the group goes with its namespace, which comes last
		}
		if list[i].keep, err = a.keepReason(ctx, row, set); err != nil {
			return nil, err
		}
		if list[i].keep == "" {
			a.deleted[row.Key] = true
		}
	}
	return a.excludeAllGroups(ctx, list)
}

// keepReason returns the reason why a prune keeps an undeclared resource. The text is empty if the prune deletes the
// resource.
func (a *pendingApply) keepReason(ctx context.Context, row Row, set map[Key]*model.Resource) (why string, err error) {
	switch row.Kind {
	case "Node":
		r, err := a.repo.decode(row)
		if err != nil {
			return "", err
		}
		if r.Spec.(*model.NodeSpec).UID != "" {
			return "its machine has joined; to delete it: muster delete " + row.Key.String(), nil
		}
	case "Namespace":
		for key := range set {
			if key.Namespace == row.Name {
				return "it has " + key.String(), nil
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
			return "it has " + group.Key.String() + " (of " + owner + ")", nil
		}
		return "", err
	}
	return "", nil
}

// prune adds to the apply the deletions of stored resources that the owner no longer declares. A handler that a
// resource still references stays: otherwise the problems of that resource would notify nobody.
func (a *pendingApply) prune(ctx context.Context, list []undeclaredResource) error {
	for _, s := range list {
		o := Outcome{Key: s.row.Key, Revision: s.row.Revision, Pruned: true}
		if s.keep != "" {
			o.Op, o.Warnings = OpUnchanged, []string{"it is no longer declared and stays: " + s.keep}
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
		a.copyNodeRow(s.row)
		a.addWrite(Write{Key: s.row.Key, Expect: s.row.Revision}, o)
	}
	n, by, err := a.repo.findReferrer(ctx, a.deleted, a.applied)
	if err == nil && by != nil {
		a.dangling = model.Errorf(model.Conflict, "%s is no longer declared, but %s still refers to it in %s", keyOfReference(n), keyWithOwner(by), n.Field).
			WithHint("keep its file until no resource refers to it; nothing was changed")
	}
	return err
}

// pruneSummary returns a text with the resources that a prune would delete. The error that asks for a confirmation
// contains this text.
func (a *pendingApply) pruneSummary() string {
	var names []string
	for _, o := range a.outcomes {
		if o.Pruned && o.Op == OpDeleted {
			names = append(names, o.Key.String())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("; it would delete %s that %s no longer declares: %s", model.CountNoun(len(names), "resource"), a.opts.Owner, model.ListFirst(names, 10))
}
