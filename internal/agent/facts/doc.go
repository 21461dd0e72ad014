// Package facts measures the facts of a machine that groups select by: name, system, size, addresses,
// virtualisation and cloud. It runs no program and sends no request, except that Meter.Resolve asks the
// resolver for the machine's full name until its context ends.
//
// The root folder is one fs.FS, so that tests measure files of other machines. A Meter has one lock and no goroutine of its own. Start reading at
// measure_facts.go; Reference there makes docs/reference/facts.md from the list of facts.
package facts
