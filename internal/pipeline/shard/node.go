package shard

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Node is the state of a machine that all reducers share. Reducers read the exported
// fields and never write them.
type Node struct {
	ID        model.NodeID
	Namespace model.NamespaceID
	LastSeen  int64 // receive time of the last sign of life, Unix ns; zero: never
	Timeout   int64 // of its keepalive, ns; zero: it has none
	Warning   int64 // silence after which its keepalive warns, ns; zero: it does not

	BacklogUntil int64 // listening time until which deadlines wait for the backlog; zero: they do not

	session uint64
	backlog uint64       // signals of the backlog lane still to come
	streams []streamLast // oldest use first

	Keepalive KeepaliveState
	Stopped   bool // by a planned end: its deadlines wait until it comes back
	waits     bool // a deadline may wait for a sign of life: see Worker.Postpone
}

// KeepaliveState is the state of a node's keepalive.
type KeepaliveState uint8

const (
	KeepaliveNone     KeepaliveState = iota // none is supervised
	KeepaliveReceived                       // in time, or the node stopped by a planned end
	KeepaliveWarned                         // overdue by the warning time
	KeepaliveCritical                       // overdue by the time-out
	keepaliveStates
)

// patience is how long the node may be silent before its keepalive changes, ns.
func (n *Node) patience() int64 {
	if n.Warning > 0 {
		return n.Warning
	}
	return n.Timeout
}

func millis(ms uint32) int64 { return int64(ms) * int64(time.Millisecond) }
