// Package compare says what differs between runs of a load test, and whether that is more
// than chance. Reports go in, a Comparison comes out: it starts nothing and keeps nothing.
//
// A side of a comparison is a Set: one scenario, one build, several runs. Of each figure
// (scenario.Figures) the medians of both sides are compared with the Mann-Whitney test, as
// benchstat does, and beside it with how much the base differs from itself. What
// makes the comparison doubtful (another machine, another scenario, ...) is said in
// sentences, and changes no figure.
//
// Start reading at compare.go, then judge.go.
package compare
