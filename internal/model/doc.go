// Package model holds the terms of Muster as types: declared resources, results of agents, events and problems of
// the server, and the pure functions over them.
//
// It imports nothing of ours, reads no clock, opens no file. Everything else in the house speaks in these types.
// Start reading at ids.go, then resource.go (declared) and event.go (the state of a check on a node).
package model
