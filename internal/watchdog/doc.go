// Package watchdog proves once a minute that a result goes the whole way: over the network
// and TLS into a session, through journal and view, into history and the outbox, to a
// delivery. Each delivered result calls an address outside, a dead-man's switch that raises an alarm when the calls stop:
// a server cannot report its own end.
//
// Start reading at Watchdog.Run. Locks: Watchdog.mu guards the awaited result; nothing is called under it.
package watchdog
