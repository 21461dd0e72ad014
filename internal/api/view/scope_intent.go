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

// scopedIntent is the intent service within a scope: resources of other namespaces do not exist.
type scopedIntent struct {
	all Intent
	*namespaceScope
	nodes int // number of nodes in the scope
}

var _ Intent = scopedIntent{}

// boundOptions limits a change to the scope: the resources that it prunes, and the nodes that it may affect.
func (i scopedIntent) boundOptions(o intent.ApplyOptions) intent.ApplyOptions {
	o.Namespaces, o.MaxAffected = i.namespaces, cmp.Or(o.MaxAffected, max(50, i.nodes/5))
	return o
}

// visibleOutcomes removes outcomes of resources outside the scope: renaming a node also changes references in namespace shared.
func (i scopedIntent) visibleOutcomes(a intent.ApplyResult, err error) (intent.ApplyResult, error) {
	a.Outcomes = slices.DeleteFunc(a.Outcomes, func(o intent.Outcome) bool { return !i.includesNamespace(o.Key.Namespace) })
	return a, err
}

func (i scopedIntent) Apply(ctx context.Context, by intent.Actor, resources []model.Resource, o intent.ApplyOptions) (intent.ApplyResult, error) {
	for n := range resources {
		if err := i.checkWritable(&resources[n]); err != nil {
			return intent.ApplyResult{}, err
		}
	}
	return i.visibleOutcomes(i.all.Apply(ctx, by, resources, i.boundOptions(o)))
}

// checkWritable refuses resources that a binding does not cover: resources of other namespaces, namespaces
// themselves, and those that reach the server or all nodes.
func (i scopedIntent) checkWritable(r *model.Resource) error {
	key := intent.KeyOf(r)
	if key.Kind == "Namespace" {
		return model.Errorf(model.Forbidden, "changing %s needs a role in every namespace, %s has %s", key, i.subject.User, &i.subject.Grants)
	}
	if !i.includesNamespace(key.Namespace) {
		return i.refusalError(key.Namespace)
	}
	if i.need.Verb != access.Change { // an operator's silence, or a dry run
		return nil
	}
	if field := fieldReachingBeyondNamespace(r); field != "" {
		return model.Errorf(model.Forbidden, "%s: %s reaches beyond namespace %s and needs a role in every namespace, %s has %s", key, field, key.Namespace, i.subject.User, &i.subject.Grants).
			WithHint("ask an administrator to apply it, or create it in namespace %s as %s/%s", model.SharedNamespaceName, model.SharedNamespaceName, key.Name)
	}
	return nil
}

// fieldReachingBeyondNamespace returns the name of the first field of a resource that runs commands on the server,
// reads its files or environment, or applies to nodes of all namespaces; empty: none.
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

func (i scopedIntent) Delete(ctx context.Context, by intent.Actor, keys []intent.Key, o intent.ApplyOptions) (intent.ApplyResult, error) {
	if err := i.checkRemovable(keys); err != nil {
		return intent.ApplyResult{}, err
	}
	return i.visibleOutcomes(i.all.Delete(ctx, by, keys, i.boundOptions(o)))
}

func (i scopedIntent) Retire(ctx context.Context, by intent.Actor, keys []intent.Key, o intent.ApplyOptions) (intent.ApplyResult, error) {
	if err := i.checkRemovable(keys); err != nil {
		return intent.ApplyResult{}, err
	}
	return i.visibleOutcomes(i.all.Retire(ctx, by, keys, i.boundOptions(o)))
}

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

func (i scopedIntent) Rename(ctx context.Context, by intent.Actor, namespace, name, to string, o intent.ApplyOptions) (intent.ApplyResult, error) {
	if !i.includesNamespace(namespace) {
		return intent.ApplyResult{}, i.refusalError(namespace)
	}
	return i.visibleOutcomes(i.all.Rename(ctx, by, namespace, name, to, i.boundOptions(o)))
}

func (i scopedIntent) ListTombstones() []intent.TombstoneEntry {
	return slices.DeleteFunc(i.all.ListTombstones(), func(g intent.TombstoneEntry) bool { return !i.includesNamespace(g.Namespace) })
}

