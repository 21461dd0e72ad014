// Package preflight says before a run what on this machine would break it, all at once and with
// what to type, and what would spoil its figures.
//
//	check.go    all of it: open files, memory, disk
//	ports.go    local ports
//	demand.go   what a run asks of a machine
//	busy.go     who else uses it
//	disk_*.go   room on a disk
//
// Goroutines: none. Locks: none. Start reading at check.go.
package preflight
