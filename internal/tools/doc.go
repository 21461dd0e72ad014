// Package tools has what commands of the server's own need of Assets: handlers, and what is kept
// from Sensu. It knows which Assets there are and who names them (Set, Remove: the planner calls
// them as resources change), chooses the archive for the server's machine, and has it extracted
// by the cache that agents have, too.
//
// Its lock guards the tables and is held for a moment; no goroutine but the cache's (Box.Run).
// Start at box.go.
package tools
