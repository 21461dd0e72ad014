// Package history keeps status changes, problems and the outbox of notifications, in SQLite or
// PostgreSQL. It is off the acknowledgement path: a slow database delays only history.
//
// In: a Batch of the reactor: rows, deliveries, and the places up to which they reach, in one
// transaction, so that a replay after a crash records nothing twice. Out: lists for people, and
// deliveries that are due. The package owns no goroutine; one lock serializes Record. Both
// engines pass the suite in suite_test.go.
//
// Start reading at store.go (the interface and its types), then sqlstore.go (one transaction), shelf.go (the tables that
// grow), query.go (how lists are read).
package history
