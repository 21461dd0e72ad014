// Package snapshot stores the partitions of a view at a position of the journal,
// so that a restart replays only the commits behind it.
//
// One file per partition and position, the last two kept: written beside, synced,
// renamed, folder synced. A file takes its name only when reactions have taken
// their transitions up to its position (Cycle waits for them), because commits that a
// snapshot replaces are never replayed. Load picks the newest whole one that the log reaches,
// else the one before, and logs why it skipped others. Cycle writes the partitions
// in turn; the journal keeps all commits behind Floor.
//
// Store has one mutex over its table of files; files are read and written outside
// it. Cycle.Run writes files, and one goroutine of its own gives them their names.
// Start at store.go, then format.go (the bytes, also in docs/snapshot-format.md).
package snapshot
