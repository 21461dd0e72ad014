// Package view is the server's state as the caller of one request may see it: directory, events,
// history, declared resources, routing, and the live state of sessions.
//
// A caller bound to namespaces gets stores in which no other namespace exists (scope.go).
// The wrappers name every method of the wrapped interface: a new method does not compile before its
// answer for a bound caller is written.
//
// The package also turns names into ids, and gives errors about missing names the hint that helps
// (names.go), and makes page tokens.
//
// Start reading at View.For.
package view
