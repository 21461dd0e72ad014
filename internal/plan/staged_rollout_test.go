package plan

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// randomRolloutStep returns a random change to the stored record of a running roll-out. ok is false if no
// roll-out is under way.
func (h *testPlanner) randomRolloutStep(rt *rapid.T) (w intent.Write, ok bool) {
	rows, _ := h.List(rt.Context(), intent.ListQuery{Kind: intent.RolloutKind})
	rows = slices.DeleteFunc(rows, func(row intent.Row) bool {
		r, err := intent.DecodeRollout(row)
		return err != nil || !r.UnderWay()
	})
	if len(rows) == 0 {
		return w, false
	}
	row := rapid.SampledFrom(rows).Draw(rt, "roll-out")
	r, _ := intent.DecodeRollout(row)
	switch rapid.IntRange(0, 3).Draw(rt, "step") {
	case 0:
		r.Steps = append(r.Steps, model.RolloutStep{Step: "g1"})
	case 1:
		r.Bound, r.Steps = max(r.Bound, model.RolloutOrder(model.NodeID(rapid.IntRange(1, 4).Draw(rt, "until")))+1), append(r.Steps, model.RolloutStep{Step: "50%"})
	case 2:
		r.Bound = model.AllNodes
	default:
		r.Previous, r.Accepted, r.State = r.Accepted, r.Candidate, model.RolloutDone
	}
	return rolloutWrite(rt, row.Key, r), true
}

// rolloutWrite returns the write that stores a roll-out in the database.
func rolloutWrite(t interface{ Fatal(...any) }, key intent.Key, r model.Rollout) intent.Write {
	body, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return intent.Write{Key: key, Body: body, Expect: -1}
}

// TestRolloutsFollowTheirRecords edits a directive, and expects each node's version to follow the roll-out's
// stored record. It expects the edit on the nodes of the steps that have begun, also after restarts, and in the
// end on all nodes.
func TestRolloutsFollowTheirRecords(t *testing.T) {
	h := newTestPlanner(t)
	names := []string{"n1", "n2", "n3", "n4"}
	for i, name := range names {
		h.node(name, nil, "all", []string{"canary", "rest"}[min(i, 1)])
	}
	h.apply("Technique", "default", "motd", nil, motdTechnique("message"))
	h.apply("Policy", "default", "all", nil, &model.PolicySpec{Directives: []string{"hello"}, Targets: &model.Targets{Groups: []string{"all"}}})
	declare := func(text string, steps *model.RolloutSpec) {
		t.Helper()
		d := motdDirective(text)
		d.Rollout = steps
		h.apply("Directive", "default", "hello", nil, d)
	}
	record := func() (r model.Rollout) {
		t.Helper()
		rows, _ := h.List(t.Context(), intent.ListQuery{Kind: intent.RolloutKind})
		if len(rows) == 1 {
			r, _ = intent.DecodeRollout(rows[0])
		}
		return r
	}
	expect := func(step string, state model.RolloutState, changed int, want ...string) {
		t.Helper()
		for range 2 {
			var got []string
			for _, name := range names {
				got = append(got, h.directiveOn(name, "hello").Parameters["text"])
			}
			if !slices.Equal(got, want) || record().State != state {
				t.Fatalf("%s: nodes have %q, want %q; state %q", step, got, want, record().State)
			}
			if changed >= 0 && len(h.changed) != changed {
				t.Errorf("%s: %d assignments changed, want %d", step, len(h.changed), changed)
			}
			if changed = -1; len(names) > 0 {
				h.start() // a restart changes nothing
			}
		}
	}
	move := func(change func(*model.Rollout)) {
		t.Helper()
		r := record()
		change(&r)
		h.write(rolloutWrite(t, intent.RolloutKey(r.Unit), r))
	}
	steps := &model.RolloutSpec{Steps: []string{"canary", "50%"}}
	declare("a", steps)
	expect("a new directive has no earlier version", model.RolloutNone, 4, "a", "a", "a", "a")
	declare("b", steps)
	expect("an edit waits for its first step", model.RolloutRunning, 0, "a", "a", "a", "a")
	if r := record(); r.By != "test" || r.Base == 0 {
		t.Errorf("record %+v", r)
	}
	move(func(r *model.Rollout) { r.Steps = []model.RolloutStep{{Step: "canary"}} })
	expect("a group", model.RolloutRunning, 1, "b", "a", "a", "a")
	h.apply("Node", "default", "n2", nil, &model.NodeSpec{Groups: []string{"all", "canary"}})
	expect("a node joins the group", model.RolloutRunning, 1, "b", "b", "a", "a")
	h.apply("Technique", "default", "motd", nil, motdTechnique("other"))
	if r := record(); r.State != model.RolloutRunning || len(r.Steps) != 0 {
		t.Errorf("a second edit does not begin again: %+v", r)
	}
	expect("a second edit begins again from the accepted version", model.RolloutRunning, -1, "a", "a", "a", "a")
	if d := h.directiveOn("n1", "hello"); d.Components[0].Name != "message" {
		t.Errorf("a node has the new technique before its step: %+v", d.Components)
	}
	h.node("n5", nil, "all")
	names = append(names, "n5")
	expect("a new node has the accepted version", model.RolloutRunning, -1, "a", "a", "a", "a", "a")
	move(func(r *model.Rollout) { r.Bound = model.AllNodes })
	expect("all", model.RolloutRunning, 5, "b", "b", "b", "b", "b")
	move(func(r *model.Rollout) { r.Previous, r.Accepted, r.State = r.Accepted, r.Candidate, model.RolloutDone })
	expect("the end changes no assignment", model.RolloutDone, 0, "b", "b", "b", "b", "b")
	declare("c", &model.RolloutSpec{Steps: []string{"10%"}, Approve: true})
	expect("an edit that awaits approval", model.RolloutRequested, 0, "b", "b", "b", "b", "b")
	move(func(r *model.Rollout) { r.State, r.Bound = model.RolloutRunning, model.AllNodes })
	declare("b", steps)
	expect("the declaration goes back", model.RolloutUndone, 5, "b", "b", "b", "b", "b")
	declare("d", nil)
	expect("an edit that removes the steps takes them", model.RolloutRunning, 0, "b", "b", "b", "b", "b")
	move(func(r *model.Rollout) { r.Accepted, r.State = r.Candidate, model.RolloutDone })
	expect("no roll-out any more", model.RolloutNone, 5, "d", "d", "d", "d", "d")

	// A crash between the commit of an edit and its compilation.
	for _, first := range []*model.RolloutSpec{nil, steps} {
		declare("x", first)
		p := h.p
		h.p = nil
		declare("y", steps)
		h.p = p
		h.start()
		expect(fmt.Sprintf("an interrupted edit after %v", first), model.RolloutRunning, -1, "x", "x", "x", "x", "x")
		if r := record(); r.By != "test" || r.Base != h.revisionOf("hello")-1 {
			t.Errorf("record %+v", r)
		}
		declare("x", nil)
	}
	h.apply("Directive", "default", "hello", nil, nil)
	if rows, _ := h.List(t.Context(), intent.ListQuery{Kind: intent.RolloutKind}); len(rows) != 0 {
		t.Errorf("a deleted directive leaves %d roll-outs", len(rows))
	}
}

