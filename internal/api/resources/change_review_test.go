package resources_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/api/apitest"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestReviewedChangeNeedsTwoPeople expects a change of a group that requires review to wait for a second
// person's approval. The same person, a token of this person, other content or a week's delay does not count.
func TestReviewedChangeNeedsTwoPeople(t *testing.T) {
	s := apitest.NewServer(t)
	s.JoinNode("p1", nil)
	s.Apply(`
{kind: Technique, metadata: {name: motd}, spec: {methods: [{component: line, fileLines: {path: /etc/motd, lines: [hello]}}]}}
---
{kind: Directive, metadata: {name: motd}, spec: {technique: motd}}
---
{kind: Group, metadata: {name: production}, spec: {nodes: [p1], review: true}}
`)
	const policy = `{kind: Policy, metadata: {name: %s}, spec: {directives: [motd], targets: {nodes: [p1]}}}`
	apply := func(by intent.Actor, name string, dryRun bool) (refused error) {
		t.Helper()
		located, err := kind.All().Decode("test", fmt.Appendf(nil, policy, name))
		testenv.NoError(t, err)
		done, err := s.Intent.Apply(t.Context(), by, []model.Resource{located[0].Resource}, intent.ApplyOptions{DryRun: dryRun})
		if dryRun {
			testenv.NoError(t, err)
			return done.Refused
		}
		return err
	}
	expectWait := func(err error, text string) {
		t.Helper()
		if model.ClassOf(err) != model.Guarded || !strings.Contains(fmt.Sprint(err), text) {
			t.Fatalf("error %v, want %q", err, text)
		}
	}
	ann, bob, robot := intent.Actor{User: "ann"}, intent.Actor{User: "bob"}, intent.Actor{User: "robot", Maker: "ann"}
	expectWait(apply(bob, "a", true), "muster apply, requests it")
	expectWait(apply(ann, "a", false), "awaits the approval of another person, because it changes policies or approval rules of 1 node in a group that requires approval: p1")
	expectWait(apply(ann, "a", false), "ann requested it")
	expectWait(apply(robot, "a", false), "ann requested it")
	expectWait(apply(bob, "b", false), "bob requested it")
	testenv.NoError(t, apply(bob, "a", true))
	key := intent.Key{Kind: "Policy", Namespace: "default", Name: "a"}
	if _, err := s.Intent.Get(t.Context(), key); model.ClassOf(err) != model.NotFound {
		t.Fatalf("the policy exists before the approval: %v", err)
	}
	testenv.NoError(t, apply(bob, "a", false))
	testenv.NoError(t, s.Planner.CatchUp(t.Context()))

	remove := func(by intent.Actor) error {
		_, err := s.Intent.Delete(t.Context(), by, []intent.Key{key}, intent.ApplyOptions{})
		return err
	}
	expectWait(remove(robot), "robot requested it")
	s.Advance(8 * 24 * time.Hour)
	expectWait(remove(bob), "bob requested it")
	expectWait(remove(bob), "bob requested it")
	testenv.NoError(t, remove(ann))
	if _, err := s.Intent.Get(t.Context(), key); model.ClassOf(err) != model.NotFound {
		t.Errorf("the policy is not deleted: %v", err)
	}
	changes, err := s.Intent.Audit(t.Context(), intent.ChangeQuery{Kind: "review"}, true)
	testenv.NoError(t, err)
	if len(changes) == 0 || changes[len(changes)-1].Key.Namespace != "default" || !strings.Contains(changes[len(changes)-1].Actor.Message, "requested policy/a, awaits another person") {
		t.Errorf("audit %+v", changes)
	}
	for i := range 100 {
		expectWait(apply(ann, fmt.Sprint("c", i), false), "ann requested it")
	}
	if err := apply(robot, "d", false); model.ClassOf(err) != model.Limited || !strings.Contains(err.Error(), "muster rollout requests") {
		t.Errorf("request 101: %v", err)
	}
	expectWait(apply(bob, "d", false), "bob requested it")

	// The differences of a long change are cut.
	var long []model.Resource
	for _, name := range []string{"a", "b", "c"} {
		located, err := kind.All().Decode("test", fmt.Appendf(nil, "{kind: Technique, metadata: {name: %s}, spec: {methods: [{component: a, fileContent: {path: /a, content: %q}}, {component: b, fileContent: {path: /b, content: %q}}]}}",
			name, strings.Repeat("é", 20000), strings.Repeat("é", 20000)))
		testenv.NoError(t, err)
		long = append(long, located[0].Resource)
	}
	located, err := kind.All().Decode("test", fmt.Appendf(nil, policy, "long"))
	testenv.NoError(t, err)
	long = append(long, located[0].Resource)
	_, err = s.Intent.Apply(t.Context(), intent.Actor{User: "cid"}, long, intent.ApplyOptions{})
	expectWait(err, "cid requested it")
	_, err = s.Intent.Apply(t.Context(), bob, long, intent.ApplyOptions{})
	testenv.NoError(t, err)
}
