// Package compliancelog keeps the history of directive runs: an entry for each run that differs from the run before it, in
// blocks by partition, in a SQLite file or PostgreSQL. An entry names the components that changed, so the history grows with
// changes and not with runs. A checkpoint has all runs of a partition; a reader starts there.
//
// In: entries and checkpoints of the compliance reducer, which appends them to memory; Flush writes them. A partition's snapshot
// waits for a flush, so that a replay after a crash makes the lost entries again. Out: the runs of all nodes at a time (At), and
// each change of a time span (Changes). One mutex guards the entries that are not written yet, another one serializes flushes;
// Run is the only goroutine. Start reading at store.go; block_encoding.go has the bytes, merge_blocks.go merges small blocks.
package compliancelog
