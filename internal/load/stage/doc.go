// Package stage has the stages of a server that a scenario can drive alone, each with nothing
// else around it, in this process: `target: stage:NAME`. Open starts one; docs/load-targets.md says
// what each is.
//
// session and spine are what bench/spine is, over real sockets. The others are load.Stages:
// agents hand them their batches without a connection. Each owns its goroutines, from Open to
// Close. Locks: one of each feed, over the commit that fills, one of changes, over the
// order of transitions, and one of edits, over the order of changes of intent; none is taken under another.
//
// Start reading at open.go, then journal.go.
package stage
