// Package filter evaluates Sensu's event filters and mutators (run_javascript.go): JavaScript (ES5 and a little more)
// over an event, in a sandbox; and Zabbix's preprocessing scripts (zabbix_script.go) over a value. It knows no
// pipelines: a caller compiles a Filter once and calls it with events in Sensu's shape (SensuEvent converts an event
// of Muster's).
//
// An expression is parsed, checked against an allow-list of syntax, and run in an interpreter whose built-ins are
// pruned to an allow-list, bounded and frozen. It reaches nothing of the host: no require, no eval, no Function, no
// console. Each program has a pool of interpreters; everything that outlives an evaluation is frozen, so no event
// reads another's variables. An interpreter whose evaluation failed is thrown away.
//
// Libraries (compile_javascript.go) run before an expression, in its function and within its time.
//
// Bounded are: source (MaxSource, MaxLibraries), time (interrupted between two instructions), depth of calls, and the
// work of one built-in (length of texts and arrays, size of regular expressions, none of which backtrack). Regular
// expressions end with the time, too, although the interpreter's second engine for them backtracks. Not bounded is
// the memory that a loop allocates within the time limit.
//
// A program that exceeds its time limit several times in a row is suspended for a while (run_javascript.go).
//
// No goroutines of its own; one lock per program, held for a moment. A Program and a Filter are safe for concurrent
// use. Start reading at filter.go, then compile_javascript.go, javascript_sandbox.go and run_javascript.go.
package filter
