package problems

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/api/events"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
)

// pastStatus is the status of an event at a past time. Between two
// changes, the status before the later change counts.
type pastStatus struct {
	hasData bool // false: no result came before the time, or history does not reach back so far
	status  model.Status
	changed time.Time
}

// pastEvent is an event with its status at a past time and its changes since then. The node may be deleted.
type pastEvent struct {
	node                   model.NodeID
	namespace, name, check string
	source                 v1.Source
	deleted                time.Time // time when the node was deleted; zero: the node exists
	was                    pastStatus
	changes                []history.Entry // oldest first
	state                  *event.State    // nil: the node was deleted
}

// historyPageRows is the number of rows that is read from history at a time.
const historyPageRows = 1000

// eachStatusChange yields the status changes of a node's checks, newest first.
func (s *problemRequest) eachStatusChange(ctx context.Context, q history.EntryQuery) iter.Seq2[*history.Entry, error] {
	q.Kind = history.StatusChanged
	return s.eachEntry(ctx, q, historyPageRows)
}

// eachEntry yields the history entries that match a query, newest first, and reads one page at a time. It reads
// them in pages.
func (s *problemRequest) eachEntry(ctx context.Context, q history.EntryQuery, rows int) iter.Seq2[*history.Entry, error] {
	q.Limit = rows
	return list.AllRows(rows, func(last *history.Entry) ([]history.Entry, error) {
		if last != nil {
			q.Before, q.BeforeID = last.At, last.ID
		}
		return s.History.Entries(ctx, q)
	})
}

// readStatusChangesSince returns the status changes of a check on a node after a time, oldest first.
func (s *problemRequest) readStatusChangesSince(ctx context.Context, node model.NodeID, check string, since time.Time) (changes []history.Entry, err error) {
	for e, err := range s.eachStatusChange(ctx, history.EntryQuery{NodeID: node, Check: check, Since: since.Add(1)}) {
		if err != nil {
			return nil, err
		}
		changes = append(changes, *e)
	}
	slices.Reverse(changes)
	return changes, nil
}

// readStatusAt returns the status of an event at a past time, and its later status changes, oldest first.
func (s *problemRequest) readStatusAt(ctx context.Context, st *event.State, check string, at time.Time) (pastStatus, []history.Entry, error) {
	changed := view.TimeOfNanoseconds(st.Changed)
	if !changed.After(at) {
		return pastStatus{st.Changed != 0, st.Status, changed}, nil, nil
	}
	changes, err := s.readStatusChangesSince(ctx, st.Node, check, at)
	if err != nil {
		return pastStatus{}, nil, err
	}
	if n := len(changes); n == 0 || changes[n-1].At.Before(changed) && changes[n-1].Status != st.Status { // history is behind, or the status is the first one
		changes = append(changes, history.Entry{At: changed, Status: st.Status, First: st.StateChanges == 0})
	}
	changes = addFirstResults(changes, at)
	if changes[0].First {
		return pastStatus{}, changes, nil
	}
	before, err := s.History.Entries(ctx, history.EntryQuery{NodeID: st.Node, Check: check, Kind: history.StatusChanged, Before: at.Add(1), Limit: 1})
	if err != nil {
		return pastStatus{}, nil, err
	}
	if len(before) > 0 {
		return statusAfter(&before[0]), changes, nil
	}
	return statusBefore(changes), changes, nil
}

// addFirstResults inserts the first result of each event, which history leaves out if OK, into its status
// changes. History does not record a first result that is OK. changes are the changes after a time, oldest
// first.
func addFirstResults(changes []history.Entry, since time.Time) (all []history.Entry) {
	for i := range changes {
		if e := &changes[i]; e.Since.After(since) {
			all = append(all, history.Entry{At: e.Since, Status: e.Previous, First: true})
		}
		all, since = append(all, changes[i]), changes[i].At
	}
	return all
}

// statusAfter returns the status that an event had after a change.
func statusAfter(e *history.Entry) pastStatus { return pastStatus{true, e.Status, e.At} }

// statusBefore returns the status of an event before the first of its recorded changes.
func statusBefore(changes []history.Entry) pastStatus {
	if len(changes) == 0 || changes[0].First || changes[0].Since.IsZero() {
		return pastStatus{}
	}
	return pastStatus{hasData: true, status: changes[0].Previous, changed: changes[0].Since}
}

