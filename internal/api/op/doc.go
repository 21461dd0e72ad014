// Package op is the base of every operation of the API: registration with the access that it
// needs, the one form of errors, bounds of bodies, time and concurrency, streams, the record of
// actions by hand, and the OpenAPI document.
//
// An operation without a declared need panics when it is registered, so no test of the API passes.
//
// Start reading at Handle.
package op
