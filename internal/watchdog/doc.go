// Package watchdog proves once a minute that a result goes the whole way: over the network
// and TLS into a session, through journal and view, into history and the outbox, to a
// delivery. What arrives calls an address outside, a dead-man's switch that alarms when
// nobody calls it any more. Who watches the watcher must not be the watcher itself.
//
// Start reading at Watchdog.Run. Locks: Watchdog.mu, over what is awaited; nothing is called under it.
package watchdog
