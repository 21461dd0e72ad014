// Package expect is the deadline engine: a missed keepalive and an overdue TTL are both
// an id whose deadline passed on the journal's listening time.
//
// In: ids with deadlines, and the present time. Out: the ids whose deadline passed. It
// owns no goroutine, no lock and no clock: the caller passes the time and guards the
// engine with a mutex of its own. Ids are small dense numbers (slots of the view).
// Start at engine.go.
package expect
