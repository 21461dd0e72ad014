package model

import "time"

// HistoryDepth is how many statuses an event remembers.
const HistoryDepth = 21

// Event is the present state of one check on one node, as people see it.
type Event struct {
	Namespace    string    `json:"namespace"`
	Node         string    `json:"node"`
	NodeID       NodeID    `json:"nodeId"`
	Check        string    `json:"check"`
	CheckID      CheckID   `json:"checkId"`
	Status       Status    `json:"status"`
	Severity     Severity  `json:"severity"`
	Output       string    `json:"output"`
	Executed     time.Time `json:"executed"` // receive time less the result's age
	Received     time.Time `json:"received"`
	Duration     Duration  `json:"duration,omitempty"` // of the run
	History      []Status  `json:"history"`            // oldest first, at most HistoryDepth
	Occurrences  uint32    `json:"occurrences"`        // results in a row with this status
	LastOK       time.Time `json:"lastOK,omitzero"`
	Changed      time.Time `json:"changed,omitzero"`  // when the status last changed
	StateChanges uint32    `json:"stateChanges"`      // status changes ever
	Results      uint64    `json:"results"`           // results applied ever
	Lost         uint64    `json:"lost,omitempty"`    // results the agent's spool gave up
	Stream       uint64    `json:"stream"`            // where the last result came from …
	Number       uint64    `json:"number"`            // … and its number there
	Expired      bool      `json:"expired,omitempty"` // the status is the deadline's, not a result's
	Problem      *Problem  `json:"problem,omitempty"` // the open one
}

// Problem opens after failAfter results that are not OK and closes after
// recoverAfter that are. Its id is the deduplication key everywhere.
type Problem struct {
	ID       string    `json:"id"` // derived from journal position, node and check: the same after any replay
	NodeID   NodeID    `json:"nodeId"`
	CheckID  CheckID   `json:"checkId"`
	Chunk    ChunkID   `json:"chunk"`
	Status   Status    `json:"status"` // worst so far
	Severity Severity  `json:"severity"`
	Opened   time.Time `json:"opened"`
	Closed   time.Time `json:"closed,omitzero"`
	Output   string    `json:"output"` // at opening
}
