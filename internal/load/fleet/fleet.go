package fleet

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Fleet is what was read of an installation.
type Fleet struct {
	At      time.Time     // when reading ended
	Version string        // of the server
	Since   time.Time     // from then on the server knows of sessions: it started, and all had come back
	Day     time.Duration // how far back histories were read: a day, or as long as there are nodes

	Nodes  []Node
	Checks map[model.CheckID]Check
	States []State

	Never, Gone int     // nodes that were left out: never heard of, not heard of for a day
	Others      int     // nodes of other namespaces
	Unknown     int     // event states of checks that are not declared any more, left out
	Asked       int     // states whose history was asked for …
	PerChanged  float64 // … and how often a state that changed in that day did so, mean
}

// Node is one machine.
type Node struct {
	Name      string         // namespace/name
	Interval  model.Duration // of its keepalive …
	Timeout   model.Duration
	Left      bool // it is not played: never heard of, or not for a day
	Connected bool
	TLS       bool            // with a certificate of its own; a node without a session: so assumed
	Age       time.Duration   // of its session
	Booted    bool            // that session began with its agent
	Outages   []time.Duration // in the day: for how long nothing was heard; 0: it is not over
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
	Bytes   int32   // length of the present output
	Changed bool    // its status changed in the day
	Flaps   bool    // at least every second result is another status than the one before
	Results float64 // that it had in the day
}
