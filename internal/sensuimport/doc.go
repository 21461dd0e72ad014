// Package sensuimport turns what `sensuctl dump` wrote, and files that `sensuctl create -f`
// takes, into Muster's resources, and says line by line what it could not carry.
//
// A file becomes objects (read.go); of each, one function per type takes the fields that it
// understands (check.go, handler.go, entity.go, …). What nobody took is reported by itself:
// nothing is left out in silence (fields.go). Names, tokens and expressions are translated in
// names.go, tokens.go and expression.go.
//
// Pure: no goroutines, no locks, no files but the bytes that are handed in. Start reading at
// Import in import.go.
package sensuimport
