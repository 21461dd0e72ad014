package muster

import (
	"crypto/ed25519"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/plan"
)

// Config is everything the server's side of the agent protocol needs.
type Config struct {
	Journal     journal.Journal
	Nodes       Nodes
	View        View
	Assignments plan.Assignments
	SigningKey  ed25519.PrivateKey // signs assignments
	Servers     []string           // the list told to agents; empty: they keep theirs
	Version     string             // the agent version wanted; empty: none
	Limits      Limits

	// OnShed hears once per episode that more than Limits.ShedShare of the sessions
	// vanished within Limits.ShedWindow, before the end of those sessions can be
	// noticed as missing keepalives. It must not block. May be nil.
	OnShed func(Shed)

	Now        func() time.Time // default time.Now
	Rand       *rand.Rand       // jitter; default seeded by the runtime. Guarded by the server.
	Log        *slog.Logger
	Registerer prometheus.Registerer // default: metrics are kept but not exposed
}

// Limits bound what one agent can cost. Zero is the default.
type Limits struct {
	Sessions          int           // at the same time; default 60000
	FrameBytes        int           // one frame; default wire.MaxFrame
	BatchSignals      int           // signals per batch; default wire.MaxSignals
	UnackedBytes      int           // per session, sent and not yet acknowledged; default 4 MiB
	OutputBytes       int           // one result's output; default 64 KiB
	StatesPerNode     int           // event states; default 1000
	NodeResultsPerSec float64       // default 1000
	RateBurst         time.Duration // what a bucket holds, in time at its rate; default 10 s
	JournalQueueBytes int64         // the journal's queue; above half of it agents are told Slow; default 64 MiB

	Keepalive time.Duration // default 20 s
	Timeout   time.Duration // default 120 s
	PingAfter time.Duration // of silence; default 20 s
	DeadAfter time.Duration // of silence: the connection is closed; default 60 s
	Handshake time.Duration // from accept to Welcome; default 20 s
	Write     time.Duration // one write; default 10 s

	Writers    int           // goroutines that write acknowledgements; default 8
	ShedShare  float64       // default 0.2
	ShedWindow time.Duration // default 10 s
	ShedLeast  int           // fewer lost sessions than this are no shedding; default 10
}
