package model

import "time"

// MaxSpoolAge bounds how long an agent keeps a result that no server has acknowledged.
const MaxSpoolAge = 7 * 24 * time.Hour

// ChunkKind is the kind of a chunk (a compiled definition that agents receive), such as a check. It is part of the
// wire and of stored chunks.
type ChunkKind uint32

// ChunkCheck is the kind of chunks that tell an agent to run a check.
const ChunkCheck ChunkKind = 1

// Chunk is the compiled definition of a check or template that agents receive, with an id and a hash. Chunks of all
// kinds have the same header; Kind tells the type of the body. Chunks are content-addressed, shared by every node
// that has them, immutable once sealed, and kept while the journal, a snapshot or a spool can name them.
type Chunk struct {
	ID        ChunkID
	Hash      [16]byte // first half of SHA-256 of the encoded chunk (wire.AppendChunk)
	Kind      ChunkKind
	Unit      UnitID
	Namespace NamespaceID // namespace of the unit
	Name      string      // name of the unit in its namespace
	body      any         // *CheckChunk, or the encoded body ([]byte) of a kind that this build does not know
}

// AsCheck returns the compiled check that the chunk contains; nil: the chunk is nil or of another kind
func (c *Chunk) AsCheck() *CheckChunk {
	if c == nil {
		return nil
	}
	check, _ := c.body.(*CheckChunk)
	return check
}

// Body returns the compiled check or template that Seal has stored in the chunk
func (c *Chunk) Body() any { return c.body }

// Seal stores the kind and the compiled content in the chunk, which must not change afterwards, and returns the
// chunk. The compiler or decoder of the kind calls it once, before other code reads the chunk.
func (c *Chunk) Seal(kind ChunkKind, body any) *Chunk {
	c.Kind, c.body = kind, body
	return c
}

// CheckChunk is a compiled check, with everything that agents need to run it and the server needs to derive events
// from its results. Its Unit is the CheckID. It has more than 25 fields because it mirrors the message CheckChunk of
// the protocol, field by field: the codec is generated from that.
type CheckChunk struct {
	Chunk

	// Execution.
	Command       *Command // exactly one of Command and Probe
	Probe         *Probe
	Timeout       time.Duration
	Env           map[string]string
	Secrets       []ChunkSecret
	Stdin         string // of the command
	StdinEvent    bool   // the last event is on the command's standard input
	RunAs         string // user; empty: the agent's
	Assets        []ChunkAsset
	Hooks         []Hook
	MaxOutput     int  // bytes
	DiscardOutput bool // results are sent without the output of the command
	Sensu         bool // kept from Sensu, see CheckSpec

	// Schedule.
	Interval   time.Duration // zero with Cron
	Cron       string
	TimeZone   string // of Cron; empty: the node's
	Except     []Span // calendars without runs
	RoundRobin bool   // the server schedules each run, not the agents
	Proxy      bool   // each result is about a proxy node that the assignment names

	// Judgement.
	TTL          time.Duration // the longest time between two results; zero: none
	FailAfter    uint32        // results, at least 1
	RecoverAfter uint32        // results, at least 1
	Severities   [4]Severity   // by Status
	FlapStart    uint32        // percent of changes from which on an event flaps; zero: never
	FlapEnd      uint32        // percent of changes below which flapping ends
	Metrics      *Metrics
	Thresholds   []Threshold

	// Notification.
	Handlers  []string // notified when a problem opens and closes
	Route     string   // replaces Handlers; both empty: all matching routes
	Pipelines []string // imported from Sensu; they get every event
}

// Seal stores the compiled check as the content of its chunk and returns the chunk
func (c *CheckChunk) Seal() *Chunk { return c.Chunk.Seal(ChunkCheck, c) }

// OutputDiscarded is the text of a result whose output DiscardOutput has dropped.
const OutputDiscarded = "(output discarded)"

// ChunkAsset is an Asset in a compiled check, with all its archives. It leaves out the address (URL) that the server
// fetched the archive from.
type ChunkAsset struct {
	Name   string
	Builds []AssetBuild
}

// Span is a calendar with its time zone, in a compiled check for agents
type Span struct {
	Zone  string // empty: UTC
	Spans []WindowSpan
}
