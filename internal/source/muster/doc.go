// Package muster is the way in for Muster's own agents: the server's side of the
// agent protocol (docs/protocol/README.md).
//
// A TCP connection comes in at listener.go, which tells agents (ALPN muster.v1,
// client certificate) from people (everybody else, handed to an http.Server); handshakes
// compute in the gates of gate.go, so that a storm of agents leaves room for the rest. An
// agent's connection becomes a session (session.go): Hello is answered in
// handshake.go, batches go to the journal in batch.go; what the agent is told
// (flush.go, assign.go) waits in outbox.go for a writer. Archives of Assets are fetched on
// connections of their own (ALPN muster.assets.v1, assets.go).
//
// Goroutines: those of an http.Server for archives; one reader per connection, which waits on a small stack and handles messages
// on one that it borrows (stacks.go); a few writers shared by all sessions, and one
// more for each peer that does not read (outbox.go); one housekeeper (pings, idle
// sessions), and one that has agents slow down while something is too full (pressure.go). Locks, in order: registry, then session; the journal calls Committed
// with neither held.
//
// A peer is never believed to be kind: what it costs before it has a session is bounded
// in arrive.go, every frame pays (pay.go), and who is sent away is told why.
// A frame on the hot path allocates nothing and touches: the session's lock, two token
// buckets, the journal's queue. Start reading at session.go, then batch.go.
package muster
