package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/model"
)

var start = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// testFleet returns a test fleet of connected, compliant nodes. The nodes that the roll-out has reached have the new
// version.
func testFleet(r *model.Rollout, n int, at time.Duration) *Fleet {
	f := &Fleet{Now: start.Add(at), Timeout: 5 * time.Minute, InGroup: func(group string, id model.NodeID) bool { return group == "canary" && id == 7 }}
	for i := range n {
		id := model.NodeID(i + 1)
		f.Nodes = append(f.Nodes, Node{ID: id, Name: fmt.Sprint("n", id), Connected: true, Verdict: Compliant})
	}
	f.applyVersions(r)
	return f
}

// applyVersions sets the version of each node in the test fleet to the version given by the roll-out.
func (f *Fleet) applyVersions(r *model.Rollout) {
	for i := range f.Nodes {
		n := &f.Nodes[i]
		n.New = model.RolloutOrder(n.ID) < r.Bound || slices.ContainsFunc(r.Groups(), func(g string) bool { return f.InGroup(g, n.ID) })
	}
}

// runningRollout returns a roll-out in state running, with the given steps. No step has begun.
func runningRollout(steps ...string) model.Rollout {
	return model.Rollout{Accepted: "a", Candidate: "b", State: model.RolloutRunning, Spec: model.RolloutSpec{Steps: steps, Wait: model.Duration(time.Minute)}}
}

// TestStepsWaitForReports advances a roll-out through its steps, and expects each step to wait for reports. It expects
// each step to wait for its time and for the reports of the earlier nodes, and the roll-out to end after the last
// step.
func TestStepsWaitForReports(t *testing.T) {
	r := runningRollout("canary", "1%", "50%")
	step := func(at time.Duration, want string, nodes int, change ...func(*Fleet)) {
		t.Helper()
		f := testFleet(&r, 40, at)
		for _, c := range change {
			c(f)
		}
		next, changed := Advance(r, f)
		if got := fmt.Sprint(changed, " ", next.State, " ", len(next.Steps)); got != want {
			t.Fatalf("after %s: %s, want %s (%s)", at, got, want, next.Reason)
		}
		if r = next; changed && nodes > 0 {
			if f.applyVersions(&r); ProgressOf(&r, f).New != nodes || r.Steps[len(r.Steps)-1].Nodes != nodes {
				t.Errorf("after %s: %d nodes have the new version, want %d; step %+v", at, ProgressOf(&r, f).New, nodes, r.Steps)
			}
		}
	}
	silent := func(f *Fleet) {
		for i := range f.Nodes {
			if f.Nodes[i].New {
				f.Nodes[i].Verdict = NoReport
			}
		}
	}
	step(0, "true running 1", 1)
	step(59*time.Second, "false running 1", 0)
	step(61*time.Second, "false running 1", 0, silent)
	step(62*time.Second, "true running 2", 2) // one of forty is the least share
	step(63*time.Second, "false running 2", 0)
	step(3*time.Minute, "true running 3", 20) // the canary is one of them
	r.State = model.RolloutPaused
	step(9*time.Minute, "false paused 3", 0)
	r.State = model.RolloutRunning
	step(9*time.Minute, "true running 4", 40)
	step(11*time.Minute, "true done 4", 0)
	if r.Accepted != "b" || r.Previous != "a" || r.UnderWay() {
		t.Errorf("ended as %+v", r)
	}
	empty := runningRollout("10%")
	for range 3 {
		empty, _ = Advance(empty, &Fleet{Now: start})
	}
	if empty.State != model.RolloutDone {
		t.Errorf("a directive on no node: %+v", empty)
	}
}

