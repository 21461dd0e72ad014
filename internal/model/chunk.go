package model

import "time"

// MaxSpoolAge is how long an agent may keep a result that no server has taken.
const MaxSpoolAge = 7 * 24 * time.Hour

// ChunkKind says which body a chunk has. It is part of the wire and of stored chunks.
type ChunkKind uint32

// ChunkCheck is the kind of chunks that tell an agent to run a check.
const ChunkCheck ChunkKind = 1

// Chunk is one compiled definition of a unit: a declared thing that lands on nodes.
// The header is the same for all kinds; the body is typed by Kind. Chunks are
// content-addressed, shared by every node that has them, immutable once sealed, and
// kept while the journal, a snapshot or a spool can name them.
type Chunk struct {
	ID        ChunkID
	Hash      [16]byte // first half of SHA-256 of the encoded chunk (wire.AppendChunk)
	Kind      ChunkKind
	Unit      UnitID
	Namespace NamespaceID // of the unit
	Name      string      // of the unit, within its namespace
	body      any         // *CheckChunk; []byte, still encoded: this build does not know the kind
}

// AsCheck returns the chunk with its body as a check; nil for nil and for other kinds.
func (c *Chunk) AsCheck() *CheckChunk {
	if c == nil {
		return nil
	}
	check, _ := c.body.(*CheckChunk)
	return check
}

// Body returns the body that Seal tied to the header.
func (c *Chunk) Body() any { return c.body }

// Seal ties a body to its header. The compiler or decoder of the kind calls it
// once, before anyone else sees the chunk.
func (c *Chunk) Seal(kind ChunkKind, body any) *Chunk {
	c.Kind, c.body = kind, body
	return c
}

// CheckChunk holds all that an agent needs to run a check and all that the event view
// needs to judge its results, whatever the check looks like later. Unit is its CheckID.
type CheckChunk struct {
	Chunk

	Command      *Command // exactly one of Command and Probe
	Probe        *Probe
	Interval     time.Duration // zero with Cron
	Cron         string
	TimeZone     string
	Timeout      time.Duration
	TTL          time.Duration // zero: none
	Env          map[string]string
	RunAs        string
	MaxOutput    int         // bytes
	FailAfter    uint32      // at least 1
	RecoverAfter uint32      // at least 1
	Severities   [4]Severity // by Status
	Handlers     []string    // notified when a problem opens and closes
	Route        string      // replaces Handlers; both empty: the routes that match
	FlapStart    uint32      // percent of change from which on an event flaps; zero: it never does
	FlapEnd      uint32      // percent of change below which flapping ends
	Stdin        string      // of the command
	Hooks        []Hook
	Metrics      *Metrics
	Thresholds   []Threshold
	Except       []Span   // when it does not run
	Proxy        bool     // each result speaks of a proxy node that the assignment names
	Pipelines    []string // imported from Sensu: they get every event
	Secrets      []ChunkSecret
	RoundRobin   bool // the server schedules each run; agents do not
	Assets       []ChunkAsset

	DiscardOutput bool // no result keeps its output
}

// Seal ties the check to its header and returns the header.
func (c *CheckChunk) Seal() *Chunk { return c.Chunk.Seal(ChunkCheck, c) }

// OutputDiscarded replaces an output that DiscardOutput drops.
const OutputDiscarded = "(output discarded)"

// ChunkAsset is an Asset that a check names: what an agent needs to choose its archive.
// It leaves out the address (URL) that the server fetched the archive from.
type ChunkAsset struct {
	Name   string
	Builds []AssetBuild
}

// Span is a calendar with its zone: what an agent needs of a Window.
type Span struct {
	Zone  string // empty: UTC
	Spans []WindowSpan
}
