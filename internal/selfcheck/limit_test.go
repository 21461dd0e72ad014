package selfcheck

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
)

// Who meets a limit has an event that says so and what raises it; a limit that many nodes
// meet has one, whoever met it last; ten minutes after the last time it closes.
func TestLimitEvent(t *testing.T) {
	var written []string
	e := &episodes{status: model.Warning, closed: "no limit was met", open: map[model.NodeID]*episode{}}
	e.write = func(node model.NodeID, status model.Status, text string) error {
		written = append(written, fmt.Sprintf("%d %d %s", node, status, text))
		return nil
	}
	ids := map[string]model.NodeID{"team/a": 1, "team/b": 2, "other/a": 3}
	q := limits{episodes: e, nodes: map[limit]model.NodeID{}, find: func(namespace, name string) (model.NodeID, bool) {
		id, ok := ids[namespace+"/"+name]
		return id, ok
	}}
	at := time.Unix(1_700_000_000, 0)
	hit := func(namespace, node, limit string, ago int) core.Hit {
		return core.Hit{Namespace: namespace, Node: node, Limit: limit, Count: 7, Last: at.Add(time.Duration(-ago) * episodeTick), Reason: "too much"}
	}
	look := func(hits ...core.Hit) []string {
		written = nil
		q.update(hits, at.Add(-episodeTick))
		q.tick()
		slices.Sort(written)
		return written
	}
	if got := look(hit("team", "a", "namespace_rate", 0), hit("other", "a", "output", 0), hit("team", "gone", "labels", 0), hit("team", "b", "node_rate", 3)); len(got) != 2 ||
		!strings.HasPrefix(got[0], "1 1 namespace team met a limit 7 times, last by node a: too much; spec.limits.resultsPerSec: muster edit namespace team") ||
		!strings.HasPrefix(got[1], "3 1 namespace other met") {
		t.Fatalf("%q", got)
	}
	if got := look(hit("team", "b", "namespace_rate", 0), hit("other", "a", "output", 0)); len(got) != 0 {
		t.Errorf("the same, by another node, is told again: %q", got)
	}
	if got := look(hit("team", "b", "namespace_rate", 0), hit("team", "b", "node_rate", 0), hit("other", "a", "output", 1)); len(got) != 1 || !strings.HasPrefix(got[0], "2 1 ") || strings.Contains(got[0], "resultsPerSec: muster edit namespace team\n") {
		t.Errorf("another limit of another node: %q", got)
	}
	for range episodeLength - 3 {
		if got := look(); len(got) != 0 {
			t.Fatalf("closed too early: %q", got)
		}
	}
	var closed []string
	for range 3 {
		closed = append(closed, look()...)
	}
	if slices.Sort(closed); len(closed) != 3 || closed[0] != "1 0 no limit was met for 10m0s" || len(e.open) != 0 {
		t.Errorf("after ten minutes: %q, open %v", closed, e.open)
	}
	if got := look(hit("team", "b", "namespace_rate", 0)); len(got) != 1 || !strings.HasPrefix(got[0], "2 1 ") {
		t.Errorf("again, after it was closed: %q", got)
	}
}
