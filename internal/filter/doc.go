// Package filter decides by the event filters that a Sensu backend kept, and changes events by
// its mutators (mutate.go): JavaScript (ES5 and a little more) over the event, run in a
// sandbox. It knows nothing of pipelines: who wants a decision compiles a Filter once and asks it with an event in
// Sensu's shape (Shape makes one of ours).
//
// An expression is parsed, held to an allow-list of syntax, and run in an interpreter whose
// built-ins were pruned to an allow-list, bounded and frozen. It reaches nothing of the
// host: no require, no eval, no Function, no console. Interpreters wait in a pool of each
// program; as everything that outlives an evaluation is frozen, no event sees another's
// variables. One that ended in an error is thrown away.
//
// Libraries (library.go) are run before an expression, in its function and within its time.
//
// What is bounded: source (MaxSource, MaxLibraries), time (interrupted between two instructions), depth of
// calls, and what one built-in may do at once (length of texts and arrays, size of regular
// expressions, none of which backtrack). What is not: the interpreter counts no bytes, so
// that a loop may allocate as much as it gets done within the time limit; and one call of a
// built-in is not interrupted, so that the worst of them end late, but end.
//
// A program that comes to its time limit again and again rests for a while (rest.go).
//
// No goroutines of its own; one lock per program, held for a moment. A Program and a Filter may be used by many at once.
// Start reading at filter.go, then compile.go, sandbox.go and run.go.
package filter
