package link

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
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

	Handshake time.Duration // dial to Welcome; default 30 s
	PingAfter time.Duration // of silence; default 20 s
	DeadAfter time.Duration // of silence; default 60 s
	Write     time.Duration // one write; default 10 s
}

// Handler hears what the server says, on the goroutine that reads. Messages and the
// slices in them are valid during the call only.
type Handler interface {
	// Welcomed: the session is open. last is where the server stands in each stream.
	Welcomed(s *Session, w *wire.Welcome)
	// Assigned: a verified assignment is in force; held is immutable.
	Assigned(s *Session, held *Held)
	Acked(s *Session, ack *wire.Ack)
	RunNow(s *Session, chunk model.ChunkID)
	Slow(s *Session, linger time.Duration, reason string)
	// Leaving: the server goes away (drain); come back after retry.
	Leaving(s *Session, retry time.Duration, reason string)
}

// RefusedError is the server's Refuse.
type RefusedError struct{ wire.Refuse }

func (e *RefusedError) Error() string {
	text := "server refuses this agent (" + e.Code + "): " + e.Sentence
	if e.Type != "" {
		text += "\n  " + e.Type
	}
	return text
}
