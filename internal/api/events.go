package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/wire"
)

// searchWithin ends a search by condition with a partial page.
const searchWithin = 200 * time.Millisecond

func (s *server) eventRoutes() {
	const one = "/api/v1/events/{namespace}/{node}/{check}"
	handle(s, withErrors(operation("listEvents", http.MethodGet, "/api/v1/events", "events", "List events, worst first"), model.NotFound), access.On(access.Read, "event"), (*server).listEvents)
	s.watchRoute()
	handle(s, operation("getEvent", http.MethodGet, one, "events", "Get one"), access.On(access.Read, "event"), (*server).getEvent)
	handle(s, operation("eventHistory", http.MethodGet, one+"/history", "events", "What happened to it, newest first"), access.On(access.Read, "event"), (*server).eventHistory)
	handle(s, operation("resolveEvent", http.MethodPost, one+"/resolve", "events", "Set it to OK until the next result"), access.On(access.Operate, "event"), (*server).resolveEvent)
	handle(s, operation("acknowledgeEvent", http.MethodPost, one+"/acknowledge", "events", "Say who looks after its open problem"), access.On(access.Operate, "event"), (*server).acknowledgeEvent)
	handle(s, operation("unacknowledgeEvent", http.MethodPost, one+"/unacknowledge", "events", "Say that nobody does any more"), access.On(access.Operate, "event"), (*server).unacknowledgeEvent)
	handle(s, operation("deleteEvent", http.MethodDelete, one, "events", "Forget it; it comes back with the next result"), access.On(access.Change, "event"), (*server).deleteEvent)
}

// FilterInput selects events. (What is embedded in inputs is exported because huma
// looks into exported fields only.)
type FilterInput struct {
	Namespace string `query:"namespace" maxLength:"253" doc:"Of the node. Empty: all."`
	Node      string `query:"node" maxLength:"253"`
	Check     string `query:"check" maxLength:"253"`
	Status    string `query:"status" maxLength:"64" doc:"Names or digits, comma-separated: critical,unknown"`
	Group     string `query:"group" maxLength:"253" doc:"Only nodes of this group."`
	Selector  string `query:"selector" maxLength:"4096" doc:"Labels of the node: env=prod,tier!=db"`
	Problem   bool   `query:"problem" doc:"Only those with an open problem."`
	Where     string `query:"where" maxLength:"4096" doc:"CEL over event.* and node.*, for example event.occurrences > 3 && node.labels.env == \"prod\""`
}

type listEventsInput struct {
	FilterInput
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	After string `query:"after" maxLength:"1024" doc:"The next of the page before."`
}

func (s *server) listEvents(ctx context.Context, in *listEventsInput) (*body[v1.EventList], error) {
	q, err := s.query(ctx, &in.FilterInput)
	if err != nil {
		return nil, err
	}
	q.Limit, q.After = in.Limit, in.After
	page, err := s.Events.List(ctx, q)
	if err != nil {
		return nil, err
	}
	out := v1.EventList{Items: s.events(page.States), Next: page.Next, Partial: page.Partial}
	counts, err := s.counts(ctx, in.Namespace)
	if err != nil {
		return nil, err
	}
	out.Total, out.Wrong = counts.States, counts.Wrong()
	if in.After == "" && in.Namespace != "" {
		out.Others = s.rooms(in.Namespace)
	}
	switch {
	case in.After == "" && page.Next == "":
		out.Match = uint64(len(page.States))
	case in.Node != "" || in.Check != "" || in.Group != "" || in.Selector != "" || in.Where != "" || in.Problem && len(q.Statuses) > 0:
		// Nobody counts them by the way.
	case in.Problem:
		out.Match = counts.Problems
	case len(q.Statuses) > 0:
		slices.Sort(q.Statuses)
		for _, status := range slices.Compact(q.Statuses) {
			out.Match += counts.ByStatus[status&3]
		}
	default:
		out.Match = counts.States
	}
	return &body[v1.EventList]{out}, nil
}

func (s *server) counts(ctx context.Context, namespace string) (event.Counts, error) {
	var id model.NamespaceID
	if namespace != "" {
		var ok bool
		if id, ok = s.Directory.NamespaceByName(namespace); !ok {
			return event.Counts{}, s.noNamespace(ctx, namespace)
		}
	}
	return s.Events.Counts(id), nil
}

