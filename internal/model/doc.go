// Package model declares the terms of Muster as types: declared resources, results of agents, events and problems of
// the server, and pure functions on them.
//
// The package imports no other package of Muster, reads no clock and opens no file. All other packages use these types.
// Start reading at resource_ids.go, then resource_specs.go (declared) and event.go (the state of a check on a node).
package model