// LiftTombstone deletes a tombstone; one of another namespace counts as missing.
func (i scopedIntent) LiftTombstone(ctx context.Context, by intent.Actor, id string) error {
	if !slices.ContainsFunc(i.ListTombstones(), func(g intent.TombstoneEntry) bool { return g.ID == id }) {
		return intent.ErrNoTombstone(id)
	}
	return i.all.LiftTombstone(ctx, by, id)
}

func (i scopedIntent) EphemeralNodes() []intent.NodeInfo {
	return slices.DeleteFunc(i.all.EphemeralNodes(), func(n intent.NodeInfo) bool { return !i.includesNamespace(n.Namespace) })
}

// Get returns a resource of the scope; also a check or group of namespace shared that nodes of the scope have.
func (i scopedIntent) Get(ctx context.Context, key intent.Key) (*model.Resource, error) {
	switch {
	case key.Kind == "Namespace" && !i.includesNamespace(key.Name):
		return nil, i.refusalError(key.Name)
	case i.includesResource(key), (key.Kind == "Check" || key.Kind == "Group") && i.showsDefinitionsOf(key.Namespace):
		return i.all.Get(ctx, key)
	}
	return nil, i.refusalError(key.Namespace)
}

func (i scopedIntent) List(ctx context.Context, q intent.ListQuery, match func(*model.Resource) bool) ([]model.Resource, error) {
	q, match = i.boundQuery(q, match)
	return i.all.List(ctx, q, match)
}

func (i scopedIntent) Page(ctx context.Context, q intent.ListQuery, match func(*model.Resource) bool) ([]model.Resource, bool, error) {
	q, match = i.boundQuery(q, match)
	return i.all.Page(ctx, q, match)
}

func (i scopedIntent) boundQuery(q intent.ListQuery, match func(*model.Resource) bool) (intent.ListQuery, func(*model.Resource) bool) {
	if q.Kind != "Namespace" {
		q.Namespaces = i.namespaces
		return q, match
	}
	return q, func(r *model.Resource) bool {
		return i.includesNamespace(r.Metadata.Name) && (match == nil || match(r))
	}
}

// Audit lists audit records of the scope; also of checks in namespace shared that nodes of the scope may run.
func (i scopedIntent) Audit(ctx context.Context, q intent.ChangeQuery, redact bool) ([]intent.AuditEntry, error) {
	if q.Kind == "Check" && q.Namespace == model.SharedNamespaceName && q.Name != "" {
		return i.all.Audit(ctx, q, true)
	}
	q.Namespaces = i.namespaces
	return i.all.Audit(ctx, q, redact)
}

func (i scopedIntent) RecordRun(ctx context.Context, by intent.Actor) error {
	return i.all.RecordRun(ctx, by)
}

func (i scopedIntent) BeginRun(ctx context.Context, by intent.Actor, picked, note string) (ended func(came string) error, err error) {
	return i.all.BeginRun(ctx, by, picked, note)
}

func (i scopedIntent) TombstoneByName(namespace, name string) (intent.Tombstone, bool) {
	if !i.includesNamespace(namespace) {
		return intent.Tombstone{}, false
	}
	return i.all.TombstoneByName(namespace, name)
}

func (i scopedIntent) HasMachine(namespace, name string) bool {
	return i.includesNamespace(namespace) && i.all.HasMachine(namespace, name)
}

func (i scopedIntent) CheckJoinGrant(ctx context.Context, token pki.JoinToken) error {
	if !i.includesNamespace(token.Namespace) {
		return i.refusalError(token.Namespace)
	}
	return i.all.CheckJoinGrant(ctx, token)
}

// Accept refuses: pending machines are in no namespace yet, so a caller bound to namespaces has no right to accept them.
func (i scopedIntent) Accept(_ context.Context, _ intent.Actor, _ string, token pki.JoinToken, _ pki.EnrolRequest, _ bool) (pki.Member, error) {
	return pki.Member{}, i.subject.RefusalError(i.need)
}

// BlockKey refuses: pending machines are in no namespace yet, so a caller bound to namespaces has no right to block them.
func (i scopedIntent) BlockKey(context.Context, intent.Actor, string, intent.Tombstone) error {
	return i.subject.RefusalError(i.need)
}

