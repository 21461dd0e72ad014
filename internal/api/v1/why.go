package v1

import "time"

// Why is the chain from what was declared to who was told, of one check on one node;
// or, without a check, what put the node where it is.
type Why struct {
	Namespace string `json:"namespace"`
	Node      string `json:"node"`
	Check     string `json:"check,omitempty"`
	Links     []Link `json:"links"`
}

// Link is one step of the chain. The first that does not hold is why what comes after
// it did not happen.
type Link struct {
	Name  string    `json:"name,omitempty" enum:"wanted,declared,agent,assignment,property,schedule,result,late,limit,event,streamed,problem,told,group,checks,error" doc:"Empty in what is under another."`
	Holds bool      `json:"holds" doc:"It is so, and the chain goes on."`
	Text  string    `json:"text"`
	At    time.Time `json:"at,omitzero" doc:"When that was; none: it is so now."`
	Under []Link    `json:"under,omitempty" doc:"What it rests on."`
}
