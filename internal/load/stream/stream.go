// Package stream is the file that holds a recorded stream: when which node sent a result of
// which check, with which status and how long an output. Nodes and checks are numbers in it, in
// the order in which they were heard first; it holds no names, no outputs and no labels.
// docs/stream-format.md is its bytes in words.
//
// Writer and Reader hold one block at a time. Start reading at Signal and Head, then
// format.go.
package stream

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Version is the first line of a file.
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
	Began   time.Time     // to the second
	Length  time.Duration // in ms: all signals lie within it
	Nodes   int
	States  int    // pairs of a node and a check
	Most    int    // checks of the node that has most of them
	Longest int    // output, bytes
	Bytes   uint64 // of all outputs
	Signals uint64
	Late    uint64 // of them
	Checks  []Check
}

// Check is one check of a recording.
type Check struct {
	Interval time.Duration // measured, in ms; zero: no node sent two results of it
	Nodes    int           // that sent results of it
	Signals  uint64
}

// Rate returns the results per second of the recording.
func (h *Head) Rate() float64 { return float64(h.Signals) / h.Length.Seconds() }
