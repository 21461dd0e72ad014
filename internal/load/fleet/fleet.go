package fleet

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Fleet is the shape of an installation.
type Fleet struct {
	At      time.Time // when reading ended
	Version string    // of the server

	Nodes  []Node
	Checks map[model.CheckID]Check
	States []State

	Never, Gone int // nodes that were left out: they never had an agent, or no sign of life for a day
	Unknown     int // event states of deleted checks, left out
}

// Node is one machine.
type Node struct {
	Name     string         // namespace/name
	Interval model.Duration // of its keepalive …
	Timeout  model.Duration
	Left     bool // not played: no sign of life for a day
	TLS      bool // with a certificate of its own; assumed of a node without a session
}

// Check is one declared check.
type Check struct {
	Name     string         // namespace/name
	Interval model.Duration // between two runs; of a cron expression: the mean
	TTL      model.Duration
}

// State is one check on one node.
type State struct {
	Node    int32 // in Nodes
	Check   model.CheckID
	Status  model.Status
	Bytes   int32  // length of the present output
	Flaps   bool   // at least every second result of its history changed the status
	Changes uint32 // of the status, so far
	Results uint64 // so far
}
