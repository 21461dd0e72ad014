// Package streamed is the peer of a handler that a scenario wants told of every result: it listens, and
// holds each line that comes against the result that brought it about.
//
//	peer.go     the listener, the handler on the server, what came of it all
//	machine.go  what of one machine's results came
//
// Goroutines: one that accepts, and one for each connection. Locks: a Machine's, then the Peer's.
// Start reading at peer.go.
package streamed
