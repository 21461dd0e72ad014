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
	"github.com/muster-fleet/muster/internal/model"
)

// maxGroupEvents bounds the events of one answer: each one that changed costs a few milliseconds of
// history.
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
			return nil, model.Errorf(model.Invalid, "more than %d events are selected", maxGroupEvents).WithHint("ask for one check or group: --check, --group")
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
