package problems

import (
	"cmp"
	"context"
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

// pastStatus is the status of an event at a past time. Before the first change after that time it
// is the previous status of that change.
type pastStatus struct {
	known   bool // false: no result came before the time, or history does not reach back so far
	status  model.Status
	changed time.Time
	output  string
}

// historyPage is the number of rows that is read from history at a time.
const historyPage = 1000

// changesSince returns the status changes of an event after a time, oldest first.
func (s *request) changesSince(ctx context.Context, node model.NodeID, check string, since time.Time) ([]history.Entry, error) {
	var out []history.Entry
	for q := (history.EntryQuery{NodeID: node, Check: check, Kind: history.StatusChanged, Since: since.Add(1), Limit: historyPage}); ; {
		page, err := s.History.Entries(ctx, q)
		if err != nil {
			return nil, err
		}
		out = append(out, page...)
		if len(page) < q.Limit {
			slices.Reverse(out)
			return out, nil
		}
		q.Before, q.BeforeID = page[len(page)-1].At, page[len(page)-1].ID
	}
}

// statusAt returns the status of an event at a time, and its changes since, oldest first.
func (s *request) statusAt(ctx context.Context, st *event.State, check string, at time.Time) (pastStatus, []history.Entry, error) {
	changed := view.Time(st.Changed)
	if st.Changed != 0 && !changed.After(at) {
		return pastStatus{true, st.Status, changed, st.Output}, nil, nil
	}
	var changes []history.Entry
	if changed.After(at) {
		var err error
		if changes, err = s.changesSince(ctx, st.Node, check, at); err != nil {
			return pastStatus{}, nil, err
		}
	}
	if len(changes) > 0 && changes[0].First {
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

// statusAfter returns the status that a change led to.
func statusAfter(e *history.Entry) pastStatus { return pastStatus{true, e.Status, e.At, e.Output} }

// statusBefore returns the status before the first of some changes, as far as that change has it.
func statusBefore(changes []history.Entry) pastStatus {
	if len(changes) == 0 || changes[0].First {
		return pastStatus{}
	}
	return pastStatus{known: true, status: changes[0].Previous}
}

func (s *request) listPastEvents(ctx context.Context, in *struct {
	At time.Time `query:"at" required:"true" doc:"RFC 3339"`
	events.Selection
	Where string `query:"where" maxLength:"4096" doc:"CEL over row, which is one of items, and node.* as it is now"`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	After string `query:"after" maxLength:"1024" doc:"The field next of the page before."`
}) (*op.Body[v1.PastEventList], error) {
	if in.At.After(s.Now()) {
		return nil, model.Errorf(model.Invalid, "at %s is in the future", in.At.Format(time.RFC3339))
	}
	filter, err := list.ByNode(s.View, list.OfNode{Where: in.Where})
	if err != nil {
		return nil, err
	}
	out := v1.PastEventList{At: in.At, Items: []v1.PastEvent{}}
	add := func(node model.NodeID, was pastStatus, one v1.PastEvent) {
		one.Status, one.StatusName, one.Changed, one.Output = was.status, was.status.String(), was.changed, was.output
		if was.known && filter.Match(node, func() any { return &one }) {
			out.Items = append(out.Items, one)
		}
	}
	if place, ok := s.deletedPlace(in.After); ok {
		out.Next, err = s.eachDeletedEvent(ctx, &in.Selection, in.At, place, func(e *deletedEvent) {
			add(e.node.id, e.was, v1.PastEvent{Namespace: e.node.namespace, Node: e.node.name, Check: e.check, Gone: e.node.at})
		})
		return op.Answer(out), err
	}
	page, err := s.eventPage(ctx, &in.Selection, in.At, in.Limit, in.After)
	if err != nil {
		return nil, err
	}
	out.Next = page.Next
	for i := range page.States {
		st := &page.States[i]
		name := events.Name(s.View, st)
		was, _, err := s.statusAt(ctx, st, name.Check, in.At)
		if err != nil {
			return nil, err
		}
		add(st.Node, was, v1.PastEvent{Namespace: name.Namespace, Node: name.Node, Check: name.Check})
	}
	return op.Answer(out), nil
}

func (s *request) listAvailability(ctx context.Context, in *struct {
	events.Selection
	Where string `query:"where" maxLength:"4096" doc:"CEL over row, which is one of items, and node.* as it is now"`
	list.Period
	Limit int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	After string `query:"after" maxLength:"1024" doc:"The field next of the page before."`
}) (*op.Body[v1.AvailabilityList], error) {
	if err := in.Complete(s.Now(), 24*time.Hour); err != nil {
		return nil, err
	}
	filter, err := list.ByNode(s.View, list.OfNode{Where: in.Where})
	if err != nil {
		return nil, err
	}
	out := v1.AvailabilityList{Since: in.Since, Until: in.Until, Items: []v1.Availability{}}
	add := func(node model.NodeID, one v1.Availability) {
		if filter.Match(node, func() any { return &one }) {
			out.Items = append(out.Items, one)
		}
	}
	if place, ok := s.deletedPlace(in.After); ok {
		out.Next, err = s.eachDeletedEvent(ctx, &in.Selection, in.Since, place, func(e *deletedEvent) {
			p := in.Period
			if e.node.at.Before(p.Until) {
				p.Until = e.node.at // the node was deleted then
			}
			one := v1.Availability{Namespace: e.node.namespace, Node: e.node.name, Check: e.check, Gone: e.node.at}
			if sumDurations(&one, spansOf(p, e.was, e.changes)); one.Covered() > 0 {
				add(e.node.id, one)
			}
		})
		return op.Answer(out), err
	}
	page, err := s.eventPage(ctx, &in.Selection, in.Since, in.Limit, in.After)
	if err != nil {
		return nil, err
	}
	out.Next = page.Next
	for i := range page.States {
		st := &page.States[i]
		name := events.Name(s.View, st)
		spans, err := s.spans(ctx, st, name.Check, in.Period)
		if err != nil {
			return nil, err
		}
		one := v1.Availability{Namespace: name.Namespace, Node: name.Node, Check: name.Check}
		sumDurations(&one, spans)
		add(st.Node, one)
	}
	return op.Answer(out), nil
}

// eventPage returns a page of the events that exist. The page after the last one has the events of
// nodes that were deleted since a time, unless a group is asked for: history has no members of groups.
func (s *request) eventPage(ctx context.Context, in *events.Selection, since time.Time, limit int, after string) (event.Page, error) {
	q, err := events.Query(ctx, s.View, &events.Filter{Selection: *in})
	if err != nil && in.Node != "" && model.ClassOf(err) == model.NotFound {
		name := events.Selection{Namespace: in.Namespace, Node: in.Node}
		if nodes, _, failed := s.deletedNodes(ctx, &name, since, changePlace{}); failed == nil && len(nodes) > 0 {
			return event.Page{Next: s.nextDeleted(changePlace{})}, nil
		}
	}
	if err != nil {
		return event.Page{}, err
	}
	q.Limit, q.After = limit, after
	page, err := s.Events.List(ctx, q)
	if err == nil && page.Next == "" && in.Group == "" {
		page.Next = s.nextDeleted(changePlace{})
	}
	return page, err
}

// span is a time in which an event had one status.
type span struct {
	from, until time.Time
	was         pastStatus
}

// spansOf divides a period into spans, in order and without holes. was is the status at its
// beginning; changes are those since then, oldest first.
func spansOf(p list.Period, was pastStatus, changes []history.Entry) []span {
	out := []span{{from: p.Since, was: was}}
	for i := range changes {
		e := &changes[i]
		if !e.At.Before(p.Until) {
			break
		}
		out[len(out)-1].until = e.At
		out = append(out, span{from: e.At, was: statusAfter(e)})
	}
	out[len(out)-1].until = p.Until
	return out
}

// spans divides a period into the spans of an event that exists.
func (s *request) spans(ctx context.Context, st *event.State, check string, p list.Period) ([]span, error) {
	was, changes, err := s.statusAt(ctx, st, check, p.Since)
	return spansOf(p, was, changes), err
}

// sumDurations adds the seconds of each status.
func sumDurations(out *v1.Availability, spans []span) {
	for _, one := range spans {
		seconds := &out.Nothing
		if one.was.known {
			seconds = [...]*float64{&out.OK, &out.Warning, &out.Critical, &out.Unknown}[one.was.status&3]
		}
		*seconds += one.until.Sub(one.from).Seconds()
	}
	out.Changes = len(spans) - 1
}

// maxGroupEvents bounds the events of one answer: each one that changed costs a few milliseconds of history.
const maxGroupEvents = 10_000

// edge is a time at which something becomes known or unknown, or goes down or up; counts are differences.
type edge struct {
	at          time.Time
	known, down int
}

// sweep calls fn with each time between two edges, and the numbers of known and of down things in it.
func sweep(edges []edge, fn func(from, until time.Time, known, down int)) {
	slices.SortStableFunc(edges, func(a, b edge) int { return a.at.Compare(b.at) })
	known, down := 0, 0
	for i, e := range edges {
		known, down = known+e.known, down+e.down
		if i+1 < len(edges) && edges[i+1].at.After(e.at) && known > 0 {
			fn(e.at, edges[i+1].at, known, down)
		}
	}
}

// addSpan adds a time in which one thing is known, and down if down is 1.
func addSpan(edges []edge, from, until time.Time, down int) []edge {
	return append(edges, edge{from, 1, down}, edge{until, -1, -down})
}

// nodeUptime is the times in which a node was up: all its events were OK or WARNING.
type nodeUptime struct {
	edges  []edge
	events int
}

func (s *request) groupAvailability(ctx context.Context, in *struct {
	Namespace string `query:"namespace" maxLength:"253"`
	Group     string `query:"group" maxLength:"253" doc:"Only this one. Left out: all of the namespace."`
	Check     string `query:"check" maxLength:"253" doc:"A node is up while this check is OK or WARNING. Left out: while all its events are."`
	list.Period
}) (*op.Body[v1.GroupAvailabilityList], error) {
	if err := in.Complete(s.Now(), 24*time.Hour); err != nil {
		return nil, err
	}
	nodes, err := s.uptimes(ctx, &events.Filter{Selection: events.Selection{Namespace: in.Namespace, Check: in.Check, Group: in.Group}}, in.Period)
	if err != nil {
		return nil, err
	}
	members := map[string][]model.NodeID{}
	for id := range nodes {
		if in.Group != "" {
			members[in.Group] = append(members[in.Group], id)
			continue
		}
		for _, group := range s.Directory.NodeGroups(id) {
			members[group] = append(members[group], id)
		}
	}
	out := v1.GroupAvailabilityList{Since: in.Since, Until: in.Until, Items: []v1.GroupAvailability{}}
	for group, ids := range members {
		one := s.groupUptime(ids, nodes)
		one.Namespace, one.Group = in.Namespace, group
		out.Items = append(out.Items, one)
	}
	slices.SortFunc(out.Items, func(a, b v1.GroupAvailability) int {
		return cmp.Or(cmp.Compare(a.Mean, b.Mean), cmp.Compare(a.Worst, b.Worst), cmp.Compare(a.Group, b.Group))
	})
	return op.Answer(out), nil
}

// uptimes reads the times in which each node was up.
func (s *request) uptimes(ctx context.Context, filter *events.Filter, p list.Period) (map[model.NodeID]*nodeUptime, error) {
	q, err := events.Query(ctx, s.View, filter)
	if err != nil {
		return nil, err
	}
	nodes := map[model.NodeID]*nodeUptime{}
	for n := 0; ; {
		q.Limit = 1000
		page, err := s.Events.List(ctx, q)
		if err != nil {
			return nil, err
		}
		if n += len(page.States); n > maxGroupEvents {
			return nil, model.Errorf(model.Invalid, "the selection has more than %d events", maxGroupEvents).WithHint("select one check or group: --check, --group")
		}
		for i := range page.States {
			st := &page.States[i]
			spans, err := s.spans(ctx, st, events.Name(s.View, st).Check, p)
			if err != nil {
				return nil, err
			}
			of := nodes[st.Node]
			if of == nil {
				of = &nodeUptime{}
				nodes[st.Node] = of
			}
			of.events++
			for _, one := range spans {
				if one.was.known {
					of.edges = addSpan(of.edges, one.from, one.until, countDown(one.was.status))
				}
			}
		}
		if page.Next == "" {
			return nodes, nil
		}
		q.After = page.Next
	}
}

// countDown returns 1 for a status that means down.
func countDown(status model.Status) int {
	if status == model.OK || status == model.Warning {
		return 0
	}
	return 1
}

// groupUptime combines the times of the nodes of a group.
func (s *request) groupUptime(ids []model.NodeID, nodes map[model.NodeID]*nodeUptime) v1.GroupAvailability {
	out := v1.GroupAvailability{Worst: 2}
	var edges []edge
	slices.Sort(ids)
	for _, id := range ids {
		var up, known time.Duration
		sweep(nodes[id].edges, func(from, until time.Time, _, down int) {
			if known += until.Sub(from); down == 0 {
				up += until.Sub(from)
			}
			edges = addSpan(edges, from, until, min(down, 1))
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
	sweep(edges, func(from, until time.Time, n, down int) {
		d := until.Sub(from)
		if known += d; down == 0 {
			all += d
		}
		if down < n {
			some += d
		}
	})
	out.Mean /= float64(out.Nodes)
	out.AllUp, out.AnyUp, out.Known = all.Seconds()/known.Seconds(), some.Seconds()/known.Seconds(), known.Seconds()
	return out
}
