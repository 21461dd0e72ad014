package model

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// RolloutSpec declares how a change of a directive reaches the nodes, in steps. Each step waits for the reports of the
// nodes before it.
type RolloutSpec struct {
	// The steps, in their order: shares of the nodes that have the new version then, such as 10%, or names of groups whose
	// nodes get it. The last step is always 100%.
	Steps []string `json:"steps"`
	// The least time from one step to the next; default 10m. A connected node that has not reported the new version after
	// this time and the directive's timeout has failed.
	Wait Duration `json:"wait,omitempty"`
	// The share of the nodes with the new version that may fail, default 5%. A larger one stops the roll-out. Nodes that
	// were not compliant, or not connected, before their step do not count.
	MaxFailed string `json:"maxFailed,omitempty"`
	// No node gets the new version before another person than its author approves: muster rollout approve.
	Approve bool `json:"approve,omitempty"`
}

// Defaults of a RolloutSpec.
const (
	DefaultRolloutWait      = Duration(10 * time.Minute)
	DefaultRolloutMaxFailed = "5%"
)

// ParseShare converts a percentage such as 10% or 0.5% to a number from 0 to 1. ok is false for any other text.
func ParseShare(text string) (share float64, ok bool) {
	number, percent := strings.CutSuffix(text, "%")
	value, err := strconv.ParseFloat(number, 64)
	if !percent || err != nil || !(value >= 0 && value <= 100) {
		return 0, false
	}
	return value / 100, true
}

// RolloutState is the state of a roll-out.
type RolloutState string

// States of a roll-out. Nodes move only in RolloutRunning.
const (
	RolloutNone      RolloutState = ""          // no change came since the directive has a roll-out
	RolloutRequested RolloutState = "requested" // awaits the approval of another person
	RolloutRunning   RolloutState = "running"
	RolloutPaused    RolloutState = "paused"  // by a person; failures still stop it
	RolloutStopped   RolloutState = "stopped" // by failures or by a person
	RolloutDone      RolloutState = "done"    // all nodes have the new version
	RolloutUndone    RolloutState = "undone"  // the declaration went back
)

// Rollout is the stored progress of the gradual change (roll-out) of a directive. Accepted is the version that
// all nodes had before, Candidate the one that they get; they are equal while no change is under way. Both are
// names of stored definitions.
type Rollout struct {
	Unit      UnitID       `json:"unit"`
	Accepted  string       `json:"accepted"`
	Candidate string       `json:"candidate"`
	Previous  string       `json:"previous,omitempty"` // accepted before the last finished roll-out
	State     RolloutState `json:"state,omitempty"`
	Reason    string       `json:"reason,omitempty"` // why the roll-out has its state
	Failed    bool         `json:"failed,omitempty"` // nodes stopped it, not a person
	Spec      RolloutSpec  `json:"spec"`             // as declared when the change came

	By        string    `json:"by,omitempty"`      // author of the last change
	Authors   []string  `json:"authors,omitempty"` // of all changes since Base, and the makers of their tokens
	Approver  string    `json:"approver,omitempty"`
	Base      int64     `json:"base,omitempty"` // revision of the declared resources before the change
	StartedAt time.Time `json:"startedAt,omitzero"`

	Steps   []RolloutStep `json:"steps,omitempty"`   // begun steps
	Bound   uint64        `json:"bound,omitempty"`   // nodes whose RolloutOrder is below it have the candidate
	Excused []NodeID      `json:"excused,omitempty"` // nodes that failed or were away before their step, ascending
}

// RolloutStep is one step that a roll-out has begun, with its time.
type RolloutStep struct {
	Step      string    `json:"step"` // a share such as 10%, or a group
	StartedAt time.Time `json:"startedAt"`
	Nodes     int       `json:"nodes"` // nodes that have the new version from then on
}

// UnderWay reports whether a roll-out is running, so that nodes may have different versions.
func (r *Rollout) UnderWay() bool { return r.Accepted != r.Candidate }

// ResponsiblePeople returns the authors of the rolled-out change, and the creators of the tokens that authors
// used.
func (r *Rollout) ResponsiblePeople() []string {
	if len(r.Authors) == 0 { // an older version stored it
		return []string{r.By}
	}
	return r.Authors
}

// AllSteps returns the roll-out's declared steps, with 100% of the nodes added as the last step.
func (r *Rollout) AllSteps() []string {
	if n := len(r.Spec.Steps); n > 0 && r.Spec.Steps[n-1] == "100%" {
		return r.Spec.Steps
	}
	return append(slices.Clip(slices.Clone(r.Spec.Steps)), "100%")
}

// Groups returns the names of the groups that the steps of the roll-out have reached.
func (r *Rollout) Groups() (names []string) {
	for i := range r.Steps {
		if _, share := ParseShare(r.Steps[i].Step); !share {
			names = append(names, r.Steps[i].Step)
		}
	}
	return names
}

// LastStepTime returns when the roll-out last gave nodes the new version. It is zero if no node has got it.
func (r *Rollout) LastStepTime() time.Time {
	if n := len(r.Steps); n > 0 {
		return r.Steps[n-1].StartedAt
	}
	return time.Time{}
}

// ExemptNodes adds nodes whose failures do not stop the roll-out.
func (r *Rollout) ExemptNodes(nodes ...NodeID) {
	r.Excused = append(slices.Clone(r.Excused), nodes...)
	slices.Sort(r.Excused)
	r.Excused = slices.Compact(r.Excused)
}

// RolloutOrder returns a node's sort number, which decides how early a roll-out reaches the node. It depends on
// nothing but the node's id, so that the order never changes, and spreads nodes evenly (the finalizer of
// splitmix64).
func RolloutOrder(id NodeID) uint64 {
	x := uint64(id) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return (x ^ x>>31) >> 1 // below every bound that says all
}

// AllNodes is the bound above the RolloutOrder of every node.
const AllNodes = ^uint64(0)
