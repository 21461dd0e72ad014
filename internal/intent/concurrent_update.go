package intent

import (
	"context"
	"errors"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// keepNodeRow keeps the row of a node as it was read. Agents' reports are written at any time, also between an
// operator's reading of a node and the write. That is no conflict: the operator declares one part of the row and
// the agent reports the other.
func (a *application) keepNodeRow(row Row) {
	if row.Kind != "Node" {
		return
	}
	if a.nodes == nil {
		a.nodes = map[Key]Row{}
	}
	a.nodes[row.Key] = row
}

// commit writes everything, on top of reports that agents made meanwhile.
func (a *application) commit(ctx context.Context) (CommitResult, error) {
	r := a.repo
	r.writing.Lock()
	defer r.writing.Unlock()
	for i := range a.writes {
		if err := a.rebaseWrite(ctx, &a.writes[i]); err != nil {
			return CommitResult{}, err
		}
	}
	for uid, key := range a.claims {
		if err := r.checkUID(key, uid); err != nil {
			return CommitResult{}, err
		}
	}
	return r.commitLocked(ctx, a.by, slices.Concat(a.writes, a.tombstones))
}

// rebaseWrite puts the write of a node on the current row, if only its agent has changed that since it was read. A
// revision that the caller stated stays.
func (a *application) rebaseWrite(ctx context.Context, w *Write) error {
	source := w.Source()
	before, ok := a.nodes[source]
	if _, stated := a.opts.Expect[source]; !ok || stated || w.Expect != before.Revision {
		return nil
	}
	now, err := a.repo.opts.Store.Get(ctx, source)
	if err != nil || now.Revision == before.Revision || now.ID != before.ID {
		if model.ClassOf(err) == model.NotFound {
			err = nil // the commit says so
		}
		return err
	}
	was, err := declaredBody(before)
	if err != nil {
		return err
	}
	is, err := declaredBody(now)
	if err != nil || !sameJSON(was, is) {
		return err
	}
	w.Expect = now.Revision
	if w.Body == nil {
		return nil
	}
	r, err := a.repo.decode(Row{Key: w.Key, Body: w.Body})
	if err != nil {
		return err
	}
	if _, err := a.repo.keepReported(r.Spec.(*model.NodeSpec), now, true); err != nil {
		return err
	}
	w.Body, err = encode(r)
	return err
}

// declaredBody returns the body of a node without its machine's identity and its agent's report.
func declaredBody(row Row) ([]byte, error) {
	r, spec, err := decodeNode(row)
	if err != nil {
		return nil, err
	}
	spec.Key = ""
	AgentReport{}.writeTo(spec)
	return encode(r)
}

// Check compares the row with the write's expectation: existence and revision. A difference is a model.Conflict.
func (write Write) Check(exists bool, revision int64) error {
	key := write.Source()
	switch {
	case write.Expect < 0 || exists && write.Expect == revision || !exists && write.Expect == 0:
		return nil
	case !exists:
		return model.Errorf(model.Conflict, "%s was deleted since you read it", key).WithHint("read it again, then repeat your change")
	case write.Expect == 0:
		return model.Errorf(model.Conflict, "%s already exists (revision %d)", key, revision)
	}
	return model.Errorf(model.Conflict, "%s has changed since you read it: it has revision %d, you had %d", key, revision, write.Expect).
		WithHint("read it again, then repeat your change")
}

// Source returns the key of the row before the write. A move changes it to Key.
func (write Write) Source() Key {
	key := write.Key
	if write.From != "" {
		key.Name = write.From
	}
	return key
}

// staleError turns the Conflict of a write with a stated revision into model.Stale (RFC 9110, 13.1): only the caller
// can resolve it.
func staleError(err error) error {
	var report *model.Error
	if !errors.As(err, &report) || report.Class != model.Conflict {
		return err
	}
	again := *report
	again.Class = model.Stale
	return &again
}

// concurrentApplyError explains the Conflict of an apply of files: two ran at once, or somebody changed a resource by
// hand. Nothing was written; the next apply reads everything anew.
func concurrentApplyError(err error) error {
	var report *model.Error
	if !errors.As(err, &report) {
		return err
	}
	return model.Errorf(model.Conflict, "another change came in between: %s; this apply changed nothing", report.Message).
		WithHint("run one pipeline per folder at a time, then run the newest again; see the other change: muster audit")
}
