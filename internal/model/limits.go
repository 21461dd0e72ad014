package model

import "time"

// The numbers of this file stand nowhere else: who needs a limit or a default takes it
// from here, and tests hold the comments of resource.go, the tags of internal/config and
// the pages under docs/ to them. What bounds the protocol itself is in internal/wire, the
// journal in internal/journal.

// What a node or a namespace may send and hold, where neither a Namespace nor the
// server's configuration says otherwise.
const (
	DefaultStatesPerNode = 1000
	DefaultLabels        = 64   // of one node
	DefaultNodeRate      = 1000 // results per second of one node
	DefaultUnackedBytes  = 1 << 20

	DefaultKeepalive        = 20 * time.Second
	DefaultKeepaliveTimeout = 120 * time.Second
	DefaultReconnectGrace   = 90 * time.Second
)

// MaxConnections is how many agents and people a server lets in whose process may open so many
// files, at least one: the rest is for journal, stores, snapshots and handlers' commands.
func MaxConnections(files int) int {
	return max(files-min(max(files/8, 64), 1024), 1)
}

// Passive checks that are made when results of them come in have the label SourceLabel, whose
// value says where from, and a namespace has at most so many passive checks when one is made.
const (
	SourceLabel  = "source"
	SourceAlerts = "alertmanager"
	SourceSensu  = "sensu-agent"

	MaxPassives = 1000
)

// What a check is, where it does not say.
const (
	DefaultTimeout     = 60 * time.Second // or its interval, if that is shorter
	DefaultOutputBytes = 64 << 10
	MaxOutputBytes     = 1 << 20 // the most that it may say, and that a server takes
	MaxInterval        = 366 * 24 * time.Hour
)

// Lengths of words and lines, in bytes.
const (
	MaxName = 253 // of a resource's name
	MaxText = 255 // of a label, and of one line for people
)
