package intent

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// Delete deletes resources in one transaction. Like Apply it needs a confirmation if it changes many nodes.
func (s *Resources) Delete(ctx context.Context, by Actor, keys []Key, o ApplyOptions) (ApplyResult, error) {
	a := pendingApply{repo: s.repository, by: by, opts: o}
	deleted := map[Key]bool{}
	for _, key := range keys {
		deleted[key] = true
	}
	if n, namer, err := s.findReferrer(ctx, deleted, nil); err != nil {
		return ApplyResult{}, err
	} else if namer != nil {
		return ApplyResult{}, model.Errorf(model.Conflict, "%s still refers to %s in the field %s", keyWithOwner(namer), keyOfReference(n), n.Field).
			WithHint("remove the reference first, or delete both in one command")
	}
	keys = slices.Clone(keys)
	slices.SortStableFunc(keys, func(x, y Key) int { return deletionOrder(x) - deletionOrder(y) })
	for _, key := range keys {
		row, err := s.opts.Store.Get(ctx, key)
		if err != nil {
			return ApplyResult{}, err
		}
		if err := s.checkNamespaceDeletion(ctx, key, deleted); err != nil {
			return ApplyResult{}, err
		}
		if err := a.deleteAllGroup(ctx, key, deleted); err != nil {
			return ApplyResult{}, err
		}
		if expect, ok := o.Expect[key]; ok && expect != row.Revision {
			return ApplyResult{}, staleError(Write{Key: key, Expect: expect}.Check(true, row.Revision))
		}
		if key.Kind == "Node" {
			a.addTombstone(row, Tombstone{Cause: ReasonDeleted, Reason: by.Message})
		}
		a.copyNodeRow(row)
		a.addWrite(Write{Key: key, Expect: row.Revision}, Outcome{Key: key, Op: OpDeleted, Diff: difference(row.Body, nil), Warnings: deleteWarning(row)})
	}
	return a.previewAndCommit(ctx)
}

// deletionOrder returns a sort key by which namespaces are deleted after their resources. Resources are deleted before
// their namespace.
func deletionOrder(key Key) int {
	if key.Kind == "Namespace" {
		return 1
	}
	return 0
}

// checkNamespaceDeletion refuses to delete a built-in namespace, or a namespace with resources.
func (r *repository) checkNamespaceDeletion(ctx context.Context, key Key, deleted map[Key]bool) error {
	if key.Kind != "Namespace" {
		return nil
	}
	if key.Name == model.DefaultNamespaceName || key.Name == model.SharedNamespaceName {
		return model.Errorf(model.Invalid, "namespace %s is built in and cannot be deleted", key.Name)
	}
	for _, kind := range r.opts.Kinds.Kinds() {
		if !kind.Namespaced {
			continue
		}
		rows, err := r.opts.Store.List(ctx, ListQuery{Kind: kind.Name, Namespace: key.Name, Limit: len(deleted) + 2})
		if err != nil {
			return err
		}
		if left := slices.IndexFunc(rows, func(row Row) bool { return !deleted[row.Key] && row.Key != allGroupKey(key.Name) }); left >= 0 {
			return model.Errorf(model.Conflict, "namespace %s is not empty: it has %s", key.Name, rows[left].Key).
				WithHint("delete them: muster delete %s -n %s --all --yes; or all with the namespace: muster delete namespace %s --cascade --yes",
					kind.Plural, key.Name, key.Name)
		}
	}
	return nil
}

// findReferrer returns a resource that still refers to a resource to be deleted. It returns nil if no resource does.
// It ignores resources that the apply also deletes, and those that the apply writes (applied): checkReferences covers
// them.
func (r *repository) findReferrer(ctx context.Context, deleted map[Key]bool, applied map[Key]*model.Resource) (ref kind.Reference, by *model.Resource, err error) {
	if len(deleted) == 0 {
		return ref, nil, nil
	}
	names := map[string]bool{}
	for key := range deleted {
		names[key.Name], names[key.Namespace+"/"+key.Name] = true, true
	}
	for _, k := range r.opts.Kinds.Kinds() {
		for row, err := range r.rows(ctx, ListQuery{Kind: k.Name}) {
			if err != nil {
				return ref, nil, err
			}
			if deleted[row.Key] || applied[row.Key] != nil || !containsName(row.Body, names) {
				continue // most nodes of a large fleet refer to no resource
			}
			resource, err := r.decode(row)
			if err != nil {
				return ref, nil, err
			}
			for _, ref := range r.opts.Kinds.References(resource) {
				if ref.Required && deleted[keyOfReference(ref)] {
					return ref, resource, nil
				}
			}
		}
	}
	return ref, nil, nil
}

// containsName reports whether any of the names occurs in the JSON of a resource. Names have no characters that JSON
// escapes.
func containsName(body []byte, names map[string]bool) bool {
	for {
		start := bytes.IndexByte(body, '"')
		if start < 0 {
			return false
		}
		body = body[start+1:]
		end := 0
		for end < len(body) && body[end] != '"' {
			if body[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(body) {
			return false
		}
		if names[string(body[:end])] {
			return true
		}
		body = body[end+1:]
	}
}

// Retire removes nodes for good, and keeps a record of each removed machine. Such a record is a tombstone. Like Apply
// it needs a confirmation for many nodes. Their events go with them; tombstones stay, so that a returning machine
// learns why it is refused.
func (s *Resources) Retire(ctx context.Context, by Actor, keys []Key, o ApplyOptions) (ApplyResult, error) {
	return s.deregisterNodes(ctx, by, keys, Tombstone{Cause: ReasonRetired, Reason: by.Message}, o)
}

// deregisterNodes removes nodes, and stores a record of the removal (tombstone) for each machine. A tombstone records
// the removal.
func (r *repository) deregisterNodes(ctx context.Context, by Actor, keys []Key, t Tombstone, o ApplyOptions) (ApplyResult, error) {
	a := pendingApply{repo: r, by: by, opts: o}
	for _, key := range keys {
		row, err := r.opts.Store.Get(ctx, key)
		if err != nil {
			return ApplyResult{}, err
		}
		a.addTombstone(row, t)
		a.copyNodeRow(row)
		a.addWrite(Write{Key: key, Expect: row.Revision, Retire: t.Cause == ReasonRetired}, Outcome{Key: key, Op: OpRetired, Warnings: deleteWarning(row)})
	}
	return a.previewAndCommit(ctx)
}

// addTombstone adds a record of the removed node to the writes of the apply. A tombstone is the record of a removed
// node. A node that never had a machine gets no tombstone; a deleted (not retired) node gets one only if its machine's
// key is known.
func (a *pendingApply) addTombstone(row Row, t Tombstone) {
	r, err := a.repo.decode(row)
	if err != nil {
		return // no machine can have this node: its row is unreadable
	}
	spec := r.Spec.(*model.NodeSpec)
	uid, err := uuid.Parse(spec.UID)
	if err != nil {
		return
	}
	if info, ok := a.repo.nodes.lookupUID(uid); ok {
		if info.ID != model.NodeID(row.ID) {
			return // two nodes have this uid, and the machine belongs to the other one
		}
		spec.Key = cmp.Or(spec.Key, info.Key) // the first key is in memory and not yet in the row
	}
	if spec.Key == "" && t.Cause == ReasonDeleted {
		return
	}
	t.Name, t.Namespace, t.Key, t.By, t.At = row.Name, row.Namespace, spec.Key, a.by.User, a.repo.opts.Now().UTC()
	a.tombstones = append(a.tombstones, t.write(uid.String()))
}