// readOutputAt returns the output of an event at a past time, or "" if unknown.
func (s *problemRequest) readOutputAt(ctx context.Context, e *pastEvent, at time.Time) (string, error) {
	if e.state != nil && !view.TimeOfNanoseconds(e.state.Received).After(at) {
		return e.state.Output, nil
	}
	const rows = 20 // acknowledgements and lost results lie between
	for entry, err := range s.eachEntry(ctx, history.EntryQuery{NodeID: e.node, Check: e.check, Since: e.was.changed, Before: at.Add(1)}, rows) {
		if err != nil {
			return "", err
		}
		if entry.Kind == history.StatusChanged || entry.Kind == history.TextChanged {
			return entry.Output, nil
		}
	}
	return "", nil
}

// PastSelection has the query parameters that select events for a report about the past. (It is exported, because
// huma reads exported fields only.)
type PastSelection struct {
	events.Selection
	Where string `query:"where" maxLength:"4096" doc:"CEL over row, which is one of items, and node.* as it is now"`
}

// listPastEvents returns a page of events with their status at a past time.
func (s *problemRequest) listPastEvents(ctx context.Context, in *struct {
	At time.Time `query:"at" required:"true" doc:"RFC 3339"`
	PastSelection
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	After string `query:"after" maxLength:"1024" doc:"The field next of the page before."`
}) (*op.Body[v1.PastEventList], error) {
	if in.At.After(s.Now()) {
		return nil, model.Errorf(model.Invalid, "the time at=%s is in the future", in.At.Format(time.RFC3339))
	}
	out := v1.PastEventList{At: in.At}
	var err, unread error
	out.Items, out.Next, err = listPast(ctx, s, &in.PastSelection, in.At, in.Limit, in.After, func(e *pastEvent) (one v1.PastEvent, show bool) {
		if !e.was.hasData {
			return one, false
		}
		output, failed := s.readOutputAt(ctx, e, in.At)
		if failed != nil {
			unread = failed
		}
		return v1.PastEvent{
			Namespace: e.namespace, Node: e.name, Check: e.check, Source: e.source, DeletedAt: e.deleted,
			Status: e.was.status, StatusName: e.was.status.String(), Changed: e.was.changed, Output: output,
		}, true
	})
	return op.Answer(out), cmp.Or(err, unread)
}

// listAvailability returns a page with the seconds that each event spent in each status during a period
func (s *problemRequest) listAvailability(ctx context.Context, in *struct {
	PastSelection
	list.Period
	Limit int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	After string `query:"after" maxLength:"1024" doc:"The field next of the page before."`
}) (*op.Body[v1.AvailabilityList], error) {
	if err := in.Complete(s.Now(), 24*time.Hour); err != nil {
		return nil, err
	}
	out := v1.AvailabilityList{Since: in.Since, Until: in.Until}
	var err error
	out.Items, out.Next, err = listPast(ctx, s, &in.PastSelection, in.Since, in.Limit, in.After, func(e *pastEvent) (v1.Availability, bool) {
		p := in.Period
		if !e.deleted.IsZero() && e.deleted.Before(p.Until) {
			p.Until = e.deleted
		}
		one := v1.Availability{Namespace: e.namespace, Node: e.name, Check: e.check, Source: e.source, DeletedAt: e.deleted}
		addStatusSeconds(&one, divideIntoStatusSpans(p, e.was, e.changes))
		return one, e.deleted.IsZero() || one.Covered() > 0
	})
	return op.Answer(out), err
}

// listPast returns a page of past events, each converted to a list row by a given function. It also returns the
// token of the next page. show returns false for events that the list leaves out. Pages of deleted nodes come
// last.
func listPast[Row any](
	ctx context.Context, s *problemRequest, in *PastSelection, at time.Time, limit int, after string, show func(*pastEvent) (Row, bool),
) (rows []Row, next string, err error) {
	filter, err := list.NewNodeRowFilter(ctx, s.View, list.NodeRows{Where: in.Where})
	if err != nil {
		return nil, "", err
	}
	rows = []Row{}
	add := func(e *pastEvent) error {
		row, ok := show(e)
		if !ok {
			return nil
		}
		matches, err := filter.Match(e.node, func() any { return &row })
		if matches {
			rows = append(rows, row)
		}
		return err
	}
	if place, ok := s.parseDeletedPageToken(after); ok {
		next, err = s.eachDeletedEvent(ctx, &in.Selection, at, place, add)
		return rows, next, err
	}
	page, err := s.readEventPage(ctx, &in.Selection, at, limit, after)
	if err != nil {
		return nil, "", err
	}
	for i := range page.States {
		st := &page.States[i]
		name := events.ShowEventNames(s.View, st)
		e := pastEvent{node: st.Node, namespace: name.Namespace, name: name.Node, check: name.Check, source: events.ShowSourceByID(s.View, st.Source()), state: st}
		if e.was, e.changes, err = s.readStatusAt(ctx, st, name.Check, at); err != nil {
			return nil, "", err
		}
		if err := add(&e); err != nil {
			return nil, "", err
		}
	}
	return rows, page.Next, nil
}

