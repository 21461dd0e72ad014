package intent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/testenv"
)

// withUID returns a Node resource with a declared uid, for tests.
func withUID(name string, uid uuid.UUID) model.Resource {
	return model.Resource{Kind: "Node", Metadata: model.Metadata{Name: name}, Spec: &model.NodeSpec{UID: uid.String()}}
}

// An apply cannot declare the uid of another node. It also fails if two nodes of one apply have the uid, or if two
// applies declare it at once.
func TestApplyCannotTakeAnotherNodesUID(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	first, err := w.join(t, "k1", "n2", pki.JoinToken{ID: "t"})
	testenv.NoError(t, err)
	w.apply(t, model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "declared"}, Spec: &model.NodeSpec{}})
	fresh := uuid.New()
	for _, c := range []struct {
		set  []model.Resource
		want string
	}{
		{[]model.Resource{withUID("copy2", first.UID)}, "has the spec.uid of node/n2"},
		{[]model.Resource{withUID("declared", first.UID)}, "has the spec.uid of node/n2"},
		{[]model.Resource{withUID("a", fresh), withUID("b", fresh)}, "node/a and node/b have the same spec.uid"},
	} {
		for _, dry := range []bool{true, false} {
			_, err := w.Apply(ctx, ada, c.set, intent.ApplyOptions{DryRun: dry})
			if model.ClassOf(err) != model.Conflict || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "omit spec.uid") {
				t.Errorf("%v", err)
			}
		}
	}
	w.beforeApplyWrites = func() { // another apply commits first
		w.beforeApplyWrites = nil
		w.apply(t, withUID("a", fresh))
	}
	if _, err := w.Apply(ctx, ada, []model.Resource{withUID("b", fresh)}, intent.ApplyOptions{}); model.ClassOf(err) != model.Conflict {
		t.Errorf("two at once: %v", err)
	}
	if out, err := w.Apply(ctx, ada, []model.Resource{withUID("n2", first.UID), withUID("a", fresh)}, intent.ApplyOptions{}); err != nil || out.Outcomes[0].Op != intent.OpUnchanged {
		t.Errorf("as they are: %+v, %v", out, err)
	}
	if info, ok := w.LookupNode(first.UID); !ok || info.Name != "n2" || info.Key != "k1" {
		t.Errorf("%+v", info)
	}
}

// TestOlderNodeKeepsASharedUID loads two nodes with the same uid, and expects the older node to keep its machine.
// Deleting the newer node must not affect the older one.
func TestOlderNodeKeepsASharedUID(t *testing.T) {
	for _, name := range []string{"copy2", "z2"} {
		w, ctx := newTestService(t), t.Context()
		first, err := w.join(t, "k1", "n2", pki.JoinToken{ID: "t"})
		testenv.NoError(t, err)
		twin := withUID(name, first.UID)
		twin.Metadata.Namespace = "default"
		body, err := json.Marshal(twin)
		testenv.NoError(t, err)
		testenv.Value(w.Store().Commit(ctx, ada, []intent.Write{{Key: nodeKey(name), Body: body}}))(t)
		still := func() {
			t.Helper()
			if info, ok := w.LookupNode(first.UID); !ok || info.Name != "n2" || info.Key != "k1" {
				t.Errorf("%s: %+v", name, info)
			}
			if member, ok := w.NodeOfKey("k1"); !ok || member.Name != "n2" || w.RefuseKey("k1") != nil {
				t.Errorf("%s: %+v, %v", name, member, w.RefuseKey("k1"))
			}
		}
		w.open(t)
		still()
		if w.HasMachine("default", name) {
			t.Errorf("%s has a machine", name)
		}
		labelled := withUID(name, first.UID)
		labelled.Metadata.Labels = map[string]string{"a": "b"}
		w.apply(t, labelled)
		still()
		testenv.Value(w.Delete(ctx, ada, []intent.Key{nodeKey(name)}, intent.ApplyOptions{}))(t)
		still()
		w.open(t)
		still()
	}
}

