// Package spool keeps what an agent has to say until a server keeps it.
//
// In go signals (Append, Keepalive), out come batches of consecutive numbers (Next)
// that the session sends, and gaps for what had to give way. Acked and Resume tell
// what the server keeps. On disk it is the journal's log with small segments; in
// memory an index of 24 bytes per signal and the newest signals themselves.
//
// Which lane: a signal is numbered when it is appended, in the live lane while there
// is a session or there was one less than Options.LiveGrace ago, else in the
// backlog. A number is never given to another signal: where the server knows numbers
// that were never sent from here (the disk was brought back from a copy, or lost power
// before its last sync), a new stream begins.
//
// Bad days: a folder that was deleted, also while it is open, is made anew; damage
// takes the commit that it is in and nothing behind it. News of the spool itself, and
// losses of which the check is not known, are gaps that name the node's keepalive.
//
// Budget: half of MaxBytes holds signals, the other half lets the log be rewritten.
// What is over it gives way so that the checks with the most bytes lose their oldest
// results, and each check is told of once, whatever is kept in between. Nothing here waits for a disk: while the disk refuses, signals stay
// in memory as far as they fit, and then give way too.
//
// One mutex guards all; the log's committer goroutine calls hears.Committed.
// Start reading at spool.go, then lane.go and source.go.
package spool
