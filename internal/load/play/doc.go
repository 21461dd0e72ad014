// Package play is the driver of a run of values: it opens a session per node with the agent's client of the protocol, sends the
// values of the plan when they are due, whatever the server does meanwhile, kills the server where the plan says so, and writes
// what it saw to the observation log. It knows no verdict.
//
// What waits for a session is a range of ticks per node: the plan computes the values again when they are sent again.
//
// Goroutines: one reader per session, one sender per core, one that samples each second. Each node has a lock, and the
// driver one for its histograms. Start reading at Play.
package play
