package intent

import (
	"context"
	"errors"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// copyNodeRow keeps a copy of a node's database row as read, so that commit detects later changes. So a later
// change of the row can be recognised. An agent may report between the moment an operator's apply reads the
// node and the moment it writes. That is no conflict: the operator declares other fields of the row than the
// agent reports.
func (a *pendingApply) copyNodeRow(row Row) {
	if row.Kind != "Node" {
		return
	}
	if a.nodes == nil {
		a.nodes = map[Key]Row{}
	}
	a.nodes[row.Key] = row
}

// commit writes all resources of the apply to the database, with agents' reports that arrived meanwhile.
func (a *pendingApply) commit(ctx context.Context) (CommitResult, error) {
	r := a.repo
	r.writing.Lock()
	defer r.writing.Unlock()
	if a.hasReview && r.previewed.Load() != a.previewed {
		return CommitResult{}, errOvertaken
	}
	for i := range a.writes {
		if err := a.rebaseNodeWrite(ctx, &a.writes[i]); err != nil {
			return CommitResult{}, err
		}
	}
	for uid, key := range a.claims {
		if err := r.checkUID(key, uid); err != nil {
			return CommitResult{}, err
		}
	}
	done, err := r.commitLocked(ctx, a.by, slices.Concat(a.writes, a.tombstones, a.requests))
	if err == nil {
		r.previewed.Add(1)
	}
	return done, err
}

// errOvertaken is the error for a change with an outdated preview. Another commit has made the preview invalid.
var errOvertaken = model.Errorf(model.Conflict, "other changes were committed at the same time; your change was not made").WithHint("repeat the command")

// rebaseNodeWrite repeats the write of a node on the newest row if only the agent's report changed meanwhile.
// It does so only if nothing but the agent's report has changed since the row was read. A revision that the
// caller stated stays.
func (a *pendingApply) rebaseNodeWrite(ctx context.Context, w *Write) error {
	source := w.Source()
	before, ok := a.nodes[source]
	if _, stated := a.opts.Expect[source]; !ok || stated || w.Expect != before.Revision {
		return nil
	}
	now, err := a.repo.opts.Store.Get(ctx, source)
	if err != nil || now.Revision == before.Revision || now.ID != before.ID {
		if model.ClassOf(err) == model.NotFound {
			err = nil // the commit reports the missing row
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
	if _, err := a.repo.keepReportedFields(r.Spec.(*model.NodeSpec), now, true); err != nil {
		return err
	}
	w.Body, err = encode(r)
	return err
}

// declaredBody returns the JSON of a node without its machine key and its agent's report, for comparisons.
func declaredBody(row Row) ([]byte, error) {
	r, spec, err := decodeNode(row)
	if err != nil {
		return nil, err
	}
	spec.Key = ""
	AgentReport{}.writeTo(spec)
	return encode(r)
}

// Check returns an error if the stored row was changed since the writer read the row. The write expects that the row
// is missing, or has a revision. A difference is a model.Conflict.
func (write Write) Check(exists bool, revision int64) error {
	key := write.Source()
	switch {
	case write.Expect < 0 || exists && write.Expect == revision || !exists && write.Expect == 0:
		return nil
	case !exists:
		return model.Errorf(model.Conflict, "resource %s was deleted since you read it", key).WithHint("read the resource again, then repeat your change")
	case write.Expect == 0:
		return model.Errorf(model.Conflict, "resource %s already exists (revision %d)", key, revision)
	}
	return model.Errorf(model.Conflict, "resource %s has changed since you read it: its revision is %d, you had %d", key, revision, write.Expect).
		WithHint("read the resource again, then repeat your change")
}

// Source returns the row's database key before the write, which differs from the new key in a rename. It
// differs from Write.Key if the write renames the row.
func (write Write) Source() Key {
	key := write.Key
	if write.From != "" {
		key.Name = write.From
	}
	return key
}

// staleError converts a Conflict to an error of class Stale if the caller stated the expected revision. RFC 9110,
// 13.1, describes such conditional requests.
func staleError(err error) error {
	var report *model.Error
	if !errors.As(err, &report) || report.Class != model.Conflict {
		return err
	}
	again := *report
	again.Class = model.Stale
	return &again
}

// concurrentApplyError explains the conflict of an apply with a simultaneous change. Another apply ran, or a person
// changed a resource by hand. Nothing was written; the next apply reads all resources anew.
func concurrentApplyError(err error) error {
	var report *model.Error
	if !errors.As(err, &report) {
		return err
	}
	return model.Errorf(model.Conflict, "another change happened at the same time: %s; your apply changed nothing", report.Message).
		WithHint("run one CI pipeline per folder at a time, then run the newest again; show the other change: muster audit")
}
