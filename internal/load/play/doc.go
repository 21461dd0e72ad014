// Package play makes the signals that agents send beside results, values and runs of directives, and reads what the server has
// of them in the end. It opens no session: the agents of package load send what a Source makes.
//
// values.go and directives.go have the sources, readvalues.go and readruns.go the readers. Goroutines: none. A pool of buffers
// is the only lock. Start reading at Source.
package play
