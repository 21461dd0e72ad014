package wire

import (
	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
)

// Subprotocol is the WebSocket subprotocol and the TLS ALPN name of agents.
const Subprotocol = "muster.v1"

// AssetProtocol is the TLS ALPN name of connections on which agents fetch archives. They use their certificate and
// HTTP/1.1, and GET AssetPath + SHA-512 in hexadecimal digits.
const AssetProtocol = "muster.assets.v1"

// AssetPath is the URL path of archives.
const AssetPath = "/agent/v1/assets/"

// Protocol is the version of the agent protocol in Hello and Welcome.
const Protocol = 1

// Limits of the agent protocol. A server may ask for less in Welcome.
const (
	MaxFrame   = 1 << 20 // bytes
	MaxSignals = 1000    // per Batch
)

// Kind is the kind of a message, which is its field number in the envelope Frame.
type Kind uint8

const (
	KindHello            Kind = 1
	KindWelcome          Kind = 2
	KindRefuse           Kind = 3
	KindAssignment       Kind = 4
	KindAssignmentStatus Kind = 5
	KindBatch            Kind = 6
	KindAck              Kind = 7
	KindRun              Kind = 8
	KindBackPressure     Kind = 9
	KindBye              Kind = 10
	KindFacts            Kind = 11
	KindStats            Kind = 12
	KindRunOutput        Kind = 13
	KindRoundRobinRuns   Kind = 14
	KindExchange         Kind = 15 // the last one: see Exchange
)

// Lane is the queue from which an agent sends a signal, either live or backlog. Results are signals. The live queue is
// sent first.
type Lane uint8

const (
	Live    Lane = 0
	Backlog Lane = 1
)

// StreamID is the random id of the sequence in which an agent numbers its results. Results are signals. The id is
// created together with the agent's spool. Signals are numbered per (node, stream, lane), from 1 without holes.
type StreamID uint64

// StreamKey identifies a sequence in which an agent numbers its signals. It has the stream and the lane (live or
// backlog).
type StreamKey struct {
	Stream StreamID
	Lane   Lane
}

// StreamRange says which numbered signals of a stream the agent still stores, from first to last. The agent
// stores unacknowledged signals in its spool.
type StreamRange struct {
	StreamKey
	First, Last uint64 // numbers; First > Last: nothing
	OldestAgeMs uint64
}

// StreamLast is the highest result number of a stream (numbered sequence) that the server has received.
type StreamLast struct {
	StreamKey
	Last uint64
}

// Hello is the agent's first message, which opens a session.
type Hello struct {
	Protocol     uint32
	Node         uuid.UUID
	Name         string // wanted
	MachineID    string
	BootID       string
	Session      uint64 // random, of this connection
	Version      string // of the agent
	OS, Arch     string
	Generation   Generation // of the assignment held; zero: none
	Assignment   [32]byte   // its hash
	Incarnation  uint64     // last seen
	Streams      []StreamRange
	Labels       map[string]string // from the agent's configuration
	Facts        map[string]string
	Groups       []string // self-declared
	ClockUnixMs  int64    // the agent's wall clock now
	Backlog      uint64   // signals spooled
	Restrictions []string // requests that the agent refuses: see docs/protocol
	Features     []string // of the agent: DefinitionFeature of each kind that it runs
}

// Values of Hello.Restrictions. They are settings of the agent that no server changes.
const (
	RestrictRuns     = "run"      // nothing runs on request
	RestrictCommands = "commands" // only programs of the agent's own list run
	RestrictChanges  = "changes"  // no commands on request
)

// Generation is the version number of an assignment. It has the journal's epoch, then the revision of the declared
// resources. An agent refuses a lower one than it holds.
type Generation struct {
	Epoch    uint64
	Revision uint64
}

// Less reports whether a version of an assignment is older than another version.
func (g Generation) Less(h Generation) bool {
	return g.Epoch < h.Epoch || g.Epoch == h.Epoch && g.Revision < h.Revision
}

