// Package journal makes signals durable: an append-only log with group commit. The server's journal and
// the agent's spool are the same code.
//
// Many callers Append entries. One goroutine collects the waiting entries into a commit, writes it,
// syncs it, passes it to Options.Deliver (the views) and then calls each entry's Waiter. Read returns
// the same stream from a position on.
//
// Goroutine: the committer lives from Open to Close and owns the segmentWriter with its reserve. Locks:
// batchQueue.mu guards the waiting entries, Log.mu head, segments and counters. Log.mu may be held
// when batchQueue.mu is taken, never the other way round. Neither is held during a disk operation, a
// Deliver or a Waiter.
//
// Start reading at journal.go (the interface), then segmented_log.go (Append, Cut), append_queue.go, committer.go and
// segment_writer.go (the way to the disk), open_and_verify.go and segment_reader.go (verification), commit_format.go (the bytes;
// docs/journal-format.md describes them), repair.go.
//
// Sub-packages: disk is the injected file system, memfs one that crashes, faultfs one that fails, stalls
// and fills up, and journaltest has helpers of tests. TestConformance asserts the promises of a Journal.
package journal