// revisionOf returns the revision of a directive's row in the database.
func (h *testPlanner) revisionOf(directive string) int64 {
	row, _ := h.Get(h.t.Context(), intent.Key{Kind: "Directive", Namespace: "default", Name: directive})
	return row.Revision
}

// TestPreviewShowsStagedChangesOnAllNodes previews a change with a gradual roll-out, and expects the preview to
// count all nodes. During a roll-out, writes that change nothing count no node.
func TestPreviewShowsStagedChangesOnAllNodes(t *testing.T) {
	h := newTestPlanner(t)
	h.node("n1", nil, "all")
	h.node("n2", nil, "all")
	h.apply("Technique", "default", "motd", nil, motdTechnique("message"))
	h.apply("Policy", "default", "all", nil, &model.PolicySpec{Directives: []string{"hello"}, Targets: &model.Targets{Groups: []string{"all"}}})
	d := motdDirective("a")
	d.Rollout = &model.RolloutSpec{Steps: []string{"50%"}}
	h.apply("Directive", "default", "hello", nil, d)
	key := intent.Key{Kind: "Directive", Namespace: "default", Name: "hello"}
	var seen []intent.UnitImpact
	affected := func(text string) int {
		t.Helper()
		edit := *motdDirective(text)
		edit.Rollout = d.Rollout
		out, err := h.p.Preview(t.Context(), []intent.Write{{Key: key, Body: encodeSpec(t, key.Kind, key.Namespace, key.Name, nil, &edit)}}, true)
		if err != nil {
			t.Fatal(err)
		}
		seen = out.Units
		return out.Affected
	}
	if n := affected("b"); n != 2 {
		t.Errorf("an edit affects %d nodes", n)
	}
	want := []intent.UnitImpact{{Key: key, Changes: 2, Nodes: []string{"n1", "n2"}, Differences: []string{`parameters.text: "a" → "b"`}, Steps: []string{"50%", "100%"}}}
	if !reflect.DeepEqual(seen, want) {
		t.Errorf("impacts %+v, want %+v", seen, want)
	}
	edit := *motdDirective("b")
	edit.Rollout = d.Rollout
	h.apply(key.Kind, key.Namespace, key.Name, nil, &edit)
	id, _ := h.p.directory.UnitByName(directory.DirectiveKind, "default", "hello")
	if u := h.p.directory.SourceUnit(model.DirectiveSource(id)); u.Rollout == nil || u.Rollout.Old == u.Rollout.New || !strings.Contains(u.Rollout.New.AsDirective().Parameters["text"], "b") {
		t.Errorf("published %+v", u.Rollout)
	}
	if n := affected("b"); n != 0 {
		t.Errorf("no edit during the roll-out affects %d nodes", n)
	}
}

// FuzzFlattenFields flattens random nested JSON into single fields, and expects each field to have a path. Only a
// single bare value has none. Equal values have no differences.
func FuzzFlattenFields(f *testing.F) {
	f.Add([]byte(`{"Command": {"Shell": "true"}, "List": [1, {"a": null}], "": 1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}
		a, b := map[string]string{}, map[string]string{}
		flattenFields(a, "at", json.RawMessage(data))
		flattenFields(b, "at", json.RawMessage(data))
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%v, then %v", a, b)
		}
		for path := range a {
			if !strings.HasPrefix(path, "at") {
				t.Errorf("path %q", path)
			}
		}
	})
}
