// Package app is the one place that knows everybody: it wires the rooms of the
// server together, starts them in an order that has reasons, and stops them in the
// reverse of it.
//
// Start reading at Server (server.go); its Run is the list of everything that runs.
// up.go is `muster up`: a server and an agent for this machine in one process.
package app
