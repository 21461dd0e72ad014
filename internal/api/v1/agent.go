package v1

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Agent is the agent of a node, with the data of its session or the last known ones.
type Agent struct {
	Namespace string        `json:"namespace"`
	Name      string        `json:"name" doc:"Of the node."`
	ID        model.NodeID  `json:"id"`
	Version   string        `json:"version,omitempty"`
	Connected bool          `json:"connected" doc:"It has a session now."`
	Stopped   bool          `json:"stopped,omitempty" doc:"It was stopped on purpose: nothing is expected of it."`
	Heard     time.Time     `json:"heard,omitzero" doc:"Last sign of life; none: never."`
	Trouble   []string      `json:"trouble,omitempty" doc:"What is not as it should be, worst first, in words."`
	Session   *AgentSession `json:"session,omitempty" doc:"Where it is connected."`
}

// AgentSession is the data that the session of a connected agent has.
type AgentSession struct {
	Version            string      `json:"version,omitempty"`
	Since              time.Time   `json:"since"`
	Address            string      `json:"address" doc:"Where it connects from."`
	ClockOffsetMs      int64       `json:"clockOffsetMs" doc:"Of its machine's clock when the session began; more than zero: it is ahead of the server's."`
	CertificateExpires time.Time   `json:"certificateExpires,omitzero" doc:"That of this session."`
	Refuses            []string    `json:"refuses,omitempty" doc:"What it does not do, whatever a server says."`
	Assignment         uint64      `json:"assignment,omitempty" doc:"Revision of the assignment that it holds, or was sent."`
	Confirmed          bool        `json:"confirmed" doc:"It has said that it holds that assignment."`
	IdleUnits          []IdleUnit  `json:"idleUnits,omitempty" doc:"Units of its assignment that it does not have in force."`
	Stats              *AgentStats `json:"stats,omitempty" doc:"What it told of itself last; the first time some seconds after the session began."`
}

// IdleUnit is a unit in the assignment of a node that is not in force there.
type IdleUnit struct {
	ID     model.UnitID `json:"id"`
	Name   string       `json:"name"`
	Reason string       `json:"reason"`
}

// AgentStats is an agent's report about itself, about once a minute. Counts run since its start.
type AgentStats struct {
	At             time.Time `json:"at"`
	UptimeSeconds  uint64    `json:"uptimeSeconds"`
	Spooled        uint64    `json:"spooled" doc:"Signals that wait."`
	OldestSeconds  float64   `json:"oldestSeconds" doc:"Age of the oldest of them."`
	SpoolBytes     uint64    `json:"spoolBytes"`
	Runs           uint64    `json:"runs" doc:"Of checks."`
	Skipped        uint64    `json:"skipped" doc:"Runs left out: the one before still ran."`
	Late           uint64    `json:"late" doc:"Runs that had to wait for their turn."`
	Forks          uint64    `json:"forks" doc:"Processes started."`
	ForksPerMinute float64   `json:"forksPerMinute" doc:"Since it told the time before."`
	BytesSent      uint64    `json:"bytesSent" doc:"Frames, before TLS."`
	BytesPerDay    uint64    `json:"bytesPerDay,omitempty" doc:"The same for a day, by its uptime; none in the first ten minutes."`
	GaveWay        uint64    `json:"gaveWay" doc:"Signals that the spool gave up."`
	Refused        uint64    `json:"refused" doc:"Signals that a server refused."`
	Lost           uint64    `json:"lost" doc:"Results that the spool did not take."`
	ResidentBytes  uint64    `json:"residentBytes,omitempty" doc:"Memory; none: not known."`
}

// AgentFilter selects agents; empty fields select everything.
type AgentFilter struct {
	Namespace    string
	Name         string // of the node
	Selector     string
	Where        string // over row and node
	Version      string // 1.2 is 1.2 and 1.2.x
	Spooling     bool
	Disconnected bool
	Limit        int
	After        string
}

// AgentList is a page of agents: the oldest version first, and within a version the worst trouble
// first.
type AgentList struct {
	Items        []Agent         `json:"items"`
	Next         string          `json:"next,omitempty" doc:"Pass it as after to get the next page."`
	Total        int             `json:"total" doc:"Agents that match, on all pages."`
	Disconnected int             `json:"disconnected" doc:"Those of them that should have a session and do not."`
	Spooling     int             `json:"spooling" doc:"Those of them that have results waiting for longer than a minute."`
	Versions     []AgentVersions `json:"versions" doc:"How many of which version match, oldest first."`
}

// AgentVersions counts the agents of a version.
type AgentVersions struct {
	Version string `json:"version" doc:"Empty: not known."`
	Agents  int    `json:"agents"`
}
