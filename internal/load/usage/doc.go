// Package usage is what the server under test, the loaders and their machine used: of the
// processor, of memory, of the disk, of the network, and of the time that goroutines waited for
// locks.
//
//	process.go   what Linux says of a process, and of all of them
//	machine.go   what the machine is
//	metrics.go   a server's own metrics
//	locks.go     the time that was waited for locks, as a share
//	odometer.go  what all lives of a server used so far
//	gained.go    what was used in some stretches of a run
//
// Goroutines: none of its own; Meter.Run is one of the run's. Locks: an Odometer's and a Meter's,
// each alone. Start reading at gained.go.
package usage
