package app

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
)

// tellLimits keeps the event `limits`: a warning of the node that met a limit of its
// namespace, so that those who live in the namespace hear of it. A limit that many
// nodes meet is told of one of them, the first that was seen.
func (s *Server) tellLimits(ctx context.Context) error {
	e, err := s.newEpisodes(ctx, model.LimitsCheck, model.Warning, "no limit was met")
	if err != nil {
		return err
	}
	q := quotas{episodes: e, of: map[quota]model.NodeID{}, find: s.planner.NodeByName}
	tick := time.NewTicker(episodeTick)
	defer tick.Stop()
	last := s.now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := s.now()
		q.met(s.sessions.Limiter().Hits(now.Add(-episodeGone*episodeTick)), last)
		q.tick()
		last = now
	}
}

// quotas are the limits that are met, each with the node whose event says so.
type quotas struct {
	*episodes
	of   map[quota]model.NodeID
	find func(namespace, name string) (model.NodeID, bool)
}

type quota struct{ namespace, limit string }

// met takes over which limits were met of late, and tells of nodes one of whose was met
// since it was called last.
func (q *quotas) met(hits []core.Hit, last time.Time) {
	maps.DeleteFunc(q.of, func(_ quota, node model.NodeID) bool { return q.open[node] == nil })
	told := map[model.NodeID][]core.Hit{}
	for _, h := range hits {
		key := quota{h.Namespace, h.Limit}
		node, ok := q.of[key]
		if !ok {
			if !h.Last.After(last) {
				continue // its event is closed
			}
			if node, ok = q.find(h.Namespace, h.Node); !ok {
				continue // deleted meanwhile
			}
			q.of[key] = node
		}
		told[node] = append(told[node], h)
	}
	for node, hits := range told {
		slices.SortFunc(hits, func(a, b core.Hit) int { return strings.Compare(a.Limit, b.Limit) })
		var about, text []string
		again := false
		for _, h := range hits {
			again = again || h.Last.After(last)
			about, text = append(about, h.Limit), append(text, limitWarning(h))
		}
		if !again {
			continue
		}
		q.came(node, strings.Join(about, " "), strings.Join(text, "\n"))
	}
}
