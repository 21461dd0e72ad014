// Package snapshot stores the partitions of a view at a position of the journal,
// so that a restart replays only the commits behind it.
//
// The store keeps the last two snapshot files of each partition. A file is written under a temporary name, synced and
// renamed. It gets its final name only when reactions have recorded all transitions up to its position (Cycle waits for
// that), because commits that a snapshot replaces are never replayed. Load chooses the newest undamaged snapshot that
// is not ahead of the journal, and logs why it skipped newer ones. Cycle saves the partitions in turn; the journal
// keeps all commits behind Floor.
//
// Store has one mutex over its table of files; files are read and written outside
// it. Cycle.Run writes files, and one goroutine of its own gives them their names.
// Start at store.go, then file_format.go (the bytes, also in docs/snapshot-format.md).
package snapshot
