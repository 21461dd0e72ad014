package model

import "time"

// This file is the only definition of limits and defaults. Tests compare the comments of resource_specs.go, the tags of
// internal/config and the pages under docs/ with it. Bounds of the protocol are in internal/wire, of the journal in
// internal/journal.

// Defaults of the limits of a node or a namespace.
const (
	DefaultStatesPerNode = 1000
	DefaultLabels        = 64      // labels of one node
	DefaultNodeRate      = 1000    // results per second of one node
	DefaultNodeBytes     = 1 << 20 // bytes per second of one node
	DefaultUnackedBytes  = 1 << 20

	DefaultKeepalive        = 20 * time.Second
	DefaultKeepaliveTimeout = 120 * time.Second
	DefaultReconnectGrace   = 90 * time.Second
)

// MaxConnections returns how many connections a server may accept under its limit of open files. The result is at
// least one. Journal, stores, snapshots and handlers' commands need the rest.
func MaxConnections(files int) int { return max(files-min(max(files/8, 64), 1024), 1) }

// SourceLabel is the label of passive checks that were created for incoming results; its value names their origin.
// MaxPassives bounds the passive checks of a namespace.
const (
	SourceLabel  = "source"
	SourceAlerts = "alertmanager"
	SourceSensu  = "sensu-agent"

	MaxPassives = 1000
)

// DefaultTimeout returns the time-out of a check that declares none. Zero means no time-out, as in Sensu.
func (s *CheckSpec) DefaultTimeout() time.Duration {
	switch {
	case s.Sensu || s.Passive:
		return 0
	case s.Interval > 0:
		return min(DefaultTimeout, time.Duration(s.Interval))
	}
	return DefaultTimeout
}

// Defaults and bounds of a check.
const (
	DefaultTimeout     = 60 * time.Second // or the interval of the check, if that is shorter
	DefaultOutputBytes = 64 << 10
	MaxOutputBytes     = 1 << 20 // largest maxOutput of a check, and largest output that a server accepts
	MaxInterval        = 366 * 24 * time.Hour
)

// Lengths of words and lines, in bytes.
const (
	MaxName = 253 // of a resource's name
	MaxText = 255 // of a label, and of one line for people

	MaxProblemLabels      = 64   // labels of one problem
	MaxProblemDescription = 4096 // bytes of its description
)