// readEventPage returns a page of events, each with its changes of status in the period. The page after the last one
// has the events of nodes that were deleted since a time, unless a group is asked for: history has no members of
// groups.
func (s *problemRequest) readEventPage(ctx context.Context, in *events.Selection, since time.Time, limit int, after string) (event.Page, error) {
	q, err := events.BuildQuery(ctx, s.View, &events.Filter{Selection: *in})
	if err != nil && in.Node != "" && model.ClassOf(err) == model.NotFound {
		name := events.Selection{Namespace: in.Namespace, Node: in.Node}
		if nodes, _, failed := s.listDeletedNodes(ctx, &name, since, list.Cursor{}); failed == nil && len(nodes) > 0 {
			return event.Page{Next: s.newDeletedPageToken(list.Cursor{})}, nil
		}
	}
	if err != nil {
		return event.Page{}, err
	}
	q.Limit, q.After = limit, after
	page, err := s.Events.List(ctx, q)
	if err == nil && page.Next == "" && in.Group == "" {
		page.Next = s.newDeletedPageToken(list.Cursor{})
	}
	return page, err
}

// statusSpan is an interval with one status of an event.
type statusSpan struct {
	from, until time.Time
	was         pastStatus
}

// divideIntoStatusSpans splits a period at each status change into spans with one status. was is the status at the
// beginning of the period; changes are the status changes since then, oldest first.
func divideIntoStatusSpans(p list.Period, was pastStatus, changes []history.Entry) []statusSpan {
	out := []statusSpan{{from: p.Since, was: was}}
	for i := range changes {
		e := &changes[i]
		if !e.At.Before(p.Until) {
			break
		}
		out[len(out)-1].until = e.At
		out = append(out, statusSpan{from: e.At, was: statusAfter(e)})
	}
	out[len(out)-1].until = p.Until
	return out
}

// addStatusSeconds adds the duration of each status span to the availability, per status.
func addStatusSeconds(out *v1.Availability, spans []statusSpan) {
	for _, one := range spans {
		seconds := &out.WithoutData
		if one.was.hasData {
			seconds = [...]*float64{&out.OK, &out.Warning, &out.Critical, &out.Unknown}[one.was.status&3]
		}
		*seconds += one.until.Sub(one.from).Seconds()
	}
	out.Changes = len(spans) - 1
}

// maxGroupEvents bounds the events of one answer: each one that changed costs a few milliseconds of history.
const maxGroupEvents = 10_000

// uptimeEdge is a point in time at which an event's status becomes known, unknown, down or up. Events become
// known, unknown, down or up at that time.
type uptimeEdge struct {
	at             time.Time
	withData, down int
}

// eachUptimeInterval calls fn for each time interval, with the numbers of events with known and with down
// status. An event is known where its status is known.
func eachUptimeInterval(edges []uptimeEdge, fn func(from, until time.Time, known, down int)) {
	slices.SortStableFunc(edges, func(a, b uptimeEdge) int { return a.at.Compare(b.at) })
	known, down := 0, 0
	for i, e := range edges {
		known, down = known+e.withData, down+e.down
		if i+1 < len(edges) && edges[i+1].at.After(e.at) && known > 0 {
			fn(e.at, edges[i+1].at, known, down)
		}
	}
}

// addUptimeSpan adds the start and the end of a time span in which an event's status is known. With down 1, the event
// was down.
func addUptimeSpan(edges []uptimeEdge, from, until time.Time, down int) []uptimeEdge {
	return append(edges, uptimeEdge{from, 1, down}, uptimeEdge{until, -1, -down})
}

// nodeUptime collects the time spans in which all events of a node are OK or WARNING.
type nodeUptime struct {
	edges  []uptimeEdge
	events int
}

