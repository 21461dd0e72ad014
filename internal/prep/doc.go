// Package prep preprocesses values of items: Zabbix's steps with Zabbix's semantics. A Chain is compiled once from the
// steps of an item and shared by all nodes; the caller keeps a State per item that a step of the chain needs (last value
// and time), and a Parsed per value of a master item, which its dependents share.
//
// The package is pure: no clock (a value brings its time), no input or output, no random numbers. Only the time limits of
// JavaScript and of regular expressions that backtrack are measured; scripts and patterns that exceed them repeatedly are
// suspended. It has no goroutines and no locks; a Chain is safe for concurrent use, a State and a Parsed belong to one
// goroutine at a time.
//
// Start reading at step_chain.go, then step_types.go, which lists all steps.
package prep