// scopedRows reads the stored rows of resources within a scope.
type scopedRows struct {
	all Rows
	*namespaceScope
}

func (r scopedRows) List(ctx context.Context, q intent.ListQuery) ([]intent.Row, error) {
	if q.Kind == "Namespace" {
		q.Limit = 0
		list, err := r.all.List(ctx, q)
		return slices.DeleteFunc(list, func(row intent.Row) bool { return !r.includesNamespace(row.Name) }), err
	}
	q.Namespaces = r.namespaces
	return r.all.List(ctx, q)
}

func (r scopedRows) ChangesBefore(ctx context.Context, q intent.ChangeQuery) ([]intent.Change, error) {
	q.Namespaces = r.namespaces
	return r.all.ChangesBefore(ctx, q)
}

func (r scopedRows) Revision(ctx context.Context) (int64, error) { return r.all.Revision(ctx) }

// scopedHistory is the history store within a scope: problems of other namespaces do not exist.
type scopedHistory struct {
	all History
	*namespaceScope
}

var _ History = scopedHistory{}

func (h scopedHistory) Problems(ctx context.Context, q history.ProblemQuery) ([]history.Problem, error) {
	q.Namespaces = h.namespaces
	return h.all.Problems(ctx, q)
}

func (h scopedHistory) Entries(ctx context.Context, q history.EntryQuery) ([]history.Entry, error) {
	q.Namespaces = h.namespaces
	return h.all.Entries(ctx, q)
}

func (h scopedHistory) Marks(ctx context.Context, q history.EntryQuery) ([]history.Entry, error) {
	q.Namespaces = h.namespaces
	return h.all.Marks(ctx, q)
}

func (h scopedHistory) Messages(ctx context.Context, q history.MessageQuery) ([]history.Message, error) {
	q.Namespaces = h.namespaces
	return h.all.Messages(ctx, q)
}

// Problem returns a problem of the scope; a problem of another namespace counts as missing.
func (h scopedHistory) Problem(ctx context.Context, id string) (history.Problem, error) {
	p, err := h.all.Problem(ctx, id)
	if err == nil && !h.includesNamespace(p.Namespace) {
		return history.Problem{}, history.ErrNoProblem(id)
	}
	return p, err
}

// isProblemInScope reports whether a problem is in the scope.
func (h scopedHistory) isProblemInScope(ctx context.Context, problem string) (bool, error) {
	_, err := h.Problem(ctx, problem)
	if model.ClassOf(err) == model.NotFound {
		return false, nil
	}
	return err == nil, err
}

func (h scopedHistory) Deliveries(ctx context.Context, problem string) ([]history.Delivery, error) {
	if ok, err := h.isProblemInScope(ctx, problem); !ok {
		return nil, err
	}
	return h.all.Deliveries(ctx, problem)
}

func (h scopedHistory) EscalationsOf(ctx context.Context, problem string) ([]history.Escalation, error) {
	if ok, err := h.isProblemInScope(ctx, problem); !ok {
		return nil, err
	}
	return h.all.EscalationsOf(ctx, problem)
}

// AlsoProblems returns nothing: only callbacks of other systems use the method, and callbacks have no bound caller.
func (h scopedHistory) AlsoProblems(context.Context, string) ([]string, error) { return nil, nil }

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

func (h scopedHistory) Oldest(ctx context.Context) (time.Time, error) { return h.all.Oldest(ctx) }

func (h scopedHistory) Unsent(ctx context.Context) ([]history.Unsent, error) {
	list, err := h.all.Unsent(ctx)
	return slices.DeleteFunc(list, func(u history.Unsent) bool { return !h.includesNamespace(u.Handler.Namespace) }), err
}

func (h scopedHistory) DeadLetters(ctx context.Context, handler history.HandlerRef, before int64, limit int) ([]history.Delivery, error) {
	if !h.includesNamespace(handler.Namespace) {
		return nil, h.refusalError(handler.Namespace)
	}
	return h.all.DeadLetters(ctx, handler, before, limit)
}
