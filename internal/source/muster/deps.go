package muster

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

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

// Nodes finds machines by their immutable id.
type Nodes interface {
	Lookup(uid uuid.UUID) (core.Node, bool)
	// Gone says what became of a node that Lookup does not know (any more), or of a
	// machine by its key; the zero one: nothing is known.
	Gone(uid uuid.UUID, key string) Gone
	// FirstKey puts a key on record for a node that has none, and returns the one that is
	// on record then: none, where the key is another node's, which holder names. It must
	// not block.
	FirstKey(uid uuid.UUID, key string) (onRecord, holder string)
	// Namespace returns the limits of a namespace. It is called every second.
	Namespace(namespace model.NamespaceID) core.NamespaceLimits
	// Seen hands on what an agent said of itself (facts, labels, groups, version). It
	// must not block; hello is the caller's afterwards, its maps are not. Of a Facts
	// message, which says anew what Hello said, a Hello is made with these alone. What it does not take, because of
	// a limit, it names with the reason.
	Seen(node core.Node, hello *wire.Hello) (limit, reason string)
}

// View is what sessions need of the event view.
type View interface {
	// LastNumbers waits until the view has applied commit after, and returns the last
	// number kept of every stream of the node.
	LastNumbers(ctx context.Context, node model.NodeID, after journal.Position) ([]wire.StreamLast, error)
	// Admit says whether a result may create or update its event state (the limits of
	// its node and of its namespace). It is asked for every result, so it must be quick.
	// An empty code admits.
	Admit(node model.NodeID, chunk *model.CheckChunk) (code, reason string)
}

// Shed is a sudden loss of sessions.
type Shed struct {
	Lost   int           // sessions that ended without Bye …
	Before int           // … of this many at the window's beginning
	Window time.Duration // … within this long
}
