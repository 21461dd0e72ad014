// Package view is the server's state as the caller of one request may see it: directory, events,
// history, declared resources, routing, and the live state of sessions.
//
// A caller bound to namespaces gets stores in which no other namespace exists (namespace_scope.go). The wrappers name every
// method of the wrapped interface: a new method does not compile before its answer for a bound caller is written.
//
// The package also turns names into ids, and gives errors about missing names the hint that helps
// (names_and_not_found_errors.go), and makes page tokens.
//
// Start reading at View.For.
package view

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"iter"
	"time"

	"github.com/prometheus/prometheus/storage"

	"github.com/muster-fleet/muster/internal/access"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/dispatch"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/where"
)

// View is the part of the server's state that an API request's caller may see. View.For creates the view of a
// request, and a request reaches stores only through its view. It is safe for concurrent use.
type View struct {
	Stores
	Live
	scope *namespaceScope // nil: all namespaces
}

// Stores has the stores and in-memory state that the API reads and changes. A nil Kinds means all of Muster's kinds,
// a nil Routing an empty table, a nil Now the system's clock.
type Stores struct {
	Kinds       *kind.Registry
	Intent      Intent
	Rows        Rows
	Events      event.Reader
	Directory   Directory
	History     History
	Routing     Routing
	Search      func(context.Context) EntrySearch // makes the search in inventories of one request, which ends with the context
	Series      storage.Queryable                 // of numeric values of items; nil: the server has no such store
	Incarnation uint64                            // incarnation of the journal: page tokens and ETags of another incarnation are refused
	Now         func() time.Time
}

// EntrySearch is a function that reports whether a node's inventory contains an entry with given properties. If
// the node has no inventory, known is false.
type EntrySearch func(model.NodeID, *where.EntryTerm) (found, known bool)

// Live has functions that return the present state of running parts of the server, such as sessions. Every function
// must be set.
type Live struct {
	// Connected reports whether a node has a session.
	Connected func(model.NodeID) bool
	// Agent returns the data that the session of a node has of its agent; false: no session.
	Agent func(model.NodeID) (v1.AgentSession, bool)
	// StepDebt returns the time that the values of a node have used beyond its share while others waited. Zero: none.
	StepDebt func(model.NodeID) time.Duration
	// OldestDeferred returns the receive time of a node's first value that waits for slow scripts. Zero: none waits.
	OldestDeferred func(model.NodeID) time.Time
	// ProblemLabels returns the labels that a problem of a trigger on a node would have now, apart from the node's; nil: none.
	ProblemLabels func(model.NodeID, model.Source) map[string]string
	// Limits returns the limits of a namespace with their use, without the use of statesPerNode.
	Limits func(namespace string) []v1.LimitUse
	// Verdicts returns the last verdicts of pipelines (kept from Sensu) on an event.
	Verdicts func(model.NodeID, model.CheckID) (dispatch.PipelineDecisions, bool)
	// Stream returns the progress of a handler that receives every result; false: the handler receives no results.
	Stream func(route.Name) (v1.HandlerStream, bool)
	// Judgement finds the rules that judged an event, by its definition and instance; nil: no definition has them any more.
	Judgement func(definition model.DefinitionID, instance string) *model.CheckDefinition
	// Assigned finds the definition of a check or directive in the assignment of a node; nil: the node does not run it.
	Assigned func(model.NodeID, model.UnitID) *model.Definition
}

