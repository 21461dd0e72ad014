// Package series is the store of numeric values of items: appended by the workers of the metric reducer, read by PromQL.
//
// Newer values are in the head, older ones in blocks of Prometheus' tsdb on the disk. The head is a part of the metric
// reducer's state: Encode appends a partition of it to the partition's snapshot, Decode reads it, and a replay of the journal
// adds the values since. So a value is in the store once, however the server ends, and the head needs no log of its own.
//
// A series in the head has one open chunk of at most 120 values. Full chunks are written to a file for each range of time
// (two hours), in which each record names the one before it of the same series; in memory is only the last one's offset.
// WriteChunks writes full chunks to the file, while values arrive. Encode adds the others to the snapshot, which counts when Sync has
// synced the file. Until then all of them stay in memory.
//
// When a range has ended and half a range has passed, Run writes it to a block and deletes its file. A value for a range that has
// a block, or one older than the newest of its series, is a late value: a sorted list in memory, which the same snapshot has,
// and which queries and blocks merge with the rest. Blocks that overlap are merged by the tsdb's compaction.
//
// Goroutines: Run is one. Locks: a partition's mutex guards its series; maintaining is held while blocks change; the index has locks
// that are taken behind a partition's. Start reading at store_interface.go.
package series
