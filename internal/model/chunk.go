package model

import "time"

// MaxSpoolAge is how long an agent may keep a result that no server has taken.
const MaxSpoolAge = 7 * 24 * time.Hour

// Chunk is one compiled definition of a check: all that an agent needs to run it
// and all that the view needs to judge its results, whatever the check looks like
// later. Chunks are content-addressed, shared by every node that runs them, and
// kept while the journal, a snapshot or a spool can name them.
type Chunk struct {
	ID   ChunkID
	Hash [16]byte // first half of SHA-256 of the encoded body (wire.AppendChunk)

	Check        CheckID
	Namespace    NamespaceID // of the check
	CheckName    string
	Command      *Command // exactly one of Command and Probe
	Probe        *Probe
	Interval     time.Duration // zero with Cron
	Cron         string
	TimeZone     string
	Timeout      time.Duration
	TTL          time.Duration // zero: none
	Env          map[string]string
	RunAs        string
	MaxOutput    int
	FailAfter    uint32      // at least 1
	RecoverAfter uint32      // at least 1
	Severities   [4]Severity // by Status
	Handlers     []string    // told when a problem opens and closes
	Route        string      // … or the route that says who is told; empty: those that match
	FlapStart    uint32      // percent of change from which on an event flaps; zero: it never does
	FlapEnd      uint32      // … down to which it goes on
	Stdin        string      // of the command
	Hooks        []Hook
	Metrics      *Metrics
	Thresholds   []Threshold
	Except       []Span   // when it does not run
	Proxy        bool     // each result speaks of a proxy node that the assignment names
	Pipelines    []string // kept from Sensu: they get every event
	Secrets      []ChunkSecret
	RoundRobin   bool // the server says when: agents do not run it by themselves
	Assets       []ChunkAsset

	DiscardOutput bool // it is kept nowhere
}

// OutputDiscarded stands in the place of an output that is kept nowhere.
const OutputDiscarded = "(output discarded)"

// ChunkAsset is an Asset that a check names: what an agent needs to choose its archive.
// Where the server has that from (URL) is not in it.
type ChunkAsset struct {
	Name   string
	Builds []AssetBuild
}

// Span is a calendar with its zone: what an agent needs of a Window.
type Span struct {
	Zone  string // empty: UTC
	Spans []WindowSpan
}
