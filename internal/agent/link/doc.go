// Package link is the agent's end of the protocol: it finds a server, opens a session, sends the
// spool's signals and delivers the server's messages.
//
// Two layers. Session (session.go) is one connection as a state machine without
// goroutine or timer of its own: its owner reads, sends and ticks. The load tester
// holds tens of thousands of them. Run (keep_connected.go) serves a real agent: one
// Session after another with reconnects, lingering, keepalives and resending from a
// Source. Start reading at session.go.
//
// Run owns two goroutines: the pump (its caller) and a reader per connection. A Session has one
// lock, which it never holds during network operations and calls to its Handler.
package link
