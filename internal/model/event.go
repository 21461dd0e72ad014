package model

import (
	"fmt"
	"strconv"
	"time"
)

// HistoryDepth is how many statuses an event remembers.
const HistoryDepth = 21

// Event is the present state of one check on one node, as people see it.
type Event struct {
	Namespace    string       `json:"namespace"`
	Node         string       `json:"node"`
	NodeID       NodeID       `json:"nodeId"`
	Check        string       `json:"check"`
	CheckID      CheckID      `json:"checkId"`
	Status       Status       `json:"status"`
	Severity     Severity     `json:"severity"`
	Output       string       `json:"output"`
	Executed     time.Time    `json:"executed"` // receive time less the result's age
	Received     time.Time    `json:"received"`
	Duration     Duration     `json:"duration,omitempty"` // of the run
	History      []Status     `json:"history"`            // oldest first, at most HistoryDepth
	Occurrences  uint32       `json:"occurrences"`        // results in a row with this status
	Watermark    uint32       `json:"watermark"`          // the most occurrences since it was last failing for the first time, as Sensu counts them
	State        string       `json:"state"`              // passing, failing or flapping
	Change       uint32       `json:"totalStateChange"`   // percent of change in History, younger ones count more; 0 while that is not full
	LastOK       time.Time    `json:"lastOK,omitzero"`
	Changed      time.Time    `json:"changed,omitzero"`  // when the status last changed
	StateChanges uint32       `json:"stateChanges"`      // status changes ever
	Results      uint64       `json:"results"`           // results applied ever
	Lost         uint64       `json:"lost,omitempty"`    // results the agent's spool gave up
	Stream       StreamID     `json:"stream"`            // where the last result came from …
	Number       uint64       `json:"number"`            // … and its number there
	Order        ResultDigest `json:"order,omitempty"`   // digest of the numbers of all results applied, in order; absent: not known
	RanBy        string       `json:"ranBy,omitempty"`   // the node that ran it, of a proxy node: NAME or NAMESPACE/NAME
	Expired      bool         `json:"expired,omitempty"` // the status is the deadline's, not a result's
	Problem      *Problem     `json:"problem,omitempty"` // the open one
	// What the last result carries beside its output; in answers about one event alone.
	Hooks  []HookResult `json:"hooks,omitempty"`
	Values []Value      `json:"values,omitempty"`
}

// StreamID names a stream of results. People and JSON see 16 hexadecimal digits: many
// readers of JSON do not keep a number of this size exact.
type StreamID uint64

func (s StreamID) String() string { return fmt.Sprintf("%016x", uint64(s)) }

// MarshalText writes the 16 digits.
func (s StreamID) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (s *StreamID) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	if err != nil {
		return Errorf(Invalid, "stream %q is not a hexadecimal number of 64 bits", text)
	}
	*s = StreamID(n)
	return nil
}

// Problem opens after failAfter results that are not OK and closes after
// recoverAfter that are. Its id is the deduplication key everywhere.
type Problem struct {
	ID          string    `json:"id"` // derived from journal position, node and source: the same after any replay
	NodeID      NodeID    `json:"nodeId"`
	Source      Source    `json:"-"`               // the API shows it with its name
	Chunk       ChunkID   `json:"chunk,omitempty"` // the check's definition that judged it; other sources have none
	Status      Status    `json:"status"`          // worst so far
	Severity    Severity  `json:"severity"`
	Opened      time.Time `json:"opened"`
	Closed      time.Time `json:"closed,omitzero"`
	Output      string    `json:"output"` // at opening
	Ack         *Ack      `json:"acknowledged,omitempty"`
	KeptOutputs int       `json:"-"` // that history kept of it while it was open
}

// Ack says that somebody looks after a problem. It ends with it.
type Ack struct {
	By    string    `json:"by"`
	Note  string    `json:"note,omitempty"`
	At    time.Time `json:"at"`
	Until time.Time `json:"until,omitzero"` // zero: until the problem ends
}

// Active says whether the acknowledgement is in force.
func (a *Ack) Active(now time.Time) bool {
	return a != nil && (a.Until.IsZero() || now.Before(a.Until))
}

// MaxProblemOutputs is how many changed outputs history keeps of one open problem.
const MaxProblemOutputs = 20