// listGroupAvailability returns the availability of groups of nodes in a period, the worst first.
func (s *problemRequest) listGroupAvailability(ctx context.Context, in *struct {
	Namespace string `query:"namespace" maxLength:"253"`
	Group     string `query:"group" maxLength:"253" doc:"Only this one. Left out: all of the namespace."`
	Check     string `query:"check" maxLength:"253" doc:"A node is up while this check is OK or WARNING. Left out: while all its events are."`
	list.Period
}) (*op.Body[v1.GroupAvailabilityList], error) {
	if err := in.Complete(s.Now(), 24*time.Hour); err != nil {
		return nil, err
	}
	nodes, err := s.readNodeUptimes(ctx, &events.Filter{Selection: events.Selection{Namespace: in.Namespace, Check: in.Check, Group: in.Group}}, in.Period)
	if err != nil {
		return nil, err
	}
	type groupName struct{ namespace, name string }
	members := map[groupName][]model.NodeID{}
	for id := range nodes {
		groups := []string{in.Group}
		if in.Group == "" {
			groups = s.Directory.NodeGroups(id)
		}
		for _, group := range groups {
			key := groupName{in.Namespace, group}
			if in.Namespace == "" { // of all namespaces: the group's own
				own, _, _ := s.Directory.NodeName(id)
				key.namespace, key.name = model.SplitRef(own, group)
			}
			members[key] = append(members[key], id)
		}
	}
	out := v1.GroupAvailabilityList{Since: in.Since, Until: in.Until, Items: []v1.GroupAvailability{}}
	for group, ids := range members {
		one := s.combineGroupUptime(ids, nodes)
		one.Namespace, one.Group = group.namespace, group.name
		out.Items = append(out.Items, one)
	}
	slices.SortFunc(out.Items, func(a, b v1.GroupAvailability) int {
		return cmp.Or(cmp.Compare(a.Mean, b.Mean), cmp.Compare(a.Worst, b.Worst), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Group, b.Group))
	})
	return op.Answer(out), nil
}

// readNodeUptimes reads from history the times when each selected node was up or down.
func (s *problemRequest) readNodeUptimes(ctx context.Context, filter *events.Filter, p list.Period) (map[model.NodeID]*nodeUptime, error) {
	q, err := events.BuildQuery(ctx, s.View, filter)
	if err != nil {
		return nil, err
	}
	nodes, count := map[model.NodeID]*nodeUptime{}, 0
	for st, err := range s.AllEvents(ctx, q) {
		if err != nil {
			return nil, err
		}
		if count++; count > maxGroupEvents {
			return nil, model.Errorf(model.Invalid, "the report would cover more than %d events, the limit", maxGroupEvents).WithHint("select one check or group: --check, --group")
		}
		was, changes, err := s.readStatusAt(ctx, st, events.ShowEventNames(s.View, st).Check, p.Since)
		if err != nil {
			return nil, err
		}
		uptime := nodes[st.Node]
		if uptime == nil {
			uptime = &nodeUptime{}
			nodes[st.Node] = uptime
		}
		uptime.events++
		for _, one := range divideIntoStatusSpans(p, was, changes) {
			if one.was.hasData {
				uptime.edges = addUptimeSpan(uptime.edges, one.from, one.until, downCount(one.was.status))
			}
		}
	}
	return nodes, nil
}

// downCount returns 1 for a status that counts as down (CRITICAL or UNKNOWN), and 0 for any other.
func downCount(status model.Status) int {
	if status == model.OK || status == model.Warning {
		return 0
	}
	return 1
}

// combineGroupUptime computes the availability of a group from the uptimes of its nodes.
func (s *problemRequest) combineGroupUptime(ids []model.NodeID, nodes map[model.NodeID]*nodeUptime) v1.GroupAvailability {
	out := v1.GroupAvailability{Worst: 2}
	var edges []uptimeEdge
	slices.Sort(ids)
	for _, id := range ids {
		var up, known time.Duration
		eachUptimeInterval(nodes[id].edges, func(from, until time.Time, _, down int) {
			if known += until.Sub(from); down == 0 {
				up += until.Sub(from)
			}
			edges = addUptimeSpan(edges, from, until, min(down, 1))
		})
		if known == 0 {
			continue
		}
		out.Nodes++
		out.Events += nodes[id].events
		share := up.Seconds() / known.Seconds()
		if out.Mean += share; share < out.Worst {
			_, name, _ := s.Directory.NodeName(id)
			out.Worst, out.WorstNode = share, name
		}
	}
	if out.Nodes == 0 {
		out.Worst = 0
		return out
	}
	var known, all, some time.Duration
	eachUptimeInterval(edges, func(from, until time.Time, n, down int) {
		d := until.Sub(from)
		if known += d; down == 0 {
			all += d
		}
		if down < n {
			some += d
		}
	})
	out.Mean /= float64(out.Nodes)
	out.AllUp, out.AnyUp, out.WithData = all.Seconds()/known.Seconds(), some.Seconds()/known.Seconds(), known.Seconds()
	return out
}