// roomsShown is how many namespaces an answer names beside its own.
const roomsShown = 5

// rooms are the namespaces that have events, but for one: those with the most that is not
// OK first.
func (s *server) rooms(but string) (list []v1.Room) {
	for id, c := range s.Events.CountsByNamespace() {
		if name, ok := s.Directory.NamespaceName(id); ok && name != but && c.States > 0 {
			list = append(list, v1.Room{Namespace: name, Events: c.States, Wrong: c.Wrong()})
		}
	}
	slices.SortFunc(list, func(a, b v1.Room) int {
		return cmp.Or(cmp.Compare(b.Wrong, a.Wrong), cmp.Compare(b.Events, a.Events), cmp.Compare(a.Namespace, b.Namespace))
	})
	return list[:min(len(list), roomsShown)]
}

// query turns names into ids.
func (s *server) query(ctx context.Context, in *FilterInput) (event.Query, error) {
	q := event.Query{Problems: in.Problem}
	namespaces := []string{in.Namespace}
	if in.Namespace != "" {
		id, ok := s.Directory.NamespaceByName(in.Namespace)
		if !ok {
			return q, s.noNamespace(ctx, in.Namespace)
		}
		q.Namespaces = []model.NamespaceID{id}
	} else if in.Node != "" || in.Check != "" {
		var err error
		if namespaces, err = s.namespaces(ctx); err != nil {
			return q, err
		}
	}
	if in.Node != "" {
		for _, ns := range namespaces {
			if id, ok := s.Directory.NodeByName(ns, in.Node); ok {
				q.Nodes = append(q.Nodes, id)
			}
		}
		if len(q.Nodes) == 0 {
			return q, s.noNode(ctx, in.Namespace, in.Node)
		}
	}
	if in.Check != "" {
		q.Checks = s.checksNamed(namespaces, in.Check)
		if len(q.Checks) == 0 {
			return q, s.noCheck(ctx, in.Namespace, in.Check)
		}
	}
	if in.Selector != "" {
		selector, err := directory.ParseSelector(in.Selector)
		if err != nil {
			return q, err
		}
		matching := s.Directory.NodesMatching(in.Namespace, selector)
		if q.Nodes != nil {
			named := q.Nodes
			matching = slices.DeleteFunc(matching, func(id model.NodeID) bool { return !slices.Contains(named, id) })
		}
		if q.Nodes = matching; matching == nil {
			q.Nodes = []model.NodeID{} // none is not all
		}
	}
	for word := range strings.SplitSeq(in.Status, ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		status, ok := model.ParseStatus(word)
		if !ok {
			return q, model.Errorf(model.Invalid, "status %q is not known", word).WithHint("ok, warning, critical or unknown; or 0 to 3")
		}
		q.Statuses = append(q.Statuses, status)
	}
	if in.Where != "" {
		compiled, err := conditions.Compile(in.Where)
		if err != nil {
			return q, err
		}
		q.Match, q.MatchWithin = newSubject(compiled, s.Directory, s.Now()).match, searchWithin
	}
	return q, s.boundToGroup(ctx, &q, in.Namespace, in.Group)
}

