// Package model holds the words of Muster as types: what an operator declares
// (resources), what comes back (results), what the server keeps (events,
// problems), and the pure functions over them.
//
// It imports nothing of ours, reads no clock, opens no file. Everything else in
// the house speaks in these types. Start reading at ids.go, then resource.go
// (what is declared) and event.go (what is kept).
package model
