package intent_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/plan"
)

// Three hundred instances come and go within a day: each is forgotten an hour after it was
// last there, no earlier; a week later nothing of them is left anywhere.
func TestInstancesComeAndGo(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	var forgotten []plan.Removal
	planner := plan.New(plan.Options{Store: w.Store(), Epoch: 1, Removed: func(f []plan.Removal) { forgotten = append(forgotten, f...) }})
	if err := planner.Load(ctx); err != nil {
		t.Fatal(err)
	}
	check := check("disk")
	stays := model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "stays"}, Spec: &model.NodeSpec{UID: uuid.NewString()}}
	if _, err := w.Apply(ctx, ada, []model.Resource{check, stays}, intent.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := planner.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
	token := pki.JoinToken{ID: "t", Lifecycle: &model.Lifecycle{Ephemeral: true}}
	here, away := map[uuid.UUID]time.Time{}, map[uuid.UUID]time.Duration{} // until when it lives
	until := map[model.NodeID]time.Time{}
	w.here = func(id model.NodeID) bool { return w.now.Before(until[id]) }
	begin := w.now
	const step = 5 * time.Minute
	most := 0
	for i, came := 0, 0; i < 24*12; i++ {
		for ; came < 300*(i+1)/(20*12) && came < 300; came++ { // within twenty hours
			m, err := w.join(t, fmt.Sprint("key", came), "worker", token)
			if err != nil {
				t.Fatal(err)
			}
			here[m.UID] = w.now.Add(time.Duration(10+came%50) * time.Minute)
			info, _ := w.LookupNode(m.UID)
			until[info.ID] = here[m.UID]
		}
		w.now = w.now.Add(step)
		if err := w.ForgetAbsentNow(ctx, away, step); err != nil {
			t.Fatal(err)
		}
		if err := planner.CatchUp(ctx); err != nil {
			t.Fatal(err)
		}
		for uid, until := range here {
			_, there := w.LookupNode(uid)
			gone, buried := w.Tombstone(uid)
			switch absent := w.now.Sub(until); {
			case absent < time.Hour && !there:
				t.Fatalf("forgotten after %v: %+v", absent, gone)
			case absent >= time.Hour+2*step && (there || !buried || gone.Why != intent.ReasonForgotten):
				t.Fatalf("there after %v: %+v", absent, gone)
			}
		}
		nodes := len(planner.Directory().Nodes(""))
		most = max(most, nodes)
		if held, _, ephemeral, _ := w.IndexSizes(); held != 2*nodes || ephemeral != nodes-1 || len(away) > most {
			t.Fatalf("%d nodes: %d held in memory, %d ephemeral, %d away", nodes, held, ephemeral, len(away))
		}
	}
	if most < 20 || most > 60 || len(here) != 300 {
		t.Errorf("at most %d nodes at a time of %d: that is no coming and going", most, len(here))
	}
	w.now = begin.Add(24 * time.Hour).Add(7*24*time.Hour + time.Minute)
	if err := errors.Join(w.ForgetAbsentNow(ctx, away, step), w.EnforceRetentionNow(ctx)); err != nil {
		t.Fatal(err)
	}
	if held, keys, ephemeral, tombs := w.IndexSizes(); held != 2 || keys != 0 || ephemeral != 0 || tombs != 0 || len(away) != 0 {
		t.Errorf("left in memory: %d of nodes, %d keys, %d ephemeral, %d tombstones, %d away", held, keys, ephemeral, tombs, len(away))
	}
	for kind, want := range map[string]int{"Node": 1, "tombstone": 0, "Check": 1} {
		if rows, err := w.Store().List(ctx, intent.ListQuery{Kind: kind}); err != nil || len(rows) != want {
			t.Errorf("%d rows of kind %s, %v; want %d", len(rows), kind, err, want)
		}
	}
	gone := 0
	for _, f := range forgotten {
		if f.Mark.Deleted && f.Node != 0 {
			gone++
		}
	}
	if gone != 300 || len(planner.Directory().Nodes("")) != 1 {
		t.Errorf("%d nodes' events are forgotten, want 300; %d nodes are planned for", gone, len(planner.Directory().Nodes("")))
	}
}
