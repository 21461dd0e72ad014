package selfcheck

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
)

// watchLimits keeps the event `limits`: a warning of the node that met a limit of its namespace, so
// that the namespace's people see it. Where many nodes meet one limit, the first one has the event.
func (m *Monitor) watchLimits(ctx context.Context) error {
	e, err := m.newEpisodes(ctx, model.LimitsCheck, model.Warning, "no limit was met")
	if err != nil {
		return err
	}
	l := limits{episodes: e, nodes: map[limit]model.NodeID{}, find: m.o.Node}
	tick := time.NewTicker(episodeTick)
	defer tick.Stop()
	last := m.o.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := m.o.Now()
		l.update(m.o.Hits(now.Add(-episodeLength*episodeTick)), last)
		l.tick()
		last = now
	}
}

// limits maps each limit that is met to the node that has its event.
type limits struct {
	*episodes
	nodes map[limit]model.NodeID
	find  func(namespace, name string) (model.NodeID, bool)
}

type limit struct{ namespace, name string }

// update takes the hits of the last ten minutes and writes the events of limits that were hit after last.
func (l *limits) update(hits []core.Hit, last time.Time) {
	maps.DeleteFunc(l.nodes, func(_ limit, node model.NodeID) bool { return l.open[node] == nil })
	byNode := map[model.NodeID][]core.Hit{}
	for _, h := range hits {
		key := limit{h.Namespace, h.Limit}
		node, ok := l.nodes[key]
		if !ok {
			if !h.Last.After(last) {
				continue // its event is closed
			}
			if node, ok = l.find(h.Namespace, h.Node); !ok {
				continue // deleted
			}
			l.nodes[key] = node
		}
		byNode[node] = append(byNode[node], h)
	}
	for node, hits := range byNode {
		slices.SortFunc(hits, func(a, b core.Hit) int { return strings.Compare(a.Limit, b.Limit) })
		var names, texts []string
		recent := false
		for _, h := range hits {
			recent = recent || h.Last.After(last)
			names, texts = append(names, h.Limit), append(texts, LimitText(h))
		}
		if recent {
			l.occurred(node, strings.Join(names, " "), strings.Join(texts, "\n"))
		}
	}
}

// LimitField returns the field of a Namespace's spec.limits that raises a limit; "": none does.
func LimitField(limit string) string {
	switch limit {
	case "output":
		return "outputBytes"
	case "node_states":
		return "statesPerNode"
	case "namespace_states":
		return "states"
	case "node_rate":
		return "nodeResultsPerSec"
	case "namespace_rate":
		return "resultsPerSec"
	case "namespace_nodes":
		return "nodes"
	case "labels":
		return "labels"
	case "node_passive":
		return "passivePerNode"
	}
	return ""
}

// LimitText names the namespace and the limit that was met, and the command that raises it.
func LimitText(h core.Hit) string {
	text := fmt.Sprintf("namespace %s met a limit %d times, last by node %s: %s", h.Namespace, h.Count, h.Node, h.Reason)
	if field := LimitField(h.Limit); field != "" {
		text += fmt.Sprintf("; spec.limits.%s: muster edit namespace %s", field, h.Namespace)
	}
	return text
}
