package v1

import "time"

// Trace is the chain of one check on one node from its declaration to its deliveries; without a
// check, the reasons for the node's groups and checks.
type Trace struct {
	Namespace string `json:"namespace"`
	Node      string `json:"node"`
	Check     string `json:"check,omitempty"`
	Links     []Link `json:"links"`
}

// Link is one step of the chain. The first link that does not hold is the reason why later ones did
// not happen.
type Link struct {
	Name  string    `json:"name,omitempty" enum:"wanted,declared,agent,assignment,property,schedule,result,late,limit,event,streamed,problem,told,group,checks,error" doc:"Empty in what is under another."`
	Holds bool      `json:"holds" doc:"It is so, and the chain goes on."`
	Text  string    `json:"text"`
	At    time.Time `json:"at,omitzero" doc:"When that was; none: it is so now."`
	Under []Link    `json:"under,omitempty" doc:"What it rests on."`
}
