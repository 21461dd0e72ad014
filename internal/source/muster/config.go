package muster

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// Config is everything the server's side of the agent protocol needs.
type Config struct {
	Journal     journal.Journal
	Nodes       Nodes
	View        View
	Assignments directory.Assignments
	SigningKey  ed25519.PrivateKey // signs assignments
	Servers     []string           // host:port, which agents try in this order before their own; empty: their own
	Version     string             // the agent version wanted; empty: none
	ProxyFrom   []netip.Prefix     // balancers: their connections begin with a PROXY header, which is believed
	Limits      Limits

	// Kinds are the signals that a reducer reads beside results and keepalives. Others are refused.
	Kinds []wire.SignalKind

	// Pressures are what may be too full beside the journal: agents are told Slow then.
	Pressures []Pressure

	// Secret finds the value of a Secret for an agent whose assignment names it; the error is for
	// people. Nil: agents are told that nobody answers.
	Secret func(ctx context.Context, namespace, name string) (SecretValue, error)

	// OnShed hears once per episode that more than Limits.ShedShare of the sessions
	// vanished within Limits.ShedWindow, before the end of those sessions can be
	// noticed as missing keepalives. It must not block. May be nil.
	OnShed func(Shed)

	// OnBehind hears of each agent that was acknowledged more, or holds a newer
	// assignment, than this incarnation of the journal knows of: the server's data was
	// set back. It must not block. May be nil.
	OnBehind func(core.Node)

	// OnClone hears of each machine that was sent away because another one with its
	// identity is connected. It must not block. May be nil.
	OnClone func(Clone)

	// OnRan hears of each result of a round-robin check: about which proxy node (zero: the
	// one that ran it), and how old it was when it came. It must not block. May be nil.
	OnRan func(check model.CheckID, about model.NodeID, age time.Duration)

	// OnEnded hears of each session that ended: what was left with it is not done. It must
	// not block. May be nil.
	OnEnded func(node model.NodeID)

	// Assets opens an archive by its SHA-512; its error is for the agent. Nil: there are none.
	Assets func(sum [64]byte) (io.ReadSeekCloser, error)

	Now        func() time.Time      // default time.Now
	Rand       func() float64        // jitter, in [0, 1), safe for concurrent use; default rand.Float64
	Queues     *queue.Registry       // where the outboxes are listed; may be nil
	Log        *slog.Logger          // default: nothing is logged
	Registerer prometheus.Registerer // default: metrics are kept but not exposed
}

// Limits bound what one agent can cost. Zero is the default.
type Limits struct {
	Sessions          int           // at the same time; default 60000
	Connections       int           // of all listeners, people included; default: no bound. See places
	FrameBytes        int           // one frame; default wire.MaxFrame
	BatchSignals      int           // signals per batch; default wire.MaxSignals
	UnackedBytes      int           // per session, sent and not yet acknowledged; default model.DefaultUnackedBytes
	OutputBytes       int           // one result's output; default model.MaxOutputBytes
	NodeResultsPerSec float64       // default model.DefaultNodeRate
	RateBurst         time.Duration // what a bucket holds, in time at its rate; default 10 s
	JournalQueueBytes int64         // the journal's queue, as Pressure; default the journal's own default

	Keepalive time.Duration // default model.DefaultKeepalive
	Timeout   time.Duration // default model.DefaultKeepaliveTimeout
	PingAfter time.Duration // of silence; default 20 s
	DeadAfter time.Duration // of silence: the connection is closed; default 60 s
	Probe     time.Duration // an older connection of a node may take to answer a newcomer's; default 3 s
	Handshake time.Duration // from accept to Welcome; default 60 s: in a storm handshakes queue
	Write     time.Duration // one write; default 10 s

	Writers    int           // goroutines that write acknowledgements; default 8
	ShedShare  float64       // default 0.2
	ShedWindow time.Duration // default 10 s
	ShedLeast  int           // fewer lost sessions than this are no shedding; default 10
}

func (c *Config) complete() error {
	if c.Journal == nil || c.Nodes == nil || c.View == nil || c.Assignments == nil || len(c.SigningKey) == 0 {
		return errors.New("BUG: session layer without journal, nodes, view, assignments or signing key")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	c.Limits = c.Limits.complete()
	return nil
}

func (l Limits) complete() Limits {
	def := Limits{
		Sessions: 60000, FrameBytes: wire.MaxFrame, BatchSignals: wire.MaxSignals, UnackedBytes: model.DefaultUnackedBytes,
		OutputBytes: model.MaxOutputBytes, NodeResultsPerSec: model.DefaultNodeRate, RateBurst: 10 * time.Second,
		JournalQueueBytes: journal.DefaultQueueBytes, Keepalive: model.DefaultKeepalive, Timeout: model.DefaultKeepaliveTimeout,
		PingAfter: 20 * time.Second, DeadAfter: 60 * time.Second, Probe: 3 * time.Second, Handshake: 60 * time.Second, Write: 10 * time.Second,
		Writers: 8, ShedShare: 0.2, ShedWindow: 10 * time.Second, ShedLeast: 10,
	}
	l.Sessions = cmp.Or(l.Sessions, def.Sessions)
	l.FrameBytes = min(cmp.Or(l.FrameBytes, def.FrameBytes), wire.MaxFrame)
	l.BatchSignals = min(cmp.Or(l.BatchSignals, def.BatchSignals), wire.MaxSignals)
	l.UnackedBytes = cmp.Or(l.UnackedBytes, def.UnackedBytes)
	l.OutputBytes = cmp.Or(l.OutputBytes, def.OutputBytes)
	l.NodeResultsPerSec = cmp.Or(l.NodeResultsPerSec, def.NodeResultsPerSec)
	l.RateBurst = cmp.Or(l.RateBurst, def.RateBurst)
	l.JournalQueueBytes = cmp.Or(l.JournalQueueBytes, def.JournalQueueBytes)
	l.Keepalive = cmp.Or(l.Keepalive, def.Keepalive)
	l.Timeout = cmp.Or(l.Timeout, def.Timeout)
	l.PingAfter = cmp.Or(l.PingAfter, def.PingAfter)
	l.DeadAfter = cmp.Or(l.DeadAfter, def.DeadAfter)
	l.Probe = cmp.Or(l.Probe, def.Probe)
	l.Handshake = cmp.Or(l.Handshake, def.Handshake)
	l.Write = cmp.Or(l.Write, def.Write)
	l.Writers = cmp.Or(l.Writers, def.Writers)
	l.ShedShare = cmp.Or(l.ShedShare, def.ShedShare)
	l.ShedWindow = cmp.Or(l.ShedWindow, def.ShedWindow)
	l.ShedLeast = cmp.Or(l.ShedLeast, def.ShedLeast)
	return l
}

// of completes what intent says of a node with the server's defaults.
func (l *Limits) of(n *core.Node) {
	n.Keepalive = cmp.Or(n.Keepalive, l.Keepalive)
	n.Timeout = cmp.Or(n.Timeout, l.Timeout)
}
