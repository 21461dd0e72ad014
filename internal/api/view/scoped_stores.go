package view

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/store/history"
)

// scopedIntent reads and changes declared resources, limited to the namespaces that the caller may see.
type scopedIntent struct {
	all Intent
	*namespaceScope
	nodes int // number of nodes in the scope
}

var _ Intent = scopedIntent{}

// boundOptions restricts a change of resources to the namespaces that the caller may see. Pruning of resources is
// restricted, too.
func (i scopedIntent) boundOptions(o intent.ApplyOptions) intent.ApplyOptions {
	o.Namespaces, o.MaxAffected = i.namespaces, cmp.Or(o.MaxAffected, max(50, i.nodes/5))
	return o
}

// visibleOutcomes removes from the result of an apply the resources that the caller may not see. A rename can
// change shared resources, for example.
func (i scopedIntent) visibleOutcomes(a intent.ApplyResult, err error) (intent.ApplyResult, error) {
	a.Units = slices.DeleteFunc(a.Units, func(u intent.UnitImpact) bool { return !i.includesNamespace(u.Key.Namespace) })
	a.Outcomes = slices.DeleteFunc(a.Outcomes, func(o intent.Outcome) bool { return !i.includesNamespace(o.Key.Namespace) })
	return a, err
}

// Apply declares resources if the caller may see all their namespaces.
func (i scopedIntent) Apply(ctx context.Context, by intent.Actor, resources []model.Resource, o intent.ApplyOptions) (intent.ApplyResult, error) {
	for n := range resources {
		if err := i.checkWritable(&resources[n]); err != nil {
			return intent.ApplyResult{}, err
		}
	}
	return i.visibleOutcomes(i.all.Apply(ctx, by, resources, i.boundOptions(o)))
}

// checkWritable returns an error if the caller may not declare a resource. Resources of other namespaces, namespaces,
// and resources that affect the server are forbidden.
func (i scopedIntent) checkWritable(r *model.Resource) error {
	key := intent.KeyOf(r)
	if key.Kind == "Namespace" {
		return model.Errorf(model.Forbidden, "changing %s needs a role in every namespace; user %s has %s", key, i.subject.User, &i.subject.Grants)
	}
	if !i.includesNamespace(key.Namespace) {
		return i.refusalError(key.Namespace)
	}
	if i.need.Verb != access.Change { // an operator's silence, or a dry run
		return nil
	}
	if field := fieldReachingBeyondNamespace(r); field != "" {
		return model.Errorf(model.Forbidden, "%s: the field %s affects more than namespace %s and so needs a role in every namespace; user %s has %s", key, field, key.Namespace, i.subject.User, &i.subject.Grants).
			WithHint("ask an administrator to apply the resource, or create it in namespace %s as %s/%s", model.SharedNamespaceName, model.SharedNamespaceName, key.Name)
	}
	return nil
}

// fieldReachingBeyondNamespace returns the first field by which a resource affects other namespaces or the
// server, or "". A command on the server is an example; without such a field the text is empty.
func fieldReachingBeyondNamespace(r *model.Resource) string {
	switch spec := r.Spec.(type) {
	case *model.PropertySpec:
		if spec.Scope == "global" {
			return "scope"
		}
	case *model.SecretSpec:
		if spec.OnServer() {
			return "a value that the server stores"
		}
	case *model.MutatorSpec:
		if spec.Command != nil {
			return "command"
		}
	case *model.HandlerSpec:
		if spec.Command != nil {
			return "command"
		}
		text, err := json.Marshal(spec)
		for _, field := range []string{"fromFile", "fromEnv"} {
			if err != nil || strings.Contains(string(text), `{"`+field+`":`) {
				return field
			}
		}
	}
	return ""
}

// Delete deletes declared resources, if the caller may see their namespaces.
func (i scopedIntent) Delete(ctx context.Context, by intent.Actor, keys []intent.Key, o intent.ApplyOptions) (intent.ApplyResult, error) {
	if err := i.checkRemovable(keys); err != nil {
		return intent.ApplyResult{}, err
	}
	return i.visibleOutcomes(i.all.Delete(ctx, by, keys, i.boundOptions(o)))
}

