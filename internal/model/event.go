package model

import (
	"fmt"
	"strconv"
	"time"
)

// HistoryDepth is the number of latest statuses that an event keeps.
const HistoryDepth = 21

// Event is the present state of one check on one node. It has more than 25 fields because it is one flat JSON object that
// people, scripts and message templates read by these names.
type Event struct {
	// Subject.
	Namespace string  `json:"namespace"`
	Node      string  `json:"node"`
	NodeID    NodeID  `json:"nodeId"`
	Check     string  `json:"check"`
	CheckID   CheckID `json:"checkId"`

	// Last result.
	Status   Status    `json:"status"`
	Severity Severity  `json:"severity"`
	Output   string    `json:"output"`
	Executed time.Time `json:"executed"` // received, less the result's age on arrival
	Received time.Time `json:"received"`
	Duration Duration  `json:"duration,omitempty"` // of the run

	// Judgement over time.
	History      []Status  `json:"history"`          // oldest first, at most HistoryDepth
	Occurrences  uint32    `json:"occurrences"`      // results in a row with this status
	Watermark    uint32    `json:"watermark"`        // the highest Occurrences since the present failure began, as in Sensu
	State        string    `json:"state"`            // passing, failing or flapping
	Change       uint32    `json:"totalStateChange"` // percent of changes in History, younger ones weigh more; 0 until it is full
	LastOK       time.Time `json:"lastOK,omitzero"`
	Changed      time.Time `json:"changed,omitzero"` // the latest change of Status
	StateChanges uint32    `json:"stateChanges"`     // changes of Status ever

	// Origin of the results.
	Results uint64       `json:"results"`           // applied ever
	Lost    uint64       `json:"lost,omitempty"`    // dropped by the agent's full spool
	Stream  StreamID     `json:"stream"`            // of the last result
	Number  uint64       `json:"number"`            // of the last result, within Stream
	Order   ResultDigest `json:"order,omitempty"`   // absent: not known
	RanBy   string       `json:"ranBy,omitempty"`   // of a proxy node: the node that ran it, NAME or NAMESPACE/NAME
	Expired bool         `json:"expired,omitempty"` // a missed deadline set the status, and no result

	Problem *Problem     `json:"problem,omitempty"` // the open one
	Hooks   []HookResult `json:"hooks,omitempty"`   // of the last result; in answers about one event only
	Values  []Value      `json:"values,omitempty"`  // likewise
}

// StreamID identifies a stream of results. Text and JSON have 16 hexadecimal digits: many JSON readers round
// numbers of 64 bits.
type StreamID uint64

func (s StreamID) String() string { return fmt.Sprintf("%016x", uint64(s)) }

// MarshalText writes the 16 digits.
func (s StreamID) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the 16 digits.
func (s *StreamID) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	if err != nil {
		return Errorf(Invalid, "stream %q is not a hexadecimal number of 64 bits", text)
	}
	*s = StreamID(n)
	return nil
}

// Problem is an event that failed failAfter times in a row, until recoverAfter results in a row are OK. Its id is
// the deduplication key everywhere.
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

// Ack records that a person takes care of a problem. It ends with the problem.
type Ack struct {
	By    string    `json:"by"`
	Note  string    `json:"note,omitempty"`
	At    time.Time `json:"at"`
	Until time.Time `json:"until,omitzero"` // zero: until the problem ends
}

// Active reports whether the acknowledgement is in force.
func (a *Ack) Active(now time.Time) bool {
	return a != nil && (a.Until.IsZero() || now.Before(a.Until))
}

// MaxProblemOutputs bounds the changed outputs that history keeps of one open problem.
const MaxProblemOutputs = 20
