package rollout

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Outcome is the outcome of a node's last run of a directive. It is compliant, not compliant, or none yet.
type Outcome uint8

const (
	NoReport     Outcome = iota // no report of this version has arrived
	Compliant                   // as declared, or repaired
	NotCompliant                // at least one component is not as declared, or nobody knows
)

// Node is a node in a roll-out, with its directive version and the outcome of the last run.
type Node struct {
	ID        model.NodeID
	Name      string
	New       bool // it has the candidate
	Connected bool
	Verdict   Outcome
	Reason    string // of NotCompliant: the component and its message
}

// Fleet has the nodes that a roll-out concerns, with the state of each node at one moment.
type Fleet struct {
	Nodes   []Node
	InGroup func(group string, node model.NodeID) bool
	Timeout time.Duration // longest run of the candidate
	Now     time.Time
	// Listening is the time from which a silent node can fail: after a start of the server, agents first have time to
	// connect again.
	Listening time.Time
}

// Failure is a node that failed in a roll-out, with the reason.
type Failure struct{ Node, Reason string }

// Progress counts the nodes of a roll-out by version and outcome. It has the numbers of nodes with the new version, of
// reports and of failures.
type Progress struct {
	Nodes      int // of the unit
	New        int // have the candidate
	Reported   int // of these
	Excused    int // of these: were not compliant or not connected before their step
	Unreported int // of these: have not reported yet, and are not excused
	Failed     []Failure
	failed     []model.NodeID
}

// ProgressOf counts the nodes in a roll-out by their version and the outcome of their last run. Its failures are in
// the order of the nodes.
func ProgressOf(r *model.Rollout, f *Fleet) (p Progress) {
	silent := laterTime(r.LastStepTime(), f.Listening).Add(waitOf(r) + f.Timeout)
	p.Nodes = len(f.Nodes)
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if !n.New {
			continue
		}
		p.New++
		if n.Verdict != NoReport {
			p.Reported++
		}
		_, excused := slices.BinarySearch(r.Excused, n.ID)
		switch {
		case excused:
			p.Excused++
		case n.Verdict == NotCompliant:
			p.fail(n, n.Reason)
		case n.Verdict == NoReport && f.Now.After(silent):
			p.fail(n, "no report of the new version since "+r.LastStepTime().UTC().Format("15:04:05 MST"))
		case n.Verdict == NoReport:
			p.Unreported++
		}
	}
	return p
}

// fail adds a node to the failed nodes of the roll-out, with the reason.
func (p *Progress) fail(n *Node, reason string) {
	p.failed = append(p.failed, n.ID)
	p.Failed = append(p.Failed, Failure{n.Name, reason})
}

// laterTime returns the later of two times.
func laterTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// waitOf returns the minimum time between two steps of a roll-out.
func waitOf(r *model.Rollout) time.Duration {
	return time.Duration(cmp.Or(r.Spec.Wait, model.DefaultRolloutWait))
}

// Advance decides the next state of a gradual roll-out, from the states of its nodes. The roll-out stops, begins its
// next step, ends, or stays unchanged. changed is false if it only waits. Of one list of nodes it makes one result, so
// that a restart goes on where the last stored result is.
func Advance(r model.Rollout, f *Fleet) (next model.Rollout, changed bool) {
	if r.State != model.RolloutRunning && r.State != model.RolloutPaused {
		return r, false
	}
	p := ProgressOf(&r, f)
	most := cmp.Or(r.Spec.MaxFailed, model.DefaultRolloutMaxFailed)
	share, _ := model.ParseShare(most)
	if float64(len(p.Failed)) > share*float64(p.New) {
		r.State, r.Failed = model.RolloutStopped, true
		r.Reason = fmt.Sprintf("%d of %s with the new version failed, more than %s: %s", len(p.Failed), model.CountNoun(p.New, "node"), most, failuresText(p.Failed))
		return r, true
	}
	steps := r.AllSteps()
	switch {
	case r.State == model.RolloutPaused:
		return r, false
	case len(r.Steps) == len(steps) && share >= 1:
		// All nodes have the new version, and no failure stops it.
	case len(r.Steps) > 0 && p.New > 0 && (p.Unreported > 0 || p.Reported == 0 || f.Now.Before(r.LastStepTime().Add(waitOf(&r)))):
		return r, false
	case len(r.Steps) < len(steps):
		beginStep(&r, steps[len(r.Steps)], f)
		return r, true
	}
	r.Previous, r.Accepted, r.State = r.Accepted, r.Candidate, model.RolloutDone
	r.Reason = fmt.Sprintf("all %s have the new version", model.CountNoun(p.Nodes, "node"))
	return r, true
}

// failuresText formats the first failed nodes of a roll-out, with their reasons, for people.
func failuresText(list []Failure) string {
	const most = 3
	var parts []string
	for _, f := range list[:min(len(list), most)] {
		parts = append(parts, f.Node+": "+f.Reason)
	}
	text := strings.Join(parts, "; ")
	if more := len(list) - most; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// beginStep begins a step of a roll-out, and gives the new version to more nodes. Of these nodes it excuses those that
// already fail or are not connected.
func beginStep(r *model.Rollout, step string, f *Fleet) {
	share, isShare := model.ParseShare(step)
	order := slices.Clone(f.Nodes)
	slices.SortFunc(order, func(a, b Node) int { return cmp.Compare(model.RolloutOrder(a.ID), model.RolloutOrder(b.ID)) })
	if want := int(math.Ceil(share * float64(len(order)))); isShare && want > 0 {
		r.Bound = max(r.Bound, model.RolloutOrder(order[want-1].ID)+1)
	}
	if share == 1 {
		r.Bound = model.AllNodes
	}
	begun := model.RolloutStep{Step: step, StartedAt: f.Now.UTC()}
	groups := r.Groups()
	if !isShare {
		groups = append(groups, step)
	}
	for _, n := range order {
		if !n.New && model.RolloutOrder(n.ID) >= r.Bound && !slices.ContainsFunc(groups, func(g string) bool { return f.InGroup(g, n.ID) }) {
			continue
		}
		begun.Nodes++
		if !n.New && (!n.Connected || n.Verdict == NotCompliant) {
			r.ExemptNodes(n.ID)
		}
	}
	r.Steps = append(slices.Clip(r.Steps), begun)
	r.Reason = ""
}
