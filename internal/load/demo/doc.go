// Package demo is the simulated fleet of `muster up --demo`: nodes with plausible names, checks and
// outputs, some of which fail, played by the agents of a load run.
//
//	fleet.go    the nodes and checks, how they come and go
//	outputs.go  what they say
//
// Goroutines: those of load.Forever. Locks: none. Start reading at fleet.go.
package demo
