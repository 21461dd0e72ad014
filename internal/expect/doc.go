// Package expect is the one deadline engine: a keepalive that did not come, a
// check's TTL that ran out, later a missing report or nodata() are all an id whose
// deadline passed on the journal's listening time.
//
// It owns no goroutine, no lock and no clock: the caller says what time it is and
// guards the engine with its own mutex. Ids are small dense numbers (slots of the
// view). Start at engine.go.
package expect
