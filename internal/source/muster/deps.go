package muster

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Node is what a session needs to know of a machine. It is answered from memory:
// a restart makes every agent of the fleet ask within seconds.
type Node struct {
	ID        model.NodeID
	Name      string
	Namespace model.NamespaceID
	Key       string // pki.Fingerprint of its machine's key; empty: none on record yet

	Keepalive time.Duration // how often it must be heard of; zero: Limits.Keepalive
	Timeout   time.Duration // after which it is missed; zero: Limits.Timeout
	Warning   time.Duration // of silence, after which people are warned; zero: never

	Visitor bool // comes for a result and goes: no sign of life is expected of it
}

// Gone is why a machine is no node (any more): what it is refused with.
type Gone struct {
	Code     string // of Refuse; empty: nothing is known against it
	Sentence string // by whom, when and why
	Type     string // what to type if it should be a node all the same
}

// Proof is what a client certificate proves. The zero Proof believes Hello: plain
// loopback connections only.
type Proof struct {
	Node uuid.UUID
	Key  string // pki.Fingerprint of the certificate's key
}

// TeamLimits bound what the nodes of one namespace may send.
type TeamLimits struct {
	Namespace         string  // its name
	ResultsPerSec     float64 // of all its nodes; zero: no limit
	NodeResultsPerSec float64 // of each; zero: Limits.NodeResultsPerSec
	ValuesPerSec      float64 // rows of value blocks of all its nodes; zero: no limit, as below
	NodeValuesPerSec  float64
	ReportsPerSec     float64 // reports and inventories
	NodeReportsPerSec float64
	BytesPerSec       float64 // of batches
	NodeBytesPerSec   float64
	OutputBytes       int // longest output of one result; zero: Limits.OutputBytes
}

// Nodes finds machines by their immutable id.
type Nodes interface {
	Lookup(uid uuid.UUID) (Node, bool)
	// Gone says what became of a node that Lookup does not know (any more), or of a
	// machine by its key; the zero one: nothing is known.
	Gone(uid uuid.UUID, key string) Gone
	// FirstKey puts a key on record for a node that has none, and returns the one that is
	// on record then: none, where the key is another node's, which holder names. It must
	// not block.
	FirstKey(uid uuid.UUID, key string) (onRecord, holder string)
	// Team says what a namespace may send. It is asked every second.
	Team(namespace model.NamespaceID) TeamLimits
	// Seen hands on what an agent said of itself (facts, labels, groups, version). It
	// must not block; hello is the caller's afterwards, its maps are not. Of a Facts
	// message, which says anew what Hello said, a Hello is made with these alone. What it does not take, because of
	// a limit, it names with the reason.
	Seen(node Node, hello *wire.Hello) (limit, reason string)
}

// View is what sessions need of the event view.
type View interface {
	// LastNumbers waits until the view has applied commit after, and returns the last
	// number kept of every stream of the node.
	LastNumbers(ctx context.Context, node model.NodeID, after journal.Position) ([]wire.StreamLast, error)
	// Admit says whether a result may create or update its event state (the limits of
	// its node and of its namespace). It is asked for every result, so it must be quick.
	// An empty code admits.
	Admit(node model.NodeID, chunk *model.Chunk) (code, reason string)
}

// Shed is a sudden loss of sessions.
type Shed struct {
	Lost   int           // sessions that ended without Bye …
	Before int           // … of this many at the window's beginning
	Window time.Duration // … within this long
}
