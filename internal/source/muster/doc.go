// Package muster is the source for Muster's own agents: the server's side of the agent protocol
// (docs/protocol/README.md).
//
// In: TLS connections (listener.go). ALPN muster.v1 with a client certificate is an agent; muster.assets.v1 fetches archives
// (runs_secrets_and_assets.go); others go to an http.Server. An agent's connection becomes a session (session.go): Hello is answered in
// handshake.go, batches go to the journal in validate_result_batch.go after a verdict on each signal (validate_result_batch.go). Out: messages that
// writers send (send_pending_messages.go, send_assignment.go).
//
// Goroutines: an http.Server's for archives, and one that slows agents down while a queue is too full (back_pressure.go);
// readers, writers and the clock are package core's. Locks, in order: registry, then session. The journal calls Committed
// with neither held.
//
// A peer is never trusted: arrival_limits_and_clones.go bounds its cost before it has a session, every frame pays (back_pressure.go), and a
// refusal has a reason. The hot path allocates nothing and takes the session's lock, two token buckets and the journal's
// queue. Start reading at session.go, then validate_result_batch.go.
package muster
