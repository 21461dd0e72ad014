package notification

import (
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
)

// largeFleet is a directory with 5,000 nodes named web.
type largeFleet struct{ view.Directory }

// Nodes returns the nodes of the fleet.
func (largeFleet) Nodes(string) []model.NodeID { return make([]model.NodeID, 5000) }

// NodeName returns the name that all nodes have.
func (largeFleet) NodeName(model.NodeID) (namespace, name string, ok bool) {
	return "default", "web", true
}

// NodeLabels returns no labels.
func (largeFleet) NodeLabels(model.NodeID) map[string]string { return nil }

// NodeFacts returns no facts.
func (largeFleet) NodeFacts(model.NodeID) map[string]string { return nil }

// NodeGroups returns no groups.
func (largeFleet) NodeGroups(model.NodeID) []string { return nil }

// SourceName returns no name.
func (largeFleet) SourceName(model.Source) (namespace, name string, ok bool) { return "", "", false }

// noProblems is an event view without open problems.
type noProblems struct{ event.Reader }

// OpenProblems calls nothing.
func (noProblems) OpenProblems(func(*model.Problem)) {}

// TestSelectorsHaveATimeLimit counts the nodes of a selector whose condition takes long, and expects an error.
func TestSelectorsHaveATimeLimit(t *testing.T) {
	clock, perNode := time.Unix(0, 0), time.Duration(0)
	v := view.New(view.Stores{Directory: largeFleet{}, Events: noProblems{}, Now: func() time.Time { clock = clock.Add(perNode); return clock }}, view.Live{})
	selector := &model.Selector{Where: `node.name.startsWith("w")`}
	if covered, all, first, err := CountMatchingNodes(v, "default", selector); err != nil || covered != 5000 || all != 5000 || len(first) == 0 {
		t.Errorf("%d of %d nodes, first %q: %v", covered, all, first, err)
	}
	perNode = time.Millisecond
	if _, _, _, err := CountMatchingNodes(v, "default", selector); model.ClassOf(err) != model.Limited || !strings.Contains(err.Error(), "takes more than 2s") {
		t.Errorf("a slow condition: %v", err)
	}
}
