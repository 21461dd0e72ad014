// Package outputs makes what the checks of simulated machines say: the status and the output
// of each result, the same for the same seed.
//
//	generator.go  what is asked of whatever makes them
//	digits.go     outputs that are all different and look like a plug-in's
//	words.go      what a scenario asks for: a mix of statuses, flapping, the words of plug-ins
//
// Goroutines: none. Locks: none: a generator never changes. Start reading at generator.go.
package outputs
