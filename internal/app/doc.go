// Package app connects the components of the server (journal, event view, sessions, API …), opens them in the order of
// their dependencies, and stops them in stages. It does no work of its own.
//
// Start reading at OpenAt in server.go: it lists the components in the order of opening, with the reason of each place.
// Each component registers its tasks and its close function; Run starts the tasks and stops them in stages.
//
// Every goroutine of this package ends with Run or Close. No lock is held across two components.
//
// up_command.go is `muster up`: a server and an agent for this machine in one process.
package app
