// Package history keeps what happened: status changes, problems, and the outbox of
// notifications, in SQLite or PostgreSQL. It is off the acknowledgement path:
// whatever happens here delays nothing but itself. Start reading at store.go.
package history
