package v1

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Agent is the agent of a node, with the data of its current or last session
type Agent struct {
	Namespace     string        `json:"namespace"`
	Name          string        `json:"name" doc:"Name of the node."`
	ID            model.NodeID  `json:"id"`
	Version       string        `json:"version,omitempty"`
	Connected     bool          `json:"connected" doc:"The agent has a session now."`
	Stopped       bool          `json:"stopped,omitempty" doc:"Somebody stopped the agent; its silence raises no alarm."`
	LastHeartbeat time.Time     `json:"lastHeartbeat,omitzero" doc:"Time of the last heartbeat; absent: never."`
	Trouble       []string      `json:"trouble,omitempty" doc:"Problems of the agent in words, worst first."`
	Session       *AgentSession `json:"session,omitempty" doc:"The open session."`
}

// AgentSession has the data of a connected agent's session, such as version and address.
type AgentSession struct {
	Version            string      `json:"version,omitempty"`
	Since              time.Time   `json:"since"`
	Address            string      `json:"address" doc:"Address of the connection's other end."`
	ClockOffsetMs      int64       `json:"clockOffsetMs" doc:"Difference of the machine's clock at the session's start; above zero: ahead of the server."`
	CertificateExpires time.Time   `json:"certificateExpires,omitzero" doc:"Expiry of the certificate of this session."`
	Refuses            []string    `json:"refuses,omitempty" doc:"Actions that the agent refuses from every server."`
	Assignment         uint64      `json:"assignment,omitempty" doc:"Revision of the assignment that the agent has or is getting."`
	Confirmed          bool        `json:"confirmed" doc:"The agent has confirmed that assignment."`
	IdleUnits          []IdleUnit  `json:"idleUnits,omitempty" doc:"Units of the assignment that the agent does not run."`
	Stats              *AgentStats `json:"stats,omitempty" doc:"Last statistics of the agent; the first arrive some seconds after the session's start."`
}

// IdleUnit is an assigned check or Template that does not run on the node, with the reason.
type IdleUnit struct {
	ID     model.UnitID `json:"id"`
	Name   string       `json:"name"`
	Reason string       `json:"reason"`
}

// AgentStats has the counters that an agent reports about itself once a minute. Counters start at zero when the agent
// starts.
type AgentStats struct {
	At             time.Time `json:"at"`
	UptimeSeconds  uint64    `json:"uptimeSeconds"`
	Spooled        uint64    `json:"spooled" doc:"Number of signals in the spool."`
	OldestSeconds  float64   `json:"oldestSeconds" doc:"Age of the oldest signal in the spool."`
	SpoolBytes     uint64    `json:"spoolBytes"`
	Runs           uint64    `json:"runs" doc:"Runs of checks."`
	Skipped        uint64    `json:"skipped" doc:"Runs skipped because the run before had not ended."`
	Late           uint64    `json:"late" doc:"Runs that waited for a free slot."`
	Forks          uint64    `json:"forks" doc:"Processes started."`
	ForksPerMinute float64   `json:"forksPerMinute" doc:"Processes per minute since the statistics before."`
	BytesSent      uint64    `json:"bytesSent" doc:"Bytes of frames, before TLS."`
	BytesPerDay    uint64    `json:"bytesPerDay,omitempty" doc:"Bytes per day, from the agent's uptime; absent in the first ten minutes."`
	GaveWay        uint64    `json:"gaveWay" doc:"Signals that the spool dropped."`
	Refused        uint64    `json:"refused" doc:"Signals that a server refused."`
	Lost           uint64    `json:"lost" doc:"Results that the spool could not store."`
	ResidentBytes  uint64    `json:"residentBytes,omitempty" doc:"Memory; absent: unknown."`
}

// AgentFilter selects agents in a list of agents, such as by version. Empty fields select everything.
type AgentFilter struct {
	Namespace    string `query:"namespace" maxLength:"253" doc:"Namespace of the nodes; empty: all."`
	Name         string `query:"name" maxLength:"253" doc:"Only the agent of the node with this name."`
	Selector     string `query:"selector" maxLength:"4096" doc:"Current labels of the node: env=prod,tier!=db. Rows of deleted nodes do not match."`
	Where        string `query:"where" maxLength:"4096" doc:"CEL over row, an element of items, and node.*: row.check == \"disk\" && node.labels.env == \"prod\""`
	Version      string `query:"version" maxLength:"253" doc:"Only agents of this version: 1.2 matches 1.2 and 1.2.x."`
	Spooling     bool   `query:"spooling" doc:"Only agents whose oldest result has waited for more than a minute."`
	Disconnected bool   `query:"disconnected" doc:"Only agents without the session that they should have."`
	Limit        int    `query:"limit" minimum:"1" maximum:"100000" default:"100"`
	After        string `query:"after" maxLength:"2048" doc:"The field next of the page before."`
}

// AgentList is a page of agents, oldest version first. Within a version, the agents with the worst problems come
// first.
type AgentList struct {
	Items        []Agent         `json:"items"`
	Next         string          `json:"next,omitempty" doc:"Value for after to get the next page; absent on the last page."`
	Total        int             `json:"total" doc:"Number of matching agents on all pages."`
	Disconnected int             `json:"disconnected" doc:"Number of those agents without the session that they should have."`
	Spooling     int             `json:"spooling" doc:"Number of those agents whose oldest result has waited for more than a minute."`
	Versions     []AgentVersions `json:"versions" doc:"Number of matching agents by version, oldest first."`
}

