package api

import (
	"cmp"
	"context"
	"slices"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// groupEvents is how many events one answer may be of: each that changed costs a few
// milliseconds of history.
const groupEvents = 10_000

// edge is where something begins or ends to be known, or to be down.
type edge struct {
	at          time.Time
	known, down int
}

// sweep shows the times between edges, with how much is known then and how much of it is down.
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

// addSpan adds a time in which something is known, and perhaps down.
func addSpan(edges []edge, from, until time.Time, down int) []edge {
	return append(edges, edge{from, 1, down}, edge{until, -1, -down})
}

// nodeUp is when a node was up: while all its events were OK or WARNING.
type nodeUp struct {
	edges  []edge
	events int
}

func (s *server) groupAvailability(ctx context.Context, in *struct {
	Namespace string `query:"namespace" maxLength:"253"`
	Group     string `query:"group" maxLength:"253" doc:"Only this one. Left out: all of the namespace."`
	Check     string `query:"check" maxLength:"253" doc:"A node is up while this check is OK or WARNING. Left out: while all its events are."`
	Period
}) (*body[v1.GroupAvailabilityList], error) {
	if err := s.span(&in.Period, 24*time.Hour); err != nil {
		return nil, err
	}
	nodes, err := s.nodesUp(ctx, &FilterInput{Namespace: in.Namespace, Check: in.Check}, in.Group, in.Period)
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
		one := s.groupUp(ids, nodes)
		one.Namespace, one.Group = in.Namespace, group
		out.Items = append(out.Items, one)
	}
	slices.SortFunc(out.Items, func(a, b v1.GroupAvailability) int {
		return cmp.Or(cmp.Compare(a.Mean, b.Mean), cmp.Compare(a.Worst, b.Worst), cmp.Compare(a.Group, b.Group))
	})
	return &body[v1.GroupAvailabilityList]{out}, nil
}

// nodesUp reads when each node was up.
func (s *server) nodesUp(ctx context.Context, filter *FilterInput, group string, p Period) (map[model.NodeID]*nodeUp, error) {
	q, err := s.query(ctx, filter)
	if err != nil {
		return nil, err
	}
	if err := s.boundToGroup(ctx, &q, filter.Namespace, group); err != nil {
		return nil, err
	}
	nodes := map[model.NodeID]*nodeUp{}
	for n := 0; ; {
		q.Limit = 1000
		page, err := s.Events.List(ctx, q)
		if err != nil {
			return nil, err
		}
		if n += len(page.States); n > groupEvents {
			return nil, model.Errorf(model.Invalid, "that is of more than %d events", groupEvents).WithHint("ask of one check or group: --check, --group")
		}
		for i := range page.States {
			st := &page.States[i]
			spells, err := s.spells(ctx, st, s.event(st).Check, p)
			if err != nil {
				return nil, err
			}
			of := nodes[st.Node]
			if of == nil {
				of = &nodeUp{}
				nodes[st.Node] = of
			}
			of.events++
			for _, one := range spells {
				if one.was.known {
					of.edges = addSpan(of.edges, one.from, one.until, downs(one.was.status))
				}
			}
		}
		if page.Next == "" {
			return nodes, nil
		}
		q.After = page.Next
	}
}

func downs(status model.Status) int {
	if status == model.OK || status == model.Warning {
		return 0
	}
	return 1
}

// groupUp puts the times of its nodes together.
func (s *server) groupUp(ids []model.NodeID, nodes map[model.NodeID]*nodeUp) v1.GroupAvailability {
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