// TestFailuresStopRollout lets nodes fail or fall silent, and expects the roll-out to stop. Nodes that were not compliant or
// not connected before their step do not stop the roll-out.
func TestFailuresStopRollout(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(*Node)
		after  func(*Node)
		at     time.Duration
		state  model.RolloutState
		reason string
	}{
		{"all well", nil, nil, 2 * time.Minute, model.RolloutRunning, ""},
		{"not compliant", nil, func(n *Node) { n.Verdict, n.Reason = NotCompliant, "line: error: full disk" }, time.Second, model.RolloutStopped, "line: error: full disk"},
		{"not compliant before", func(n *Node) { n.Verdict = NotCompliant }, func(n *Node) { n.Verdict = NotCompliant }, 2 * time.Minute, model.RolloutRunning, ""},
		{"silent, but not for long", nil, func(n *Node) { n.Verdict = NoReport }, 6 * time.Minute, model.RolloutRunning, ""},
		{"silent", nil, func(n *Node) { n.Verdict, n.Connected = NoReport, false }, 6*time.Minute + 1, model.RolloutStopped, "no report of the new version since 12:00:00 UTC"},
		{"away before", func(n *Node) { n.Connected = false }, func(n *Node) { n.Verdict = NoReport }, time.Hour, model.RolloutRunning, ""},
	} {
		r := runningRollout("50%")
		f := testFleet(&r, 20, 0)
		odd := slices.MinFunc(f.Nodes, func(a, b Node) int { return int(model.RolloutOrder(a.ID)>>32) - int(model.RolloutOrder(b.ID)>>32) }).ID
		each := func(change func(*Node)) {
			if change != nil {
				change(&f.Nodes[odd-1])
			}
		}
		each(c.before)
		r, _ = Advance(r, f)
		f = testFleet(&r, 20, c.at)
		each(c.after)
		next, _ := Advance(r, f)
		if next.State != c.state || !strings.Contains(next.Reason, c.reason) || c.reason != "" && !strings.HasPrefix(next.Reason, "1 of 10 nodes with the new version failed, more than 5%: n") {
			t.Errorf("%s: %s, %q", c.name, next.State, next.Reason)
		}
		f.Listening = f.Now // after a start of the server
		if next, _ := Advance(r, f); strings.Contains(c.name, "silent") && next.State == model.RolloutStopped {
			t.Errorf("%s: a start of the server counts as silence", c.name)
		}
	}
}

// TestStepsOnlyAddNodes advances a roll-out over random nodes, and expects no node to lose the new version. Nodes
// come, go, fail and report; steps never come twice, and a stored copy goes on equally.
func TestStepsOnlyAddNodes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := runningRollout(rapid.SampledFrom([][]string{{"canary", "10%", "60%"}, {"1%"}, {"30%", "canary", "100%"}}).Draw(rt, "steps")...)
		r.Spec.MaxFailed = rapid.SampledFrom([]string{"0%", "30%", "100%"}).Draw(rt, "most failed")
		had := map[model.NodeID]bool{}
		for i := range 12 {
			f := testFleet(&r, rapid.IntRange(1, 30).Draw(rt, "nodes"), time.Duration(i)*2*time.Minute)
			for k := range f.Nodes {
				f.Nodes[k].Verdict = rapid.SampledFrom([]Outcome{Compliant, Compliant, Compliant, NoReport, NotCompliant}).Draw(rt, "verdict")
				f.Nodes[k].Connected = rapid.IntRange(0, 5).Draw(rt, "connected") > 0
				if had[f.Nodes[k].ID] && !f.Nodes[k].New {
					rt.Fatalf("node %d lost the new version", f.Nodes[k].ID)
				}
				had[f.Nodes[k].ID] = f.Nodes[k].New
			}
			copied := r
			copied.Steps, copied.Excused = slices.Clone(r.Steps), slices.Clone(r.Excused)
			next, changed := Advance(r, f)
			if again, _ := Advance(copied, f); fmt.Sprint(again) != fmt.Sprint(next) {
				rt.Fatalf("a copy becomes %+v, the roll-out %+v", again, next)
			}
			if steps := next.AllSteps(); len(next.Steps) > len(r.Steps)+1 || len(next.Steps) > 0 && next.Steps[len(next.Steps)-1].Step != steps[len(next.Steps)-1] {
				rt.Fatalf("steps %+v after %+v", next.Steps, r.Steps)
			}
			if !changed && fmt.Sprint(next) != fmt.Sprint(r) {
				rt.Fatalf("changed silently: %+v, %+v", r, next)
			}
			if r = next; !r.UnderWay() {
				return
			}
			if r.State == model.RolloutStopped {
				r.ExemptNodes(ProgressOf(&r, f).failed...)
				r.State = model.RolloutRunning
			}
		}
	})
}
