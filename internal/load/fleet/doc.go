// Package fleet makes a scenario of a live installation: the number of nodes with each shape of checks, the intervals,
// lengths, statuses and changes of their results. Names become numbers; outputs, labels and commands are not kept, only lengths.
//
// Read asks the API of a server, page by page and with pauses, as a viewer. Fleet.Scenario divides the nodes into a few
// classes of about the same rate; Fleet.YAML is the file.
//
// The package owns no goroutine and no lock. Start reading at read.go, then classes.go and scenario.go.
package fleet