// Welcome is the server's answer to Hello, which accepts the session.
type Welcome struct {
	Protocol      uint32
	Name          string       // given
	Node          model.NodeID // number given
	ServerUnixMs  int64
	Incarnation   uint64
	Last          []StreamLast // last numbers kept of the streams that Hello named
	KeepaliveMs   uint32
	MaxFrame      uint32
	MaxUnacked    uint32 // bytes in flight
	MaxOutput     uint32 // bytes of one result
	ResultsPerSec uint32 // zero: no limit
	Servers       []string
	VersionWanted string
	Inventory     uint64   // sum of the node's inventory on the server; zero: none
	Features      []string // of the server: FeatureSecrets, FeatureInventory
}

// Refuse is the server's last message in a session, with the reason. The server rejects or ends the session.
type Refuse struct {
	Code    string // one word: revoked, duplicate, limited, protocol, malformed, hole, …
	Message string // the cause, for people
	RetryMs uint32 // zero: do not retry by yourself
	Hint    string // the command that solves it
}

// Assignment is the message with all checks that an agent must run. It may instead have the changes to the assignment
// with the hash Base.
type Assignment struct {
	Generation     Generation
	Hash           [32]byte // of the assignment after this message; see AssignmentHash
	Base           [32]byte // zero: whole
	Add            []AssignedDefinition
	Remove         []model.DefinitionID
	Properties     []Property  // all of them, whenever any changed
	HasProperties  bool        // whether Properties is meaningful
	ProxyChecks    ProxyChecks // all of it, whenever any changed
	HasProxyChecks bool        // whether ProxyChecks is meaningful
	Signature      []byte      // Ed25519 over SignedBytes(node, generation, hash)
	More           bool        // a part; see Parts
}

// AssignedDefinition is an encoded check or Template in an assignment, with its id.
type AssignedDefinition struct {
	ID   model.DefinitionID
	Body []byte
}

// Property is a named value of a node that check commands can use, such as a threshold. It has a name and a
// JSON value. Error replaces the value where the chain has a conflict on this node.
type Property struct {
	Name  string
	Value []byte
	Error string
}

// AssignmentStatus tells the server which assignment the agent holds. It names refused definitions (compiled checks).
type AssignmentStatus struct {
	Generation Generation
	Hash       [32]byte
	Refused    []RefusedDefinition // part of the assignment, but not run
}

// RefusedDefinition names a compiled definition that the agent cannot run, with the reason.
type RefusedDefinition struct {
	Definition model.DefinitionID
	Reason     string // for people
}

// MaxRefused is the largest number of refused checks in one AssignmentStatus.
const MaxRefused = 1000

// Batch is a message with consecutively numbered results and other signals of an agent. They are numbered First,
// First+1, ….
type Batch struct {
	StreamKey
	First   uint64
	NowMs   uint64 // the sender's clock at sending; a signal's age is NowMs - AtMs
	Signals []Signal
	Gap     *Gap // instead of Signals: covers First … Gap.Last
}

// Gap reports which numbered signals an agent dropped because its spool (queue on disk) was full. It has their range
// of sequence numbers, and how many of each kind.
type Gap struct {
	Last   uint64
	Reason string
	Counts []GapCount
}

// GapCount says how many numbered messages (such as results) of one kind and check an agent dropped. News of
// the agent itself is a count of zero of its keepalives.
type GapCount struct {
	Kind       SignalKind
	Definition model.DefinitionID
	Count      uint64
}

// Ack tells the agent which of its signals (such as results) are durably in the journal. It also lists signals that
// the server refused for good.
type Ack struct {
	Last    []StreamLast
	Refused []RefusedSignal
}

// RefusedSignal says which numbered message of an agent the server refused for good, and why. The name is the sequence
// number.
type RefusedSignal struct {
	StreamKey
	Number uint64
	Code   string
	Reason string
}

// Run requests an ad-hoc run, outside the schedule, of an assigned check or of a command.
type Run struct {
	Definition model.DefinitionID
	ID         uint64         // in the RunOutputs that answer; zero: no output is sent
	Command    *model.Command // instead of Definition
	TimeoutMs  uint32         // of Command
	MaxOutput  uint32         // bytes
	Cancel     bool           // ends the run with this ID
	Inventory  bool           // instead of Definition: the agent collects its inventory now, without an answer
}

