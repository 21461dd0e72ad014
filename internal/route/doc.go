// Package route decides who hears of a problem, and what keeps that back: which routes
// take it, which silences and windows cover it. It is pure: no clock, no store, no
// goroutine; the same problem and the same resources give the same answer.
//
// What picks problems is posted in an index under the narrowest thing that it names (a
// node, a group, a label, a check), so that a decision looks at what could concern its
// problem and at nothing else, however many silences there are.
//
// Start reading at problem.go (the problem that a decision reads), then selector.go, index.go.
package route
