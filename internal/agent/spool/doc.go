// Package spool keeps an agent's signals until a server has acknowledged them.
//
// In: signals (Append, Keepalive) and the server's acknowledgements (Acked, Resume). Out: batches of
// consecutive numbers for the session (Next), and gaps for evicted signals. On disk the spool is a
// journal log with small segments; in memory it is an index of 24 bytes per signal and the newest
// signals themselves.
//
// Lanes: Append numbers a signal in the live lane while there is a session, or was one less than
// liveGrace ago, else in the backlog. A number is never given to a second signal: where the
// server has numbers that were never sent from here (the disk was restored from a copy, or lost its last
// sync), a new stream begins.
//
// Faults: a folder that is deleted, also while it is open, is made again. Damage loses one commit and no
// later one. Reports of the spool itself, and losses of unknown
// checks, are gaps of the node's keepalive.
//
// Budget: half of MaxBytes has signals, the other half lets the log be rewritten. Above the budget the
// checks with the most bytes lose their oldest results, and one gap reports the loss of a check. No
// method waits for the disk: while the disk refuses, signals stay in memory up to memoryBytes, and are
// then evicted.
//
// One mutex guards all fields; the log's committer goroutine calls logWaiter.Committed. Start reading at
// spool.go, then live_and_backlog_queues.go (one numbering), batches_and_acknowledgements.go (the session) and log_compaction_and_eviction.go.
package spool
