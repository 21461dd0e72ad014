package v1

import "time"

// Rollout is the progress of a changed policy directive, step by step, on its nodes.
type Rollout struct {
	Namespace string    `json:"namespace"`
	Directive string    `json:"directive"`
	State     string    `json:"state" enum:"requested,running,paused,stopped,done,undone"`
	Reason    string    `json:"reason,omitempty"`   // why it has its state
	By        string    `json:"by"`                 // author of the change
	Approver  string    `json:"approver,omitempty"` // person that approved it
	StartedAt time.Time `json:"startedAt"`
	Base      int64     `json:"base" doc:"Revision of the declared resources before the change."`

	Steps      []RolloutStep    `json:"steps"`
	Wait       string           `json:"wait" doc:"Least time from one step to the next."`
	MaxFailed  string           `json:"maxFailed" doc:"Share of the nodes with the new version that may fail."`
	Nodes      int              `json:"nodes"`      // of the directive
	New        int              `json:"new"`        // have the new version
	Reported   int              `json:"reported"`   // of these
	Unreported int              `json:"unreported"` // have not reported the new version
	Excused    int              `json:"excused" doc:"Nodes with the new version that were not compliant, or not connected, before their step."`
	Failed     int              `json:"failed"`
	Failures   []RolloutFailure `json:"failures,omitempty" doc:"The first nodes that failed."`

	First       []string `json:"first,omitempty" doc:"The first nodes of the directive, by name; in the answer about one roll-out."`
	Differences []string `json:"differences,omitempty" doc:"Fields of the new version that differ from the version before, with both values; in the answer about one roll-out that is not over, for callers that may change the directive."`
}

// RolloutStep is one step of a roll-out, a share of nodes that gets the new directive version.
type RolloutStep struct {
	Step      string    `json:"step" doc:"A share of the nodes such as 10%, or the name of a group."`
	StartedAt time.Time `json:"startedAt,omitzero" doc:"Absent: the step has not begun."`
	Nodes     int       `json:"nodes,omitempty" doc:"Nodes that have the new version from then on."`
}

// RolloutFailure is a node on which the new version of a policy directive failed during the roll-out.
type RolloutFailure struct {
	Node   string `json:"node"`
	Reason string `json:"reason"`
}

// RolloutList is a list of roll-outs
type RolloutList struct {
	Items []Rollout `json:"items"`
}

// RolloutAction is the request body of a person's action on a roll-out, such as pause.
type RolloutAction struct {
	Message string `json:"message,omitempty" maxLength:"1000" doc:"Reason, for the audit."`
	To      int64  `json:"to,omitempty" minimum:"0" doc:"Of undo: the revision to go back to, in place of the one before the roll-out."`
}

// ReviewRequest is a change that waits for the approval of another person. It is a change of policies on nodes with
// review, or a requested roll-out.
type ReviewRequest struct {
	ID        string           `json:"id,omitempty" doc:"Id of the request; absent: the change is a requested roll-out."`
	By        string           `json:"by"`
	Message   string           `json:"message,omitempty"`
	At        time.Time        `json:"at"`
	Until     time.Time        `json:"until,omitzero" doc:"The time when the request ends; absent: it never ends."`
	Command   string           `json:"command" doc:"Another person types this command to carry the change out."`
	NodeCount int              `json:"nodeCount"`
	Nodes     []string         `json:"nodes,omitempty" doc:"The first nodes with review whose policies or review change."`
	Count     int              `json:"count" doc:"Number of resources that change."`
	Changes   []ReviewedChange `json:"changes" doc:"The first resources that change."`
}

// ReviewedChange is the change of one resource within a change request that awaits approval.
type ReviewedChange struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Op        string `json:"op" enum:"created,updated,renamed,deleted,retired"`
	Diff      string `json:"diff,omitempty" doc:"Difference of the resource, without secrets. Only in the answer about one request."`
}

// ReviewRequestList is a list of changes that wait for approval.
type ReviewRequestList struct {
	Items []ReviewRequest `json:"items"`
}
