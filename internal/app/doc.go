// Package app is the one place that knows everybody: it wires the rooms of the
// server together, starts them in an order that has reasons, and stops them in the
// reverse of it.
//
// Start reading at Server (server.go): Open is the list of everything that is opened,
// Run (run.go) of everything that runs, each with the reason of its place.
//
// Every goroutine here ends with Run or Close, but for the one that writes the event
// about lost sessions. No lock is taken over two rooms.
//
// up.go is `muster up`: a server and an agent for this machine in one process.
package app