// Retire retires nodes, if the caller may see their namespaces.
func (i scopedIntent) Retire(ctx context.Context, by intent.Actor, keys []intent.Key, o intent.ApplyOptions) (intent.ApplyResult, error) {
	if err := i.checkRemovable(keys); err != nil {
		return intent.ApplyResult{}, err
	}
	return i.visibleOutcomes(i.all.Retire(ctx, by, keys, i.boundOptions(o)))
}

// checkRemovable returns an error if the caller may not delete one of the resources.
func (i scopedIntent) checkRemovable(keys []intent.Key) error {
	for _, key := range keys {
		if key.Kind == "Namespace" {
			return i.checkWritable(&model.Resource{Kind: key.Kind, Metadata: model.Metadata{Name: key.Name}})
		}
		if !i.includesNamespace(key.Namespace) {
			return i.refusalError(key.Namespace)
		}
	}
	return nil
}

// Rename renames a node, if the caller may see the node's namespace.
func (i scopedIntent) Rename(ctx context.Context, by intent.Actor, namespace, name, to string, o intent.ApplyOptions) (intent.ApplyResult, error) {
	if !i.includesNamespace(namespace) {
		return intent.ApplyResult{}, i.refusalError(namespace)
	}
	return i.visibleOutcomes(i.all.Rename(ctx, by, namespace, name, to, i.boundOptions(o)))
}

// ListTombstones returns the tombstones (records of retired or refused machines) of namespaces that the caller may
// see
func (i scopedIntent) ListTombstones() []intent.TombstoneEntry {
	return slices.DeleteFunc(i.all.ListTombstones(), func(g intent.TombstoneEntry) bool { return !i.includesNamespace(g.Namespace) })
}

// DeleteTombstone deletes the record (tombstone) of a retired or refused machine in a visible namespace. The machine may
// then join again.
func (i scopedIntent) DeleteTombstone(ctx context.Context, by intent.Actor, id string) error {
	if !slices.ContainsFunc(i.ListTombstones(), func(g intent.TombstoneEntry) bool { return g.ID == id }) {
		return intent.ErrNoTombstone(id)
	}
	return i.all.DeleteTombstone(ctx, by, id)
}

// EphemeralNodes returns the ephemeral nodes (deleted after disconnecting) of namespaces that the caller may
// see.
func (i scopedIntent) EphemeralNodes() []intent.NodeInfo {
	return slices.DeleteFunc(i.all.EphemeralNodes(), func(n intent.NodeInfo) bool { return !i.includesNamespace(n.Namespace) })
}

// Get returns a resource that the caller may see. Shared checks and groups are visible, because they apply to the
// caller's nodes.
func (i scopedIntent) Get(ctx context.Context, key intent.Key) (*model.Resource, error) {
	switch {
	case key.Kind == "Namespace" && !i.includesNamespace(key.Name):
		return nil, i.refusalError(key.Name)
	case i.includesResource(key), (key.Kind == "Check" || key.Kind == "Group") && i.showsDefinitionsOf(key.Namespace):
		return i.all.Get(ctx, key)
	}
	return nil, i.refusalError(key.Namespace)
}

// List returns the resources that match a query, limited to the caller's namespaces.
func (i scopedIntent) List(ctx context.Context, q intent.ListQuery, match func(*model.Resource) bool) ([]model.Resource, error) {
	q, match = i.boundQuery(q, match)
	return i.all.List(ctx, q, match)
}

// Page returns a page of the resources that match a query, limited to the caller's namespaces.
func (i scopedIntent) Page(ctx context.Context, q intent.ListQuery, match func(*model.Resource) bool) ([]model.Resource, bool, error) {
	q, match = i.boundQuery(q, match)
	return i.all.Page(ctx, q, match)
}

// boundQuery restricts a query of resources to the namespaces that the caller may see.
func (i scopedIntent) boundQuery(q intent.ListQuery, match func(*model.Resource) bool) (intent.ListQuery, func(*model.Resource) bool) {
	if q.Kind != "Namespace" {
		q.Namespaces = i.namespaces
		return q, match
	}
	return q, func(r *model.Resource) bool {
		return i.includesNamespace(r.Metadata.Name) && (match == nil || match(r))
	}
}

