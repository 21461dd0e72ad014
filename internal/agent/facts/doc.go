// Package facts measures what groups are made of: what a machine is called, what it
// runs, how large it is, what it runs on. It runs no program and makes no request, with
// one exception: Meter.Resolve asks the resolver for the machine's full name, and is
// bounded by its context.
//
// The folders of the system are one fs.FS, so that tests measure trees of files from
// other machines. A Meter has one lock and no goroutine of its own. Start reading at
// meter.go; names.go lists the facts, and is the source of docs/reference/facts.md.
package facts
