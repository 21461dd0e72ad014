package model

import "time"

// RunAnswer is a piece of what came back of a run that somebody asked a node for.
type RunAnswer struct {
	Node     NodeID
	Output   []byte
	Done     bool // the last of this run; what follows has no meaning before
	Status   Status
	Duration time.Duration
	Cut      uint64 // bytes of output that were cut, on the agent or on the server
	Refused  string // why nothing was run
	Lost     string // why nobody will hear how it ended
}
