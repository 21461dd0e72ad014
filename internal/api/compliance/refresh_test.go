package compliance

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	reducer "github.com/muster-fleet/muster/internal/pipeline/compliance"
	"github.com/muster-fleet/muster/internal/testenv"
)

// slowDirectory is a directory whose Select waits, as it does during a pass of the planner.
type slowDirectory struct {
	view.Directory
	called, release chan struct{}
}

// Select implements view.Directory.
func (d slowDirectory) Select(string, *model.Targets) ([]model.NodeID, error) {
	close(d.called)
	<-d.release
	return nil, nil
}

// TestDeclarationTimesWaitForNoPlanner asks for the times of declarations while a refresh waits for the planner, also with a newer version
// of the directory.
func TestDeclarationTimesWaitForNoPlanner(t *testing.T) {
	d, draft := directory.New()
	draft.Publish(1)
	slow := slowDirectory{called: make(chan struct{}), release: make(chan struct{})}
	s := NewSums(Options{Placements: d.Placements, Changes: func(time.Time) []reducer.RunChange { return nil }}, view.Stores{Directory: slow, Now: time.Now})
	s.declared = declarations{placements: d.Placements(), begins: map[model.UnitID]time.Time{7: time.Unix(1, 0)}, policies: []model.Resource{{Spec: &model.PolicySpec{Targets: &model.Targets{}}}}}
	done := make(chan error)
	go func() { done <- s.refresh(t.Context()) }()
	<-slow.called
	draft.Publish(2)
	if begins := testenv.Value(s.declarationTimes(t.Context()))(t); len(begins) != 1 {
		t.Errorf("declaration times %v", begins)
	}
	close(slow.release)
	testenv.NoError(t, <-done)
}