// Intent has the methods of the database of declared resources (intent) that the API calls.
type Intent interface {
	Apply(ctx context.Context, by intent.Actor, resources []model.Resource, o intent.ApplyOptions) (intent.ApplyResult, error)
	Delete(ctx context.Context, by intent.Actor, keys []intent.Key, o intent.ApplyOptions) (intent.ApplyResult, error)
	Rename(ctx context.Context, by intent.Actor, namespace, name, to string, o intent.ApplyOptions) (intent.ApplyResult, error)
	Retire(ctx context.Context, by intent.Actor, keys []intent.Key, o intent.ApplyOptions) (intent.ApplyResult, error)
	ListTombstones() []intent.TombstoneEntry
	DeleteTombstone(ctx context.Context, by intent.Actor, id string) error
	EphemeralNodes() []intent.NodeInfo
	Get(ctx context.Context, key intent.Key) (*model.Resource, error)
	List(ctx context.Context, q intent.ListQuery, match func(*model.Resource) bool) ([]model.Resource, error)
	Page(ctx context.Context, q intent.ListQuery, match func(*model.Resource) bool) ([]model.Resource, bool, error)
	Audit(ctx context.Context, q intent.ChangeQuery, redact bool) ([]intent.AuditEntry, error)
	RecordRun(ctx context.Context, by intent.Actor) error
	BeginRun(ctx context.Context, by intent.Actor, picked, note string) (ended func(came string) error, err error)
	TombstoneByName(namespace, name string) (intent.Tombstone, bool)
	Accept(ctx context.Context, by intent.Actor, key string, token pki.JoinToken, request pki.EnrolRequest, named bool) (pki.Member, error)
	HasMachine(namespace, name string) bool
	CheckJoinGrant(context.Context, pki.JoinToken) error
	BlockKey(ctx context.Context, by intent.Actor, key string, t intent.Tombstone) error
}

// Rows reads rows of declared resources and of the audit log from the SQL database.
type Rows interface {
	List(ctx context.Context, q intent.ListQuery) ([]intent.Row, error)
	ChangesBefore(ctx context.Context, q intent.ChangeQuery) ([]intent.Change, error)
	Revision(ctx context.Context) (int64, error)
}

// History has the methods of the history database that the API calls.
type History interface {
	Problems(ctx context.Context, q history.ProblemQuery) ([]history.Problem, error)
	Problem(ctx context.Context, id string) (history.Problem, error)
	CountProblems(ctx context.Context, namespace string, t time.Time) (opened, closed int, err error)
	Entries(ctx context.Context, q history.EntryQuery) ([]history.Entry, error)
	Deliveries(ctx context.Context, problem string) ([]history.Delivery, error)
	LinkedProblems(ctx context.Context, key string) ([]string, error)
	EscalationsOf(ctx context.Context, problem string) ([]history.Escalation, error)
	Messages(ctx context.Context, q history.MessageQuery) ([]history.Message, error)
	FlappingAndAcknowledgements(ctx context.Context, q history.EntryQuery) ([]history.Entry, error)
	Oldest(ctx context.Context) (time.Time, error)
	Unsent(ctx context.Context, deadSince time.Time) ([]history.Unsent, error)
	DeadLetters(ctx context.Context, handler history.HandlerRef, before int64, limit int) ([]history.Delivery, error)
}

// recentDead is the greatest age of dead letters that count as unsent messages.
const recentDead = 24 * time.Hour

// UnsentMessages returns, for each handler, the number of notifications that wait to be sent. It also counts
// the messages that became dead letters in the last day.
func (v *View) UnsentMessages(ctx context.Context) (out []v1.Unsent, err error) {
	list, err := v.History.Unsent(ctx, v.Now().Add(-recentDead))
	for _, u := range list {
		out = append(out, v1.Unsent{
			Namespace: u.Handler.Namespace, Handler: u.Handler.Name, Waiting: u.Waiting, Failing: u.Failing, Dead: u.Dead, Since: u.Since, LastError: u.LastError,
		})
	}
	return out, err
}

// Routing reads the maintenance windows, routes and silences that apply now. Type *route.Table implements it.
type Routing interface {
	Route(name route.Name) (*route.Route, bool)
	Routes(m *route.Problem, ref string) []*route.Route
	Matching(m *route.Problem) []*route.Route
	MayHold() bool
	Holds(m *route.Problem, r *route.Route, now time.Time) []route.Hold
	Window(name route.Name, now time.Time) (route.WindowState, bool)
	Maintained(name route.Name) func(*route.Problem) bool
}

// New returns a View of the state of all namespaces
func New(s Stores, l Live) *View {
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.Kinds == nil {
		s.Kinds = kind.All()
	}
	if s.Routing == nil {
		s.Routing = route.NewTable()
	}
	return &View{Stores: s, Live: l}
}

