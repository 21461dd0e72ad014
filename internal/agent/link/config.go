package link

import (
	"cmp"
	"crypto/ed25519"
	"crypto/tls"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// Path is where a session is opened on the server.
const Path = "/agent/v1/session"

// Config has the settings of a session, such as node id, TLS and time limits.
type Config struct {
	Node      uuid.UUID
	TLS       *tls.Config       // from TLSConfig; nil: plain, loopback only
	ServerKey ed25519.PublicKey // verifies assignments; empty (benchmarks only): not verified
	// Dial connects to a server, through a proxy where one is set; nil: NewDialer(nil).
	Dial pki.Dial
	// Definition decodes one definition, so that many agents in one process can share them; nil: wire.DecodeDefinition.
	Definition DecodeDefinition
	// BootMs reads the boot clock in milliseconds, which the ages of results are measured on. Nil:
	// milliseconds since the process started.
	BootMs func() uint64
	Now    func() time.Time // default time.Now
	Log    *slog.Logger

	// Shared has buffers that many sessions use in turn; nil: each session has its own.
	Shared *BufferPools

	Handshake time.Duration // dial to Welcome; default 60 s: in a storm the server queues them
	PingAfter time.Duration // of silence; default 20 s
	DeadAfter time.Duration // of silence; default 60 s
	Write     time.Duration // one write; default 10 s

	hasDefaults bool // defaults are filled in
}

// BufferPools has the buffer pools that all sessions of one process share. A load tester with many simulated
// agents needs them.
type BufferPools struct {
	ws     wsconn.Buffers
	frames sync.Pool // *[]byte, for frames on their way out
	acks   sync.Pool // *wire.Ack, for decoding
}

// NewBufferPools returns empty buffer pools.
func NewBufferPools() *BufferPools {
	return &BufferPools{
		frames: sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }},
		acks:   sync.Pool{New: func() any { return new(wire.Ack) }},
	}
}

// withDefaults returns a copy of the configuration with its defaults filled in. A configuration with defaults is
// returned unchanged, so that thousands of sessions share it.
func (c *Config) withDefaults() *Config {
	if c.hasDefaults {
		return c
	}
	copied := *c
	c = &copied
	c.hasDefaults = true
	if c.Dial == nil {
		c.Dial = NewDialer(nil)
	}
	if c.Definition == nil {
		c.Definition = wire.DecodeDefinition
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.BootMs == nil {
		began := time.Now()
		c.BootMs = func() uint64 { return uint64(time.Since(began).Milliseconds()) }
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.Shared = cmp.Or(c.Shared, NewBufferPools())
	c.Handshake = cmp.Or(c.Handshake, 60*time.Second)
	c.PingAfter = cmp.Or(c.PingAfter, 20*time.Second)
	c.DeadAfter = cmp.Or(c.DeadAfter, 60*time.Second)
	c.Write = cmp.Or(c.Write, 10*time.Second)
	return c
}

// Complete returns a copy of the session's settings with defaults for unset fields. Many sessions of a process can
// share the copy.
func (c Config) Complete() *Config { return c.withDefaults() }

// Handler is the interface that receives the server's messages in a session. Messages and their slices are valid
// during the call only.
type Handler interface {
	// OpenedSession reports that the session is open; w.Last has the numbers that the server has.
	OpenedSession(s *Session, w *wire.Welcome)
	// Assigned delivers a verified assignment, which is immutable.
	Assigned(s *Session, held *Assignment)
	Acked(s *Session, ack *wire.Ack)
	// RunNow delivers the request of a run, or its cancellation.
	RunNow(s *Session, r *wire.Run)
	// RoundRobinRuns delivers the round-robin checks that this node runs now.
	RoundRobinRuns(s *Session, t *wire.RoundRobinRuns)
	// Reply delivers the answer to an Exchange of this agent; its values alias a read buffer.
	Reply(s *Session, x *wire.Exchange)
	// BackPressure delivers a request for fewer, larger batches; see Pace.
	BackPressure(s *Session, m *wire.BackPressure)
	// ServerStops reports that the server stops; connect again after retry.
	ServerStops(s *Session, retry time.Duration, reason string)
}

// RefusedError is the error of a session that the server refused, with the server's code, message and hint.
type RefusedError struct{ wire.Refuse }

// Error returns the server's reason for the refusal, with code and message.
func (e *RefusedError) Error() string {
	text := "server refuses this agent (" + e.Code + "): " + e.Message
	if e.Hint != "" {
		text += "\n  " + e.Hint
	}
	return text
}
