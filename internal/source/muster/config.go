package muster

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// Config holds the settings and dependencies of a Server.
type Config struct {
	core.Config
	Nodes      Nodes
	View       View
	SigningKey ed25519.PrivateKey // signs assignments
	Servers    []string           // host:port; agents try them in this order before their own; empty: their own
	Version    string             // agent version that the server wants; empty: any
	ProxyFrom  []netip.Prefix     // networks of load balancers, whose connections begin with a PROXY header
	Limits     Limits

	// Kinds lists the kinds of signals, beside results and keepalives, that a reducer of the server reads. Signals of
	// other kinds are refused.
	Kinds []wire.SignalKind

	// Inventories has the inventories of nodes; nil: agents send none.
	Inventories Inventories

	// Turns makes nodes whose values take most time wait for others; nil: none waits.
	Turns *core.WorkerShares

	// Pressures are resources of the server, beside the journal, that slow senders down when they are nearly full.
	Pressures []core.FillLevel

	// OnSessionLoss is called once per episode in which more than Limits.ShedShare of the sessions end within
	// Limits.ShedWindow, before their keepalives are missed. It must not block. May be nil.
	OnSessionLoss func(SessionLoss)

	// OnOlderData is called for each agent that was acknowledged more, or holds a newer assignment, than this
	// incarnation of the journal knows: the server's data was restored from an older copy. It must not block. May be
	// nil.
	OnOlderData func(core.Node)

	// Assets opens an archive by its SHA-512; its error is for the agent. Nil: there are none.
	Assets func(sum [64]byte) (io.ReadSeekCloser, error)

	Rand func() float64 // jitter, in [0, 1), safe for concurrent use; default rand.Float64
}

// Limits has the limits of connections, messages and bytes of agents. Zero: the default.
type Limits struct {
	core.SessionLimits
	Connections       int           // of all listeners, people included; default: no limit
	FrameBytes        int           // one frame; default wire.MaxFrame
	BatchSignals      int           // signals per batch; default wire.MaxSignals
	OutputBytes       int           // one result's output; default model.MaxOutputBytes
	NodeResultsPerSec float64       // default model.DefaultNodeRate
	RateBurst         time.Duration // content of a full bucket, in time at its rate; default 10 s
	JournalQueueBytes int64         // capacity of the journal's queue; default the journal's own default
	ShedShare         float64       // default 0.2
	ShedWindow        time.Duration // default 10 s
	ShedLeast         int           // fewer lost sessions than this are no shedding; default 10
}

// setDefaults sets defaults for zero fields and fails if a dependency is missing.
func (c *Config) setDefaults() error {
	if c.Nodes == nil || c.View == nil || len(c.SigningKey) == 0 {
		return errors.New("BUG: the session layer needs nodes, view and signing key")
	}
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	c.Limits.setDefaults()
	return c.Config.Complete()
}

// setDefaults replaces each limit of zero by the default limit.
func (l *Limits) setDefaults() {
	l.SetDefaults(60*time.Second, 20*time.Second, 60*time.Second) // handshakes queue while a whole fleet connects
	l.FrameBytes = min(cmp.Or(l.FrameBytes, wire.MaxFrame), wire.MaxFrame)
	l.BatchSignals = min(cmp.Or(l.BatchSignals, wire.MaxSignals), wire.MaxSignals)
	l.OutputBytes = cmp.Or(l.OutputBytes, model.MaxOutputBytes)
	l.NodeResultsPerSec = cmp.Or(l.NodeResultsPerSec, model.DefaultNodeRate)
	l.RateBurst = cmp.Or(l.RateBurst, 10*time.Second)
	l.JournalQueueBytes = cmp.Or(l.JournalQueueBytes, journal.DefaultQueueBytes)
	l.ShedShare = cmp.Or(l.ShedShare, 0.2)
	l.ShedWindow = cmp.Or(l.ShedWindow, 10*time.Second)
	l.ShedLeast = cmp.Or(l.ShedLeast, 10)
}

// completeNode fills in a node's keepalive times from the server's defaults, if its declaration has none.
func (l *Limits) completeNode(n *core.Node) {
	n.Keepalive = cmp.Or(n.Keepalive, l.Keepalive)
	n.Timeout = cmp.Or(n.Timeout, l.Timeout)
}

// Retirement is the reason why the server refuses a machine whose node was retired, deleted or replaced. Its
// node was deleted, retired or replaced.
type Retirement struct {
	Code     string // code of the Refuse; empty: the reason is unknown
	Sentence string // sentence for people with the user, time and reason of the end
	Type     string // a command that lets the machine in again
}

// Proof is the node id and public key that an agent has proved by its client certificate. The zero Proof
// believes Hello: plain loopback connections only.
type Proof struct {
	Node uuid.UUID
	Key  string // pki.Fingerprint of the certificate's key
}

// Nodes is the interface that finds the node of a machine by the uid in its certificate.
type Nodes interface {
	Lookup(uid uuid.UUID) (core.Node, bool)
	// Retirement returns the end of a node that Lookup does not know, or of a machine by its key; the zero Retirement: unknown.
	Retirement(uid uuid.UUID, key string) Retirement
	// FirstKey puts a key on record for a node that has none, and returns the key on record. If the key is another node's,
	// it returns none and the name of that holder. It must not block.
	FirstKey(uid uuid.UUID, key string) (onRecord, holder string)
	// Namespace returns the limits of a namespace. It is called every second.
	Namespace(namespace model.NamespaceID) core.NamespaceLimits
	// RecordAgent records facts, labels, groups and version of an agent. It must not block. hello belongs to the caller
	// afterwards, its maps do not. A Facts message comes as a Hello with these fields alone. If a limit rejects a part, RecordAgent
	// returns the limit and a reason.
	RecordAgent(node core.Node, hello *wire.Hello) (limit, reason string)
}

// View is the interface that returns nodes' last sequence numbers, and decides whether results may create
// events. It has the last sequence numbers of streams and the limits on events.
type View interface {
	// LastNumbers waits until the view has applied commit after, and returns the last number of every stream of the node.
	LastNumbers(ctx context.Context, node model.NodeID, after journal.Position) ([]wire.StreamLast, error)
	// Admit decides whether a result may create or update its event (limits of node and namespace); an empty code admits.
	// It is called for every result, so it must be fast.
	Admit(node model.NodeID, definition *model.CheckDefinition) (code, reason string)
}

// Inventories is the interface that checks inventory changes and returns the checksum of a node's inventory.
type Inventories interface {
	// Sum returns the sum of a node's inventory, for Welcome; zero: none.
	Sum(node model.NodeID) uint64
	// Admit returns the reason why a change of an inventory is refused, or an empty text.
	Admit(namespace model.NamespaceID, body []byte) (reason string)
}

// SessionLoss describes a sudden loss of sessions, with the numbers of lost and earlier sessions.
type SessionLoss struct {
	Sessions int           // sessions that ended without Bye
	Before   int           // sessions at the beginning of the window
	Window   time.Duration // length of the window
}
