// Package journal is the one place where a signal becomes kept: an append-only
// log with group commit. The server's journal and the agent's spool are the same
// code.
//
// Many callers Append entries; one goroutine gathers what waits into a commit,
// writes it, syncs it, hands it to Options.Deliver (the views) and then tells each
// entry's Waiter. Read is the same stream again, from a position.
//
// One goroutine, the committer, lives from Open to Close and alone touches
// Log.writer. One mutex, Log.mu, guards queue, head and segments; it is never held
// during a disk operation, a Deliver or a Waiter, and no other lock is taken under it.
//
// Start reading at journal.go (the interface), then log.go (Append, Cut), committer.go
// and writer.go (the way to the disk), open.go and scan.go (what is checked), format.go
// (the bytes; in words in docs/journal-format.md), repair.go.
//
// Beside it: disk is the injected file system, memfs one that crashes, faultfs one that
// fails, stalls and fills up, journaltest what every Journal must do.
package journal
