package compliance

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	reducer "github.com/muster-fleet/muster/internal/pipeline/compliance"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/testenv"
)

// slowDirectory is a node directory for tests, whose method Select blocks until the test continues.
type slowDirectory struct {
	view.Directory
	called, release chan struct{}
}

// Select notifies the test about the call, and blocks until the test continues. It selects no nodes.
func (d slowDirectory) Select(string, *model.Targets) ([]model.NodeID, error) {
	close(d.called)
	<-d.release
	return nil, nil
}

// TestDeclarationTimesDoNotWaitForRefresh requests declaration times during a blocked refresh of the
// compliance, and expects an immediate answer. A newer version of the directory changes nothing about that. A
// refresh of that version, where policies select nothing else, does not ask the planner again.
func TestDeclarationTimesDoNotWaitForRefresh(t *testing.T) {
	d, draft := directory.New()
	draft.Publish(1)
	slow := slowDirectory{called: make(chan struct{}), release: make(chan struct{})}
	s := NewFleetCompliance(Options{Placements: d.FleetSnapshot, Changes: func(time.Time) []reducer.RunChange { return nil }}, view.Stores{Directory: slow, Now: time.Now})
	s.declared = declarations{placements: d.FleetSnapshot(), begins: map[model.UnitID]time.Time{7: time.Unix(1, 0)}, policies: []model.Resource{{Spec: &model.PolicySpec{Targets: &model.Targets{}}}}}
	done := make(chan error)
	go func() { done <- s.refresh(t.Context()) }()
	<-slow.called
	draft.Publish(2)
	if begins := testenv.Value(s.declarationTimes(t.Context()))(t); len(begins) != 1 {
		t.Errorf("declaration times %v", begins)
	}
	close(slow.release)
	testenv.NoError(t, <-done)
	testenv.NoError(t, s.refresh(t.Context()))
}

// TestEditReevaluatesOneDirective edits one of two policy directives, and expects the next refresh to evaluate
// only that directive. The edit gives the node another assignment. Of a node with another assignment a refresh
// judges the directives in a roll-out, too.
func TestEditReevaluatesOneDirective(t *testing.T) {
	d, draft := directory.New()
	units := map[model.UnitID]*directory.Unit{}
	declare := func(id model.UnitID, interval time.Duration, rollout *directory.Rollout) {
		definition := &model.DirectiveDefinition{Definition: model.Definition{ID: model.DefinitionID(id), Unit: id, Name: fmt.Sprint("d", id)}, Interval: interval}
		units[id] = &directory.Unit{Name: route.Name{Name: definition.Name}, ID: id, Kind: directory.DirectiveKind, Definition: definition.ToDefinition(), Rollout: rollout}
		draft.SetUnit(directory.UnitEntry{Unit: units[id], Nodes: roaring.New()})
	}
	node := directory.NodeEntry{Node: &directory.Node{ID: 1, Name: route.Name{Name: "n"}}, Units: []model.UnitID{1000, 1001}, Content: &directory.SharedContent{}}
	judged := []model.UnitID{}
	s := NewFleetCompliance(Options{
		Placements: d.FleetSnapshot,
		Changes:    func(time.Time) []reducer.RunChange { return nil },
		Runs:       func(model.NodeID) []reducer.Run { return nil },
		LastRun: func(_ model.NodeID, id model.UnitID) (run reducer.Run, ok bool) {
			judged = append(judged, id)
			return run, false
		},
		Version: func(u *directory.Unit, _ model.NodeID) *model.Definition { return u.Definition },
		Since:   func(model.NodeID, model.UnitID) time.Time { return time.Unix(1, 0) },
	}, view.Stores{Now: func() time.Time { return time.Unix(100, 0) }})
	refresh := func(want ...model.UnitID) {
		t.Helper()
		node.Content = &directory.SharedContent{}
		draft.SetNode(node)
		draft.Publish(1)
		s.declared = declarations{placements: d.FleetSnapshot(), units: maps.Clone(units), begins: map[model.UnitID]time.Time{}}
		judged = judged[:0]
		testenv.NoError(t, s.refresh(t.Context()))
		if !slices.Equal(judged, want) {
			t.Errorf("the refresh judged %v, want %v", judged, want)
		}
	}
	declare(1000, time.Minute, nil)
	declare(1001, time.Minute, nil)
	refresh() // all at once, by Runs
	declare(1000, time.Hour, nil)
	refresh(1000)
	refresh()
	declare(1001, time.Minute, &directory.Rollout{Old: units[1001].Definition, New: units[1001].Definition})
	refresh(1001)
	refresh(1001) // its version may be another one
}