// Audit returns audit records, limited to the namespaces that the caller may see. Records about one shared
// check are visible, because it may run on the caller's nodes.
func (i scopedIntent) Audit(ctx context.Context, q intent.ChangeQuery, redact bool) ([]intent.AuditEntry, error) {
	if q.Kind == "Check" && q.Namespace == model.SharedNamespaceName && q.Name != "" {
		return i.all.Audit(ctx, q, true)
	}
	q.Namespaces = i.namespaces
	return i.all.Audit(ctx, q, redact)
}

// RecordRun records in the audit log that a check or command was run on nodes
func (i scopedIntent) RecordRun(ctx context.Context, by intent.Actor) error {
	return i.all.RecordRun(ctx, by)
}

// BeginRun records in the audit log that a run of a check or command on nodes begins
func (i scopedIntent) BeginRun(ctx context.Context, by intent.Actor, picked, note string) (ended func(came string) error, err error) {
	return i.all.BeginRun(ctx, by, picked, note)
}

// TombstoneByName returns the tombstone of a retired machine with a given node name, if its namespace is
// visible. It is the record of a retired or refused machine.
func (i scopedIntent) TombstoneByName(namespace, name string) (intent.Tombstone, bool) {
	if !i.includesNamespace(namespace) {
		return intent.Tombstone{}, false
	}
	return i.all.TombstoneByName(namespace, name)
}

// HasMachine reports whether a machine has enrolled under a node name, in a namespace visible to the caller.
func (i scopedIntent) HasMachine(namespace, name string) bool {
	return i.includesNamespace(namespace) && i.all.HasMachine(namespace, name)
}

// CheckJoinGrant validates the groups and labels of a new join token, if the caller may see its namespace.
func (i scopedIntent) CheckJoinGrant(ctx context.Context, token pki.JoinToken) error {
	if !i.includesNamespace(token.Namespace) {
		return i.refusalError(token.Namespace)
	}
	return i.all.CheckJoinGrant(ctx, token)
}

// Accept returns an error, because only callers with a role in every namespace may accept machines as nodes.
// Such a caller may not accept pending machines.
func (i scopedIntent) Accept(_ context.Context, _ intent.Actor, _ string, token pki.JoinToken, _ pki.EnrolRequest, _ bool) (pki.Member, error) {
	return pki.Member{}, i.subject.RefusalError(i.need)
}

// BlockKey returns an error, because only callers with a role in every namespace may block a machine's key.
// Such a caller may not refuse pending machines.
func (i scopedIntent) BlockKey(context.Context, intent.Actor, string, intent.Tombstone) error {
	return i.subject.RefusalError(i.need)
}

// scopedRows reads stored resources and audit records, limited to the namespaces that the caller may see.
type scopedRows struct {
	all Rows
	*namespaceScope
}

// List returns the stored rows of resources that the caller may see
func (r scopedRows) List(ctx context.Context, q intent.ListQuery) ([]intent.Row, error) {
	if q.Kind == "Namespace" {
		q.Limit = 0
		list, err := r.all.List(ctx, q)
		return slices.DeleteFunc(list, func(row intent.Row) bool { return !r.includesNamespace(row.Name) }), err
	}
	q.Namespaces = r.namespaces
	return r.all.List(ctx, q)
}

// ChangesBefore returns audit records of namespaces that the caller may see
func (r scopedRows) ChangesBefore(ctx context.Context, q intent.ChangeQuery) ([]intent.Change, error) {
	q.Namespaces = r.namespaces
	return r.all.ChangesBefore(ctx, q)
}

// Revision returns the revision number of the newest change of declared resources, in any namespace.
func (r scopedRows) Revision(ctx context.Context) (int64, error) { return r.all.Revision(ctx) }

// scopedHistory reads problems and notifications, limited to the namespaces that the caller may see.
type scopedHistory struct {
	all History
	*namespaceScope
}

var _ History = scopedHistory{}

// Problems returns the problems of namespaces that the caller may see
func (h scopedHistory) Problems(ctx context.Context, q history.ProblemQuery) ([]history.Problem, error) {
	q.Namespaces = h.namespaces
	return h.all.Problems(ctx, q)
}