// AgentVersions has one agent version and the number of agents of that version.
type AgentVersions struct {
	Version string `json:"version" doc:"Empty: unknown."`
	Agents  int    `json:"agents"`
}

// Pending is a machine that waits for acceptance by a person.
type Pending struct {
	Key         string            `json:"key" doc:"SHA-256 of the public key, as the machine prints it."`
	Name        string            `json:"name" doc:"Name that the machine requests."`
	Address     string            `json:"address" doc:"Address of the machine."`
	MachineID   string            `json:"machineId,omitempty"`
	Since       time.Time         `json:"since"`
	LastRequest time.Time         `json:"lastRequest" doc:"Time of the last request."`
	Labels      map[string]string `json:"labels,omitempty"`
	Facts       map[string]string `json:"facts,omitempty"`
	Groups      []string          `json:"groups,omitempty" doc:"Groups that the machine requests."`
	Returns     *Returning        `json:"returns,omitempty" doc:"Former node of the machine, from a certificate of this server."`
}

// Returning identifies a pending machine as a former node, which the restoration of an older backup deleted.
// The restoration of an older backup loses newer nodes.
type Returning struct {
	UID       string    `json:"uid"`
	Namespace string    `json:"namespace" doc:"Namespace that the machine reports."`
	Certified time.Time `json:"certified" doc:"Issue time of the certificate."`
}

// PendingList is the list of all machines that wait to be accepted.
type PendingList struct {
	Items []Pending `json:"items"`
}

// PendingAccept is a request to accept one pending machine as a node.
type PendingAccept struct {
	Machine   string            `json:"machine" minLength:"1" maxLength:"253" doc:"Requested name, or at least 8 digits of the key."`
	Name      string            `json:"name,omitempty" maxLength:"240" doc:"Name of the node; default: the requested name."`
	Namespace string            `json:"namespace,omitempty" maxLength:"253"`
	Groups    []string          `json:"groups,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// PendingReturning is a request to accept all waiting former nodes.
type PendingReturning struct {
	Groups []string          `json:"groups,omitempty" doc:"Groups for all of them."`
	Labels map[string]string `json:"labels,omitempty"`
}

// AcceptedMachines is the result of accepting all waiting machines that were nodes before.
type AcceptedMachines struct {
	Items       []Member      `json:"items"`
	NotAccepted []NotAccepted `json:"notAccepted" doc:"Machines that still wait."`
}

// NotAccepted is a machine that could not be accepted as a node, with the reason
type NotAccepted struct {
	Name   string `json:"name"`
	Key    string `json:"key"`
	Reason string `json:"reason"`
	Hint   string `json:"hint,omitempty"`
}

// PendingRefuse is a request to refuse a waiting machine permanently.
type PendingRefuse struct {
	Machine string `json:"machine" minLength:"1" maxLength:"253"`
	Reason  string `json:"reason,omitempty" maxLength:"1000" doc:"Reason, which the machine gets too."`
}

// Member is the result for one pending machine, either accepted as a node or refused. A refused machine has no
// UID.
type Member struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	UID       string `json:"uid,omitempty"`
	Key       string `json:"key"`
}

// Authority is the server's CA, by which a new machine recognizes the server.
type Authority struct {
	Hash        string   `json:"hash" doc:"sha256: and 64 digits, for --ca-hash."`
	Certificate string   `json:"certificate" doc:"PEM, for --ca-file."`
	Addresses   []string `json:"addresses" doc:"Addresses of the server for agents."`
}

// NodeRename is a request to rename a node.
type NodeRename struct {
	ChangeOptions
	To string `json:"to" minLength:"1" maxLength:"253"`
}

// NodeReplace is a request for a join token with which another machine takes over a node.
type NodeReplace struct {
	ExpiresIn int64  `json:"expiresInSeconds,omitempty" minimum:"0" maximum:"315360000" doc:"0: never."`
	Message   string `json:"message,omitempty" maxLength:"1000" doc:"Reason, for the record and for the former machine."`
}

// NodeRetire is a request to retire several nodes in one transaction. Machines of the nodes that reconnect get
// the message.
type NodeRetire struct {
	ChangeOptions
	Nodes []NodeRef `json:"nodes" minItems:"1" maxItems:"10000"`
}

// NodeRef names a node by namespace and name.
type NodeRef struct {
	Namespace string `json:"namespace,omitempty" maxLength:"253" doc:"Default: default."`
	Name      string `json:"name" maxLength:"253"`
}

// Tombstone is the record of a machine that may not join again. The machine was refused, retired or replaced.
type Tombstone struct {
	ID        string    `json:"id" doc:"Permanent id of the node, or key: and the fingerprint of a machine's key."`
	Name      string    `json:"name"`
	Namespace string    `json:"namespace,omitempty"`
	Cause     string    `json:"cause" enum:"retired,replaced,refused,forgotten,deleted"`
	Reason    string    `json:"reason,omitempty"`
	By        string    `json:"by,omitempty"`
	At        time.Time `json:"at"`
	Until     time.Time `json:"until,omitzero" doc:"Absent: permanent."`
}

// TombstoneList is a page of tombstones, the newest first.
type TombstoneList struct {
	Items []Tombstone `json:"items"`
	All   int         `json:"all" doc:"Total number."`
}
