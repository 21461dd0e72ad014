// Package app wires the rooms of the server together, starts them in an order that has reasons, and stops them in the
// reverse one. It does no work of its own.
//
// Start reading at OpenAt in server.go: it lists the components in the order of opening, with the reason of each place.
// Each registers its tasks and its close function; Run starts the tasks and stops them in stages.
//
// Every goroutine here ends with Run or Close. No lock is held over two rooms.
//
// up.go is `muster up`: a server and an agent for this machine in one process.
package app
