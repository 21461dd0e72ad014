package intent

import (
	"context"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// What agents say is written at any time, also between the moment when an operator's change
// has read a node and the moment when it is written. That is no conflict: the operator says
// one part of the row and the agent another.

// read keeps the row of a node as it was read.
func (a *application) read(row Row) {
	if row.Kind != "Node" {
		return
	}
	if a.nodes == nil {
		a.nodes = map[Key]Row{}
	}
	a.nodes[row.Key] = row
}

// commit writes all of it, over what agents said meanwhile.
func (a *application) commit(ctx context.Context) (CommitResult, error) {
	s := a.service
	s.writing.Lock()
	defer s.writing.Unlock()
	for i := range a.writes {
		if err := a.over(ctx, &a.writes[i]); err != nil {
			return CommitResult{}, err
		}
	}
	for uid, key := range a.claims {
		if err := s.claimed(key, uid); err != nil {
			return CommitResult{}, err
		}
	}
	return s.commitHeld(ctx, a.by, slices.Concat(a.writes, a.graves))
}

// over puts the write of a node on the row as it is now, where only an agent has changed
// that since it was read. A revision that the caller has stated stays.
func (a *application) over(ctx context.Context, w *Write) error {
	source := w.Source()
	before, ok := a.nodes[source]
	if _, stated := a.opts.Expect[source]; !ok || stated || w.Expect != before.Revision {
		return nil
	}
	now, err := a.service.opts.Store.Get(ctx, source)
	if err != nil || now.Revision == before.Revision || now.ID != before.ID {
		if model.ClassOf(err) == model.NotFound {
			err = nil // the commit says so
		}
		return err
	}
	was, err := declared(before)
	if err != nil {
		return err
	}
	is, err := declared(now)
	if err != nil || !sameJSON(was, is) {
		return err
	}
	w.Expect = now.Revision
	if w.Body == nil {
		return nil
	}
	r, err := a.service.decode(Row{Key: w.Key, Body: w.Body})
	if err != nil {
		return err
	}
	if _, err := a.service.keepMeasured(r.Spec.(*model.NodeSpec), now, true); err != nil {
		return err
	}
	w.Body, err = encode(r)
	return err
}

// declared is the body of a node without what its machine and its agent say.
func declared(row Row) ([]byte, error) {
	r, spec, err := decodeNode(row)
	if err != nil {
		return nil, err
	}
	spec.Key, spec.Facts, spec.AgentLabels, spec.AgentGroups, spec.AgentReceivers = "", nil, nil, nil, nil
	return encode(r)
}
