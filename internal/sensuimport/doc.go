// Package sensuimport turns the files of `sensuctl dump`, and files for `sensuctl create -f`, into Muster's resources and
// reports line by line the fields that it could not carry.
//
// A file becomes objects (read.go). One function per type reads the fields that it understands (check.go, handler.go,
// entity.go, …); a field that no function read is reported (fields.go). names.go, tokens.go and expression.go translate
// names, tokens and expressions. With ImportInto, objects may name resources that a server has (existing.go).
//
// Pure: no goroutines, no locks, no files but the bytes passed in. Start reading at Import in import.go.
package sensuimport
