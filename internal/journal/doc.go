// Package journal is the one place where a signal becomes kept: an append-only
// log with group commit. The server's journal and the agent's spool are the same
// code.
//
// Many callers Append entries; one goroutine gathers what waits into a commit,
// writes it, syncs it, hands it to Options.Deliver (the views) and then tells each
// entry's Waiter. Read is the same stream again, from a position. Start reading at
// journal.go (the interface), then log.go (the implementation), then format.go
// (the bytes, also in docs/journal-format.md).
package journal
