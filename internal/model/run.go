package model

import "time"

// RunAnswer is a piece of a node's answer to an ordered run.
type RunAnswer struct {
	Node     NodeID
	Output   []byte
	Done     bool // the last piece; the fields below are set in it only
	Status   Status
	Duration time.Duration
	Cut      uint64 // bytes of output that were cut, on the agent or on the server
	Refused  string // why nothing ran
	Lost     string // why its end stays unknown
}