// BackPressureEasing sets how slowly the agent returns to normal sending after BackPressure. In this number of lingers
// a linger shrinks to zero. So the waiting signals arrive as a fifth more than the usual rate, not all at once.
const BackPressureEasing = 5

// BackPressure asks an agent to send larger batches less often for a time, because the server is overloaded.
type BackPressure struct {
	LingerMs uint32 // zero: as usual again
	Reason   string
	LastsMs  uint32 // zero: as usual again
}

// Bye announces the end of a session. The server drains sessions, or the agent stops as planned.
type Bye struct {
	Reason  string
	RetryMs uint32
}

// Facts sends the agent's new labels, facts and groups, which replace the earlier values from Hello. It is not
// journaled.
type Facts struct {
	Labels map[string]string // from the agent's configuration
	Facts  map[string]string // measured
	Groups []string          // self-declared
}

// Stats holds an agent's counters since its start, and some gauges. The gauges are Spooled, SpoolBytes, ResidentBytes
// and OldestMs. It is not journaled.
type Stats struct {
	UptimeMs      uint64 // of the agent
	Spooled       uint64 // signals that wait
	SpoolBytes    uint64
	Runs          uint64 // of checks
	Forks         uint64 // processes started
	Skipped       uint64 // runs left out: the one before still ran
	Late          uint64 // runs that had to wait for their turn
	BytesSent     uint64 // frames, before TLS
	Evicted       uint64 // signals that the spool evicted
	Refused       uint64 // signals that a server refused
	Lost          uint64 // results that the spool refused
	ResidentBytes uint64 // memory; zero: not known
	OldestMs      uint64 // age of the oldest signal that waits
}

// RunOutput is a part of an ad-hoc run's output. The last part has Last. It is not journaled.
type RunOutput struct {
	ID         uint64
	Output     []byte // the next piece, as the command wrote it
	Last       bool
	Status     model.Status // with Done
	DurationMs uint32       // with Done
	Cut        uint64       // bytes of output that were cut away
	Refused    string       // why nothing was run, for people; with Done
}

// Exchange is an agent's request during a session, or the server's answer with the same id. A request asks, for
// example, for secrets. 15 is the last number of a message: later kinds of requests become fields here. An agent sends
// only requests that Welcome.Features allows.
type Exchange struct {
	ID             uint64
	SecretsRequest *SecretsRequest // agent to server
	SecretsReply   *SecretsReply   // server to agent
}

// Values of Welcome.Features, which name abilities of the server.
const (
	FeatureSecrets   = "secrets"   // the server answers a SecretsRequest
	FeatureInventory = "inventory" // the server keeps inventories
)

// SecretsRequest requests the values of secrets in the agent's assignment.
type SecretsRequest struct{ Names []string } // NAMESPACE/NAME

// SecretsReply answers a SecretsRequest with each secret value once. Both sides keep them in memory only.
type SecretsReply struct{ Values []SecretValue }

// SecretValue is the value of a secret for an agent, or the reason why the value is missing. If the value is missing,
// it has the reason.
type SecretValue struct {
	Name    string
	Value   []byte
	LeaseMs uint32 // how long it may be kept in memory; zero: for this run only
	Error   string // instead of Value: for people
}

// MaxSecretNames is the largest number of secrets in one Exchange.
const MaxSecretNames = model.MaxCheckSecrets

// RoundRobinRuns orders an agent to run assigned round-robin checks once, immediately.
type RoundRobinRuns struct{ Runs []RoundRobinRun }

// RoundRobinRun names a check that the agent must run now, in its turn among several agents. For a proxy check it also
// names the proxy node.
type RoundRobinRun struct {
	Definition model.DefinitionID
	Node       model.NodeID
}

// MaxRoundRobinRuns is the largest number of runs in one RoundRobinRuns message.
const MaxRoundRobinRuns = 1000