// checksNamed finds the checks of a name that may run on nodes of the namespaces:
// their own, those of namespace shared, and what is built in.
func (s *server) checksNamed(namespaces []string, name string) (ids []model.CheckID) {
	for _, ns := range append(slices.Clone(namespaces), model.SharedNamespaceName) {
		if id, ok := s.Directory.CheckByName(ns, name); ok && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// events gives states their names.
func (s *server) events(states []event.State) []v1.Event {
	out := make([]v1.Event, len(states))
	for i := range states {
		out[i] = s.event(&states[i])
	}
	return out
}

func (s *server) event(st *event.State) v1.Event {
	e := v1.Event{History: statuses(st), Names: v1.NamesOf(st.Status, st.Severity), Event: model.Event{
		NodeID: st.Node, CheckID: st.Check, Status: st.Status, Severity: st.Severity, Output: st.Output,
		Executed: moment(st.Executed), Received: moment(st.Received), Duration: model.Duration(st.Duration),
		Occurrences: st.Occurrences, Watermark: st.Watermark, State: stateOf(st), Change: st.Change, LastOK: moment(st.LastOK), Changed: moment(st.Changed),
		StateChanges: st.StateChanges, Results: st.Results, Lost: st.Lost, Stream: model.StreamID(st.Stream), Number: st.Number, Order: st.Order,
		Expired: st.Expired, Hooks: st.Beside.Hooks, Values: st.Beside.Values,
	}}
	var ok bool
	if e.Namespace, e.Node, ok = s.Directory.NodeName(st.Node); !ok { // being deleted
		e.Node = "#" + strconv.FormatUint(uint64(st.Node), 10)
		e.Namespace, _ = s.Directory.NamespaceName(st.Namespace)
	}
	if st.RanBy != 0 {
		e.RanBy = s.nodeSeenFrom(e.Namespace, st.RanBy)
	}
	if _, e.Check, ok = s.Directory.CheckName(st.Check); !ok {
		e.Check = "#" + strconv.FormatUint(uint64(st.Check), 10)
	}
	if st.Problem != nil {
		e.Problem = s.openProblem(*st.Problem, e.Check)
	}
	return e
}

// nodeSeenFrom names a node as people of a namespace do.
func (s *server) nodeSeenFrom(namespace string, id model.NodeID) string {
	at, name, ok := s.Directory.NodeName(id)
	switch {
	case !ok:
		return "#" + strconv.FormatUint(uint64(id), 10)
	case at != namespace:
		return at + "/" + name
	}
	return name
}

// stateOf is one word for where an event is, as Sensu has it.
func stateOf(st *event.State) string {
	switch {
	case st.Flapping:
		return "flapping"
	case st.Status != model.OK:
		return "failing"
	}
	return "passing"
}

func (s *server) openProblem(p model.Problem, source string) *v1.OpenProblem {
	return &v1.OpenProblem{Problem: p, Names: v1.NamesOf(p.Status, p.Severity), Source: sourceOf(p.Source, source), Holds: s.holdsOf(&p)}
}

func moment(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// statuses unpacks the history, oldest first.
func statuses(st *event.State) []int {
	n := min(int(st.HistoryLen), model.HistoryDepth)
	out := make([]int, n)
	for i := range n {
		out[n-1-i] = int(st.History >> (2 * i) & 3)
	}
	return out
}

// EventPath names one event.
type EventPath struct {
	Namespace string `path:"namespace" maxLength:"253"`
	Node      string `path:"node" maxLength:"253"`
	Check     string `path:"check" maxLength:"253"`
}

// find is the event of a path: the node's own check before a shared one of the name.
func (s *server) find(ctx context.Context, in EventPath) (event.State, error) {
	node, ok := s.Directory.NodeByName(in.Namespace, in.Node)
	if !ok {
		return event.State{}, s.noNode(ctx, in.Namespace, in.Node)
	}
	checks := s.checksNamed([]string{in.Namespace}, in.Check)
	for _, check := range checks {
		if st, ok := s.Events.Get(node, check); ok {
			return st, nil
		}
	}
	if len(checks) == 0 {
		return event.State{}, s.noCheck(ctx, in.Namespace, in.Check)
	}
	e := model.Errorf(model.NotFound, "there is no event %s/%s in namespace %s", in.Node, in.Check, in.Namespace)
	for _, check := range checks {
		if s.Directory.HasUnit(node, check) {
			return event.State{}, e.WithHint("the node has this check, but no result came in yet")
		}
	}
	if _, own := s.Directory.CheckByName(in.Namespace, in.Check); own && model.BuiltinCheck(in.Check) == 0 {
		return event.State{}, e.WithHint("the check does not run on this node: muster describe check %s", in.Check)
	}
	return event.State{}, e.WithHint("what there is: muster get events -n %s --node %s", in.Namespace, in.Node)
}

func (s *server) getEvent(ctx context.Context, in *EventPath) (*body[v1.Event], error) {
	st, err := s.find(ctx, *in)
	if err != nil {
		return nil, err
	}
	e := s.event(&st)
	e.Notes = s.pipelineNotes(st.Node, st.Check)
	return &body[v1.Event]{e}, nil
}

func (s *server) resolveEvent(ctx context.Context, in *struct {
	EventPath
	Body v1.Action
}) (*none, error) {
	st, err := s.find(ctx, in.EventPath)
	if err != nil {
		return nil, err
	}
	return nil, s.act(ctx, &st, wire.Action{Verb: "resolve", Note: in.Body.Note})
}

func (s *server) acknowledgeEvent(ctx context.Context, in *struct {
	EventPath
	Body v1.Acknowledgement
}) (*none, error) {
	st, err := s.problemAt(ctx, in.EventPath)
	if err != nil {
		return nil, err
	}
	action := wire.Action{Verb: "acknowledge", Note: in.Body.Note}
	if until := in.Body.Until; !until.IsZero() {
		if !until.After(s.Now()) {
			return nil, model.Errorf(model.Invalid, "until %s is over", until.Format(time.RFC3339))
		}
		action.Until = uint64(until.UnixMilli())
	}
	if err := s.act(ctx, &st, action); err != nil {
		return nil, err
	}
	if !s.acknowledged(st.Node, st.Check, "") {
		return nil, model.Errorf(model.Conflict, "%s/%s is not acknowledged: %s", in.Node, in.Check, closedMeanwhile).WithHint("muster get event %s/%s", in.Node, in.Check)
	}
	return nil, nil
}

// closedMeanwhile: a result was written before the acknowledgement. An acknowledgement ends with its problem, so
// it is true as well where the result came after.
const closedMeanwhile = "its problem closed meanwhile"

// acknowledged says whether a problem (empty: whichever is open) of an event is.
func (s *server) acknowledged(node model.NodeID, check model.CheckID, problem string) bool {
	st, ok := s.Events.Get(node, check)
	return ok && st.Problem != nil && st.Problem.Ack != nil && (problem == "" || problem == st.Problem.ID)
}

func (s *server) unacknowledgeEvent(ctx context.Context, in *struct {
	EventPath
	Body v1.Action
}) (*none, error) {
	st, err := s.problemAt(ctx, in.EventPath)
	if err != nil {
		return nil, err
	}
	if st.Problem.Ack == nil {
		return nil, model.Errorf(model.Conflict, "%s/%s is not acknowledged", in.Node, in.Check)
	}
	return nil, s.act(ctx, &st, wire.Action{Verb: "unacknowledge", Note: in.Body.Note})
}

// problemAt is an event that has an open problem.
func (s *server) problemAt(ctx context.Context, in EventPath) (event.State, error) {
	st, err := s.find(ctx, in)
	if err == nil && st.Problem == nil {
		err = model.Errorf(model.Conflict, "%s/%s is %s and has no open problem", in.Node, in.Check, st.Status)
	}
	return st, err
}

func (s *server) deleteEvent(ctx context.Context, in *struct {
	EventPath
	Note string `query:"note" maxLength:"1000"`
}) (*none, error) {
	st, err := s.find(ctx, in.EventPath)
	if err != nil {
		return nil, err
	}
	return nil, s.act(ctx, &st, wire.Action{Verb: "delete", Note: in.Note})
}

// act is written to the journal before it returns.
func (s *server) act(ctx context.Context, st *event.State, a wire.Action) error {
	a.Check, a.By = st.Check, callerOf(ctx).User
	return s.Actions.Act(ctx, st.Node, a)
}

func (s *server) eventHistory(ctx context.Context, in *struct {
	EventPath
	WhereInput
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"50"`
}) (*body[v1.EntryList], error) {
	n, err := s.narrowRows(in.WhereInput)
	if err != nil {
		return nil, err
	}
	q := history.EntryQuery{Namespace: in.Namespace, Node: in.Node, Check: in.Check}
	if id, ok := s.Directory.NodeByName(in.Namespace, in.Node); ok { // also what it had under another name
		q.Namespace, q.Node, q.NodeID = "", "", id
	}
	read := func(behind *history.Entry, size int) ([]history.Entry, error) {
		if q.Limit = size; behind != nil {
			q.Before, q.BeforeID = behind.At, behind.ID
		}
		return s.History.Entries(ctx, q)
	}
	items, _, err := paged(s, n, in.Limit, read, func(e *history.Entry) (model.NodeID, v1.Entry) { return e.NodeID, entryOf(e) })
	if err != nil {
		return nil, err
	}
	return &body[v1.EntryList]{v1.EntryList{Items: items}}, nil
}
