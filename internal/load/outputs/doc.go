// Package outputs makes what the checks of simulated machines say: the status and the output
// of each result, the same for the same seed.
//
//	digits.go  outputs that are all different and look like a plug-in's
//	words.go   the interface of generators, and its implementations: a mix of statuses, flapping, the words of plug-ins
//
// Goroutines: none. Locks: none: a generator never changes. Start reading at words.go.
package outputs
