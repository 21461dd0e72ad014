// Package tools holds the Assets of the server's own commands: handlers, filters and mutators. It knows all Assets and the
// resources that name them (the planner calls Set and Remove as resources change), chooses the archive for the server's
// machine, and extracts it with the agents' cache.
//
// One lock guards the tables and is held for a moment; the only goroutine is the cache's (Box.Run). Start reading at box.go.
package tools
