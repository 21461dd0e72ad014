// Package subject is the server under test: one that a run starts for itself, in a data
// folder of its own that is prepared beforehand and gone afterwards (start.go), or one that
// runs already and is prepared through its API (join.go). It says where the server is,
// acts on its process for faults, and reads it: profiles while it is steady or when it
// fails (profile.go), its log (log.go), and what it depends on (environment.go).
//
// No process is left behind: internal/guard ends the server when the loader ends, however
// that comes about. A folder is left only by a loader that was killed.
//
// Goroutines: one for each process, that waits for its end; one while profiles are taken.
// Locks: Subject.mu guards which process it is. Start reading at start.go, then process.go.
package subject
