// Package history keeps status changes, problems and the outbox of notifications, in SQLite or
// PostgreSQL. It is off the acknowledgement path: a slow database delays only history.
//
// In: batches of the dispatcher. One transaction writes the rows and deliveries of a Batch and its places (how far the
// journal is recorded), so that a replay after a crash records nothing twice. Out: lists for people, and
// deliveries that are due. The package owns no goroutine; one lock serializes Record. Both
// engines pass the suite in store_conformance_test.go.
//
// Start reading at store_interface.go (the interface and its types), then sqlstore.go (one transaction), segmented_table.go (the tables that
// grow), page_limits.go (how lists are read), size_limit.go (the bound of its size), row_eviction.go (which rows go first).
package history
