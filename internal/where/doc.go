// Package where compiles and evaluates conditions: CEL over the variables of a node (targets and
// groups) and over further variables that a caller declares (events, in the API).
//
// Compile bounds a condition in length, depth and cost, so evaluating it over a whole fleet needs
// no counting. Evaluation uses one reused Node instead of a map per node: half a microsecond,
// without allocations of its own.
//
// The package has no goroutines and no locks. Start reading at condition.go (a condition over a
// node), then language.go (compilation of any condition) and node.go.
package where