// TestExternalAgentKeepsItsNode connects agents of other monitoring systems, and expects the same node each time.
// After its node was retired, an agent is refused.
func TestExternalAgentKeepsItsNode(t *testing.T) {
	s := newTestService(t)
	ctx := t.Context()
	by := intent.Actor{User: "sensu"}
	meet := func(namespace, name string) (intent.NodeInfo, error) {
		return s.RegisterExternal(ctx, by, &intent.ExternalAgent{System: "sensu", Namespace: namespace, Name: name, AgentReport: intent.AgentReport{Labels: map[string]string{"a": "b"}, Groups: []string{"web"}}})
	}
	first, err := meet("default", "Web.1")
	if err != nil || first.Name != "web.1" || first.Key != "" {
		t.Fatalf("%v %+v", err, first)
	}
	if again, err := meet("default", "Web.1"); err != nil || again.ID != first.ID {
		t.Errorf("the same: %v %+v", err, again)
	}
	if other, err := meet("default", "web.1"); err != nil || other.Name != "web.1-2" || other.UID == first.UID {
		t.Errorf("one whose name is the same here: %v %+v", err, other)
	}
	if _, err := meet("nowhere", "web"); model.ClassOf(err) != model.NotFound {
		t.Errorf("no namespace: %v", err)
	}
	var all sync.WaitGroup
	ids := make([]model.NodeID, 8)
	for i := range ids {
		all.Go(func() {
			info, err := meet("default", "twice")
			if ids[i] = info.ID; err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] || id == 0 {
			t.Fatal(fmt.Sprint("it came by several connections at once: ", ids))
		}
	}
}

// An ephemeral external agent loses its node after a long absence, and returns as a new node. A retired external agent
// is refused.
func TestForgottenExternalAgentReturns(t *testing.T) {
	w := newTestService(t)
	w.hasSession = func(model.NodeID) bool { return false }
	ctx := t.Context()
	m := &intent.ExternalAgent{System: "sensu", Namespace: "default", Name: "web",
		Lifecycle: &model.Lifecycle{Ephemeral: true, ForgetAfter: model.Duration(2 * time.Minute)}}
	first, err := w.RegisterExternal(ctx, intent.Actor{User: "sensu"}, m)
	if err != nil || first.ForgetAfter != 2*time.Minute {
		t.Fatalf("%v %+v", err, first)
	}
	away := map[uuid.UUID]time.Duration{}
	for range 3 {
		w.now = w.now.Add(time.Minute)
		testenv.NoError(t, w.ForgetAbsentNow(ctx, away, time.Minute))
	}
	if gone, ok := w.Tombstone(m.UID()); !ok || gone.Cause != intent.ReasonForgotten {
		t.Fatalf("%v %+v", ok, gone)
	}
	again, err := w.RegisterExternal(ctx, intent.Actor{User: "sensu"}, m)
	if err != nil || again.ID == first.ID || again.UID != first.UID || again.Name != "web" {
		t.Errorf("%v %+v after %+v", err, again, first)
	}
	if _, still := w.Tombstone(m.UID()); still {
		t.Error("it is forgotten and there")
	}
	testenv.Value(w.Retire(ctx, intent.Actor{User: "sue"}, []intent.Key{{Kind: "Node", Namespace: "default", Name: "web"}}, intent.ApplyOptions{Yes: true}))(t)
	if _, err := w.RegisterExternal(ctx, intent.Actor{User: "sensu"}, m); model.ClassOf(err) != model.Forbidden {
		t.Errorf("retired: %v", err)
	}
}

// TestEphemeralNodesAreForgotten lets 300 ephemeral nodes connect and disappear, and expects their removal. Each node
// is removed one hour after its last session. A week later the store and the indexes hold nothing of them.
func TestEphemeralNodesAreForgotten(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	var forgotten []plan.Removal
	planner := plan.New(plan.Options{Store: w.Store(), Epoch: 1, Removed: func(f []plan.Removal) { forgotten = append(forgotten, f...) }})
	testenv.NoError(t, planner.Load(ctx))
	check := check("disk")
	stays := model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "stays"}, Spec: &model.NodeSpec{UID: uuid.NewString()}}
	w.apply(t, check, stays)
	testenv.NoError(t, planner.CatchUp(ctx))
	token := pki.JoinToken{ID: "t", Lifecycle: &model.Lifecycle{Ephemeral: true}}
	here, away := map[uuid.UUID]time.Time{}, map[uuid.UUID]time.Duration{} // until when it lives
	until := map[model.NodeID]time.Time{}
	w.hasSession = func(id model.NodeID) bool { return w.now.Before(until[id]) }
	begin := w.now
	const step = 5 * time.Minute
	most := 0
	for i, came := 0, 0; i < 24*12; i++ {
		for ; came < 300*(i+1)/(20*12) && came < 300; came++ { // within twenty hours
			m, err := w.join(t, fmt.Sprint("key", came), "worker", token)
			testenv.NoError(t, err)
			here[m.UID] = w.now.Add(time.Duration(10+came%50) * time.Minute)
			info, _ := w.LookupNode(m.UID)
			until[info.ID] = here[m.UID]
		}
		w.now = w.now.Add(step)
		testenv.NoError(t, w.ForgetAbsentNow(ctx, away, step))
		testenv.NoError(t, planner.CatchUp(ctx))
		for uid, until := range here {
			_, there := w.LookupNode(uid)
			gone, buried := w.Tombstone(uid)
			switch absent := w.now.Sub(until); {
			case absent < time.Hour && !there:
				t.Fatalf("forgotten after %v: %+v", absent, gone)
			case absent >= time.Hour+2*step && (there || !buried || gone.Cause != intent.ReasonForgotten):
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
	testenv.NoError(t, errors.Join(w.ForgetAbsentNow(ctx, away, step), w.EnforceRetentionNow(ctx)))
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
