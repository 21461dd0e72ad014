// Package stream is the file that holds a recorded stream: when which node sent a result of which check, with which status and
// how long an output. Nodes and checks are numbers in it, in the order of their first results; it holds no names, no
// outputs and no labels. docs/stream-format.md is its content in words.
//
// No goroutines, no locks. Start reading at Signal and Head, then file.go.
package stream

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Version is that of the format, in each head.
const Version = "muster.stream/1"

// MaxLength is the longest recording: times are milliseconds in four bytes.
const MaxLength = (1<<32 - 1) * time.Millisecond

// Signal is one result.
type Signal struct {
	At     uint32 // ms since the beginning: when it ran or, of a late one, when it came in
	Node   uint32
	Check  uint32
	Output uint32 // bytes
	Status model.Status
	Late   bool // it came in long after it ran
}

// Head describes the recording in a file.
type Head struct {
	Version string        `json:"version"`
	Began   time.Time     `json:"began"`  // to the second
	Length  time.Duration `json:"length"` // ns, whole ms: all signals lie within it
	Nodes   int           `json:"nodes"`
	States  int           `json:"states"`  // pairs of a node and a check
	Most    int           `json:"most"`    // checks of the node that has most of them
	Longest int           `json:"longest"` // output, bytes
	Bytes   uint64        `json:"bytes"`   // of all outputs
	Signals uint64        `json:"signals"`
	Late    uint64        `json:"late"` // of them
	Checks  []Check       `json:"checks"`
}

// Check is one check of a recording.
type Check struct {
	Interval time.Duration `json:"interval"` // ns, measured; zero: no node sent two results of it
	Nodes    int           `json:"nodes"`    // that sent results of it
	Signals  uint64        `json:"signals"`
}

// Rate returns the results per second of the recording.
func (h *Head) Rate() float64 { return float64(h.Signals) / h.Length.Seconds() }
