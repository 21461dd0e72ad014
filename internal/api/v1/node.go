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

// AgentList is a page of agents: the oldest version first, and within a version the worst trouble first.
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

// Pending is a machine that waits to be accepted: it asked to join without a token, or was a node
// that the server does not know any more.
type Pending struct {
	Key       string            `json:"key" doc:"SHA-256 of its public key: what the machine shows, too."`
	Name      string            `json:"name" doc:"The name it wants."`
	Whence    string            `json:"whence" doc:"The address that it asked from."`
	MachineID string            `json:"machineId,omitempty"`
	Since     time.Time         `json:"since"`
	Asked     time.Time         `json:"asked" doc:"When it asked last."`
	Labels    map[string]string `json:"labels,omitempty"`
	Facts     map[string]string `json:"facts,omitempty"`
	Groups    []string          `json:"groups,omitempty" doc:"That it wants to be in."`
	Returns   *Returning        `json:"returns,omitempty" doc:"The node that it was, by a certificate of this server."`
}

// Returning is a former node that the server's data, an older copy, does not have.
type Returning struct {
	UID       string    `json:"uid"`
	Namespace string    `json:"namespace" doc:"As the machine says."`
	Certified time.Time `json:"certified" doc:"When its certificate was made."`
}

// PendingList is all machines that wait.
type PendingList struct {
	Items []Pending `json:"items"`
}

// PendingAccept accepts a machine.
type PendingAccept struct {
	Which     string            `json:"which" minLength:"1" maxLength:"253" doc:"The name it wants, or at least 8 digits of its key."`
	Name      string            `json:"name,omitempty" maxLength:"240" doc:"Of the node; default: what it wants."`
	Namespace string            `json:"namespace,omitempty" maxLength:"253"`
	Groups    []string          `json:"groups,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// PendingReturning accepts all former nodes.
type PendingReturning struct {
	Groups []string          `json:"groups,omitempty" doc:"For all of them."`
	Labels map[string]string `json:"labels,omitempty"`
}

// Returned is the outcome of accepting former nodes.
type Returned struct {
	Items []Member      `json:"items"`
	Left  []NotAccepted `json:"left" doc:"Those that still wait."`
}

// NotAccepted is a machine that was not accepted.
type NotAccepted struct {
	Name string `json:"name"`
	Key  string `json:"key"`
	Why  string `json:"why"`
	Hint string `json:"hint,omitempty"`
}

// PendingRefuse refuses a machine for good.
type PendingRefuse struct {
	Which  string `json:"which" minLength:"1" maxLength:"253"`
	Reason string `json:"reason,omitempty" maxLength:"1000" doc:"What the machine is told."`
}

// Member is an accepted or refused machine. A refused one has no UID.
type Member struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	UID       string `json:"uid,omitempty"`
	Key       string `json:"key"`
}

// Authority is the server's CA, by which a machine recognizes the server before it joins.
type Authority struct {
	Hash        string   `json:"hash" doc:"sha256: and 64 digits, for --ca-hash."`
	Certificate string   `json:"certificate" doc:"PEM, for --ca-file."`
	Addresses   []string `json:"addresses" doc:"Where agents find the server."`
}

// NodeRename gives a node another name.
type NodeRename struct {
	To          string `json:"to" minLength:"1" maxLength:"253"`
	DryRun      bool   `json:"dryRun,omitempty" doc:"Say what would happen and change nothing."`
	Message     string `json:"message,omitempty" maxLength:"1000" doc:"Why; recorded with the change."`
	MaxAffected int    `json:"maxAffected,omitempty" minimum:"0" doc:"Refuse a change that lands on more nodes; 0: a fifth of all, at least 50."`
	Yes         bool   `json:"yes,omitempty" doc:"Go ahead however many nodes are affected."`
}

// NodeReplace asks for a token by which another machine takes the place of a node's.
type NodeReplace struct {
	ExpiresIn int64  `json:"expiresInSeconds,omitempty" minimum:"0" maximum:"315360000" doc:"0: never."`
	Message   string `json:"message,omitempty" maxLength:"1000" doc:"Why; the machine before is told."`
}

// NodeRetire takes nodes out of service, all or none.
type NodeRetire struct {
	Nodes       []NodeRef `json:"nodes" minItems:"1" maxItems:"10000"`
	DryRun      bool      `json:"dryRun,omitempty" doc:"Say what would happen and change nothing."`
	Message     string    `json:"message,omitempty" maxLength:"1000" doc:"Why; recorded with the change, and told to the machines should they come back."`
	MaxAffected int       `json:"maxAffected,omitempty" minimum:"0" doc:"Refuse a change that lands on more nodes; 0: a fifth of all, at least 50."`
	Yes         bool      `json:"yes,omitempty" doc:"Go ahead however many nodes are affected."`
}

// NodeRef names a node.
type NodeRef struct {
	Namespace string `json:"namespace,omitempty" maxLength:"253" doc:"Default: default."`
	Name      string `json:"name" maxLength:"253"`
}

// Tombstone is the record of a machine that is no node any more.
type Tombstone struct {
	ID        string    `json:"id" doc:"The immutable id of the node, or key: and the fingerprint of a machine's key."`
	Name      string    `json:"name"`
	Namespace string    `json:"namespace,omitempty"`
	Why       string    `json:"why" enum:"retired,replaced,refused,forgotten,deleted"`
	Reason    string    `json:"reason,omitempty"`
	By        string    `json:"by,omitempty"`
	At        time.Time `json:"at"`
	Until     time.Time `json:"until,omitzero" doc:"None: for good."`
}

// TombstoneList is a page of tombstones, the newest first.
type TombstoneList struct {
	Items []Tombstone `json:"items"`
	All   int         `json:"all" doc:"How many there are."`
}