// For returns the part of the server's state that the caller of an operation may see. For a caller that is bound to
// namespaces, the view has no other namespaces.
func (v *View) For(ctx context.Context, need access.Need) *View {
	c := access.CallerOf(ctx)
	if need.Scope != access.Namespaced || c.MayEverywhere(need.Verb) {
		return v
	}
	x := &namespaceScope{&c.Subject, need, c.NamespacesFor(need.Verb)}
	bound := *v
	bound.scope = x
	bound.Directory = scopedDirectory{v.Directory, x}
	bound.Events = newScopedEvents(v.Events, v.Directory, x)
	bound.History = scopedHistory{v.History, x}
	bound.Intent = scopedIntent{v.Intent, x, len(bound.Directory.Nodes(""))}
	bound.Rows = scopedRows{v.Rows, x}
	if v.Series != nil {
		bound.Series = SeriesIn(v.Series, x.namespaces...)
	}
	return &bound
}

// IsBound reports whether the caller has roles in single namespaces only, not in every namespace.
func (v *View) IsBound() bool { return v.scope != nil }

// SeesNamespace reports whether the caller may see that a namespace exists.
func (v *View) SeesNamespace(namespace string) bool {
	return v.scope == nil || v.scope.includesNamespace(namespace)
}

// eventsPerPage is the number of events that AllEvents reads from the event view at a time.
const eventsPerPage = 1000

// AllEvents yields all events that match a query, sorted by node, until an error. A list by severity would miss
// events that become worse while it is read.
func (v *View) AllEvents(ctx context.Context, q event.Query) iter.Seq2[*event.State, error] {
	return allEvents(ctx, v.Events, q)
}

// allEvents yields all events that match a query, sorted by node, page by page.
func allEvents(ctx context.Context, r event.Reader, q event.Query) iter.Seq2[*event.State, error] {
	return func(yield func(*event.State, error) bool) {
		for q.Limit, q.ByNode = eventsPerPage, true; ; {
			page, err := r.List(ctx, q)
			if err = cmp.Or(err, ctx.Err()); err != nil {
				yield(nil, err)
				return
			}
			for i := range page.States {
				if !yield(&page.States[i], nil) {
					return
				}
			}
			if q.After = page.Next; q.After == "" {
				return
			}
		}
	}
}

// Directory reads the planner's in-memory index of names, nodes, checks and Templates, and its explanations of
// assignments.
type Directory interface {
	directory.Reader
	Explainer
}

// Explainer explains why the planner assigns checks, Templates and groups to nodes
type Explainer interface {
	// Select returns the nodes of targets that a namespace would declare; an error where a condition
	// does not compile.
	Select(namespace string, t *model.Targets) ([]model.NodeID, error)
	// Placement counts the users of a declared resource; zero: the resource is not declared.
	Placement(key intent.Key) intent.Placement
	// ExplainCheck explains why a check is on a node or not; false: one of them does not exist.
	ExplainCheck(node model.NodeID, check model.CheckID) (e plan.Explanation, ok bool)
	ExplainGroups(node model.NodeID) []plan.Explanation
	JoinRequests(node model.NodeID) []plan.JoinRequest
	PropertyOrigins(node model.NodeID) []plan.PropertyOrigins
	// Faults lists the faults of the nodes of a namespace (empty: of all), the most nodes first,
	// and the number of nodes that have one.
	Faults(namespace string) (list []plan.Fault, nodes int)
	NodeFaults(node model.NodeID) []plan.Fault
}

// NewPageToken returns the token for the next page of a list. Page tokens and ETags are places in one incarnation of
// the data: after a restore from a backup, revisions, ids and times are given again to other things, so tokens of
// another incarnation are refused. Tokens of events contain their incarnation already.
func (v *View) NewPageToken(place string) string {
	b := binary.BigEndian.AppendUint64(nil, v.Incarnation)
	return base64.RawURLEncoding.EncodeToString(append(b, place...))
}

// ParsePageToken parses a page token and returns the first position of the next page in the list
func (v *View) ParsePageToken(token string) (place string, err error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(b) < 8 {
		return "", BadPageTokenError()
	}
	if binary.BigEndian.Uint64(b) != v.Incarnation {
		return "", model.Errorf(model.Conflict, "the page token is from before the server's data were restored or replaced: start at the first page").
			WithHint("request the first page, without after")
	}
	return string(b[8:]), nil
}

// BadPageTokenError returns the error about an invalid page token.
func BadPageTokenError() error {
	return model.Errorf(model.Invalid, "parameter after: expected a page token of this list").WithHint("request the first page, without after")
}