// Entries returns history entries of namespaces that the caller may see
func (h scopedHistory) Entries(ctx context.Context, q history.EntryQuery) ([]history.Entry, error) {
	q.Namespaces = h.namespaces
	return h.all.Entries(ctx, q)
}

// FlappingAndAcknowledgements returns the history entries about flapping and acknowledgements in the namespaces that the caller may see.
func (h scopedHistory) FlappingAndAcknowledgements(ctx context.Context, q history.EntryQuery) ([]history.Entry, error) {
	q.Namespaces = h.namespaces
	return h.all.FlappingAndAcknowledgements(ctx, q)
}

// Messages returns the notifications of namespaces that the caller may see
func (h scopedHistory) Messages(ctx context.Context, q history.MessageQuery) ([]history.Message, error) {
	q.Namespaces = h.namespaces
	return h.all.Messages(ctx, q)
}

// Problem returns a problem that the caller may see. A problem of another namespace counts as missing.
func (h scopedHistory) Problem(ctx context.Context, id string) (history.Problem, error) {
	p, err := h.all.Problem(ctx, id)
	if err == nil && !h.includesNamespace(p.Namespace) {
		return history.Problem{}, history.ErrNoProblem(id)
	}
	return p, err
}

// isProblemInScope reports whether the caller may see a problem.
func (h scopedHistory) isProblemInScope(ctx context.Context, problem string) (bool, error) {
	_, err := h.Problem(ctx, problem)
	if model.ClassOf(err) == model.NotFound {
		return false, nil
	}
	return err == nil, err
}

// Deliveries returns the deliveries (notifications to single handlers) about a problem that the caller may see
func (h scopedHistory) Deliveries(ctx context.Context, problem string) ([]history.Delivery, error) {
	if ok, err := h.isProblemInScope(ctx, problem); !ok {
		return nil, err
	}
	return h.all.Deliveries(ctx, problem)
}

// EscalationsOf returns the escalations (progress on routes) of a problem that the caller may see.
func (h scopedHistory) EscalationsOf(ctx context.Context, problem string) ([]history.Escalation, error) {
	if ok, err := h.isProblemInScope(ctx, problem); !ok {
		return nil, err
	}
	return h.all.EscalationsOf(ctx, problem)
}

// LinkedProblems returns nothing, because only callbacks from services such as PagerDuty read linked problems.
// Callbacks are not limited to namespaces.
func (h scopedHistory) LinkedProblems(context.Context, string) ([]string, error) { return nil, nil }

// CountProblems counts the opened and closed problems since a time, in namespaces visible to the caller.
func (h scopedHistory) CountProblems(ctx context.Context, namespace string, t time.Time) (opened, closed int, err error) {
	for _, one := range h.namespaces {
		if namespace != "" && namespace != one {
			continue
		}
		o, c, err := h.all.CountProblems(ctx, one, t)
		if err != nil {
			return 0, 0, err
		}
		opened, closed = opened+o, closed+c
	}
	return opened, closed, nil
}

// Oldest returns the time of the oldest history entry, in any namespace.
func (h scopedHistory) Oldest(ctx context.Context) (time.Time, error) { return h.all.Oldest(ctx) }

// Unsent returns the number of unsent notifications of each handler in the namespaces that the caller may see
func (h scopedHistory) Unsent(ctx context.Context, deadSince time.Time) ([]history.Unsent, error) {
	list, err := h.all.Unsent(ctx, deadSince)
	return slices.DeleteFunc(list, func(u history.Unsent) bool { return !h.includesNamespace(u.Handler.Namespace) }), err
}

// DeadLetters returns the dead letters of a handler in a namespace that the caller may see. A dead letter is a
// notification that was given up.
func (h scopedHistory) DeadLetters(ctx context.Context, handler history.HandlerRef, before int64, limit int) ([]history.Delivery, error) {
	if !h.includesNamespace(handler.Namespace) {
		return nil, h.refusalError(handler.Namespace)
	}
	return h.all.DeadLetters(ctx, handler, before, limit)
}
