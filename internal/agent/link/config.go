package link

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// Path is where a session is opened on the server.
const Path = "/agent/v1/session"

// Config is what sessions need; many sessions may share one (Node apart).
type Config struct {
	Node      uuid.UUID
	TLS       *tls.Config       // from TLSConfig; nil: plain, loopback only
	ServerKey ed25519.PublicKey // verifies assignments; empty (benchmarks only): not verified
	// Dial reaches a server, through proxies where there are any; nil: NewDialer("").
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Chunk decodes one definition, so that many agents in one process can share
	// them; nil: wire's decoder.
	Chunk func(id model.ChunkID, body []byte) (*model.Chunk, error)
	// BootMs is the agent's boot clock in milliseconds: ages of results are measured
	// on it. Nil: milliseconds since the process began.
	BootMs func() uint64
	Now    func() time.Time // default time.Now
	Log    *slog.Logger

	// Shared holds buffers that many sessions use in turn; nil: each has its own.
	Shared *Shared

	Handshake time.Duration // dial to Welcome; default 60 s: in a storm the server queues them
	PingAfter time.Duration // of silence; default 20 s
	DeadAfter time.Duration // of silence; default 60 s
	Write     time.Duration // one write; default 10 s

	done bool // defaults are filled in
}

// Shared is what many sessions of one process use in turn.
type Shared struct {
	ws     wsconn.Buffers
	frames sync.Pool // *[]byte, for frames on their way out
	acks   sync.Pool // *wire.Ack, for decoding
}

// NewShared makes empty pools.
func NewShared() *Shared {
	return &Shared{
		frames: sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }},
		acks:   sync.Pool{New: func() any { return new(wire.Ack) }},
	}
}

// complete returns the configuration with its defaults. A completed one is returned
// as it is: thousands of sessions that were given one share it.
func (c *Config) complete() *Config {
	if c.done {
		return c
	}
	d := *c
	d.done = true
	d.defaults()
	return &d
}

func (c *Config) defaults() {
	if c.Dial == nil {
		c.Dial = NewDialer(nil)
	}
	if c.Chunk == nil {
		c.Chunk = wire.DecodeChunk
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.BootMs == nil {
		began := time.Now()
		c.BootMs = func() uint64 { return uint64(time.Since(began).Milliseconds()) }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Shared == nil {
		c.Shared = NewShared()
	}
	c.Handshake = cmp.Or(c.Handshake, 60*time.Second)
	c.PingAfter = cmp.Or(c.PingAfter, 20*time.Second)
	c.DeadAfter = cmp.Or(c.DeadAfter, 60*time.Second)
	c.Write = cmp.Or(c.Write, 10*time.Second)
}

// Complete returns the configuration with its defaults filled in, for owners of many
// sessions: Open then makes no copy of its own.
func (c Config) Complete() *Config { return c.complete() }

// Handler hears what the server says, on the goroutine that reads. Messages and the
// slices in them are valid during the call only.
type Handler interface {
	// Welcomed: the session is open. last is where the server stands in each stream.
	Welcomed(s *Session, w *wire.Welcome)
	// Assigned: a verified assignment is in force; held is immutable.
	Assigned(s *Session, held *Assignment)
	Acked(s *Session, ack *wire.Ack)
	// RunNow: somebody asks for a run, or takes it back.
	RunNow(s *Session, r *wire.Run)
	// Turn names round-robin checks that it is this node's turn to run.
	Turn(s *Session, t *wire.Turn)
	// Reply delivers the answer to an Exchange of this agent; its values alias a read buffer.
	Reply(s *Session, x *wire.Exchange)
	// BackPressure: the server asks for another pace; see Pace.
	BackPressure(s *Session, m *wire.BackPressure)
	// Leaving: the server goes away (drain); come back after retry.
	Leaving(s *Session, retry time.Duration, reason string)
}

// RefusedError is the server's Refuse.
type RefusedError struct{ wire.Refuse }

func (e *RefusedError) Error() string {
	text := "server refuses this agent (" + e.Code + "): " + e.Message
	if e.Hint != "" {
		text += "\n  " + e.Hint
	}
	return text
}
