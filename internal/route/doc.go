// Package route decides the recipients of a problem and the holds on its notifications: the routes
// that take it, the silences and windows that cover it. It is pure: no clock, no store, no
// goroutine; the same problem and the same resources give the same answer. Table has a mutex.
//
// Selectors are indexed by the most selective criterion that they name (a node, a group, a label, a
// check), so the cost of a decision depends on the selectors that could match, not on the number of
// silences.
//
// Start reading at problem.go (the input of a decision), then selector_index.go.
package route
