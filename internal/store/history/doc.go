// Package history keeps what happened: status changes, problems, and the outbox of
// notifications, in SQLite or PostgreSQL. It is off the acknowledgement path:
// whatever happens here delays nothing but itself.
//
// In goes a Batch of the reactor: rows, messages, and the places up to which they
// reach, in one transaction, so that a replay after a crash repeats nothing. Out come
// lists for people and what is due to be delivered. It owns no goroutine and no lock
// of its own. Start reading at store.go; both engines are sqlstore.go and outbox.go
// on package sqldb, and pass historytest.
package history
