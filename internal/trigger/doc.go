// Package trigger evaluates Zabbix's trigger expressions over the values of items.
//
// In: the text of an expression, the positions and types of its items, values with their times. Out: True, False or
// Unknown with a reason, and the next deadline of its time functions. Parse checks the grammar, Compile makes a Program
// that all nodes share, and Windows is the state of one trigger on one node. A window advances only: a late value is placed
// by its time, and an evaluation never goes back. Each value costs constant time, amortized; sums keep two stacks and
// subtract nothing, so a restarted server computes the same bits as one that ran on. A window over more than an hour
// keeps aggregates of minutes or hours instead of values.
//
// The package is pure: no clock, no goroutines, no locks. Start reading at Program.Eval in program.go.
package trigger
