// Package where compiles and evaluates conditions: CEL over the variables of a node
// (targets and groups) and, for whoever adds some, of more (events, in the API).
//
// A condition is bounded before it first runs, in length, depth and cost, so that
// evaluating it over a whole fleet needs no counting. It is evaluated on one reused
// Node, not on a map made for each: half a microsecond, and nothing allocated but
// what the condition itself makes.
//
// The package has no goroutines and no locks. Start reading at condition.go (a
// condition over a node), then language.go (how any condition is compiled), node.go.
package where
