// Package snapshot keeps what a view's partitions were at a position of the journal,
// so that a restart replays only what came after.
//
// One file per partition and position, the last two kept: written beside, synced,
// renamed, folder synced. A file takes its name only when reactions have taken
// their transitions up to its position (Cycle waits for them): what a snapshot
// replaces is never replayed. Load picks the newest whole one that the log reaches,
// else the one before, and says what was wrong with the rest. Cycle writes the
// partitions in turn; Floor is what the log must still hold.
//
// Store has one mutex over its table of files; files are read and written outside
// it. Cycle.Run writes files, and one goroutine of its own gives them their names.
// Start at store.go, then format.go (the bytes, also in docs/snapshot-format.md).
package snapshot
