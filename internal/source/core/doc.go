// Package core is the half of a source with connected agents that does not depend on the protocol. Muster's own agents
// (internal/source/muster) and Sensu's (internal/source/sensu) stand on it: a source adds its wire format and its dialogue.
//
// In: results that a source has decoded. Out: journal entries, acknowledgements after their commit, and frames of writers.
//
//   - Goroutines starts and ends the goroutines; a reader has its messages handled in pooled goroutines (connection_goroutines.go).
//   - Session is the shared part of a session (session.go): Window bounds its uncommitted bytes (commit_window.go), Activity finds
//     silent peers by the listening time of Clock (connection_goroutines.go), Probe asks whether an agent is alive (commit_window.go).
//   - Registry finds the session of a node (session.go).
//   - Record builds the journal entries of a batch, results about proxy nodes included (session.go).
//   - Limiter and Budget hold the limits of namespaces and nodes, and pause a reader that is over one (rate_limits.go).
//   - Outbox brings sessions with messages to write to writers, each at most once (writer_queue.go).
//   - Runs are runs requested by people (adhoc_runs.go); SecretFunc and Archives serve secrets and assets (secrets_and_archives.go).
//   - DeclareMissing declares checks and nodes of events (declare_missing_resources.go); Meter gives all sources metrics of one shape
//     (metrics.go).
//
// Goroutines: one reader per session and the writers of outboxes, all counted by Goroutines. Locks, in order: Registry, a
// Window's append lock, its Mu, then Outbox or Runs; Limiter and Budget lock nothing else. Start reading at session.go,
// then commit_window.go.
package core
