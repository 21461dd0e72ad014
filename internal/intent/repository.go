package intent

import (
	"context"
	"fmt"
	"sync"

	"github.com/muster-fleet/muster/internal/model"
)

// repository commits rows and keeps the indexes in memory in step with them. All parts of a Service share one.
//
// Lock order: nodeIndex.enrolling, then writing, then the lock of one index. No lock of an index is held across SQL.
type repository struct {
	opts      Options
	committed chan struct{} // has a value after each commit

	// writing is held from before a row is written until the indexes have it, and by writers that read first.
	// Readers of the indexes do not wait for it.
	writing sync.Mutex

	nodes      nodeIndex
	tombstones tombstoneIndex
	namespaces namespaceIndex
	reserved   reservedNames
}

// Load creates the namespaces default and shared, each with its group all, at the first start, and reads the
// indexes. Call it before anything else.
func (r *repository) Load(ctx context.Context) error {
	if err := r.seed(ctx); err != nil {
		return err
	}
	for _, kind := range []string{"Namespace", "Node", "Group", "Check", tombstoneKind} {
		rows, err := r.opts.Store.List(ctx, ListQuery{Kind: kind})
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := r.index(row, false); err != nil {
				return fmt.Errorf("load %s: %w", row.Key, err)
			}
		}
	}
	return nil
}

func (r *repository) seed(ctx context.Context) error {
	seeds := []model.Resource{
		{Kind: "Namespace", Metadata: model.Metadata{Name: model.DefaultNamespaceName}, Spec: &model.NamespaceSpec{}},
		{Kind: "Namespace", Metadata: model.Metadata{Name: model.SharedNamespaceName, DisplayName: "Checks here may target the nodes of all"}, Spec: &model.NamespaceSpec{}},
		newAllGroup(model.DefaultNamespaceName),
		newAllGroup(model.SharedNamespaceName),
	}
	revision, err := r.opts.Store.Revision(ctx)
	if err != nil || revision > 0 {
		return err
	}
	writes := make([]Write, len(seeds))
	for i := range seeds {
		body, err := encode(&seeds[i])
		if err != nil {
			return err
		}
		writes[i] = Write{Key: KeyOf(&seeds[i]), Body: body}
	}
	_, err = r.opts.Store.Commit(ctx, serverActor("first start"), writes)
	return err
}

// server returns the server as the actor of a change that it makes by itself.
func serverActor(why string) Actor { return Actor{User: "server", Whence: "local", Why: why} }

// commit writes rows and updates the indexes. Every write of intent goes through it.
func (r *repository) commit(ctx context.Context, by Actor, writes []Write) (CommitResult, error) {
	r.writing.Lock()
	defer r.writing.Unlock()
	return r.commitLocked(ctx, by, writes)
}

// commitLocked is commit for callers that hold writing. Nothing comes between the rows and the indexes, so the
// row written last is also the row indexed last.
func (r *repository) commitLocked(ctx context.Context, by Actor, writes []Write) (CommitResult, error) {
	done, err := r.opts.Store.Commit(ctx, by, writes)
	if err != nil {
		return done, err
	}
	for i, row := range done.Rows {
		if writes[i].From != "" && row.Kind == "Node" {
			r.nodes.move(writes[i].Source(), row.Key)
		}
		if err := r.index(row, writes[i].Body == nil); err != nil {
			r.opts.Logger.Error("a written row cannot be read back", "row", row.Key.String(), "err", err)
		}
	}
	select {
	case r.committed <- struct{}{}:
	default:
	}
	return done, nil
}

// index updates the index of a kind after a row was written or deleted.
func (r *repository) index(row Row, deleted bool) error {
	switch {
	case row.Kind == "Node" && deleted:
		r.nodes.remove(row.Key)
	case row.Kind == "Node":
		return r.indexNode(row)
	case row.Kind == "Namespace" && deleted:
		r.namespaces.remove(row.Name)
	case row.Kind == "Namespace":
		return r.indexNamespace(row)
	case row.Kind == tombstoneKind && deleted:
		r.tombstones.remove(row.Name)
	case row.Kind == tombstoneKind:
		return r.tombstones.put(row)
	case (row.Kind == "Group" || row.Kind == "Check") && deleted:
		r.reserved.set(row.Key, nil)
	case row.Kind == "Group":
		return r.indexGroup(row)
	case row.Kind == "Check":
		return r.indexCheck(row)
	}
	return nil
}
