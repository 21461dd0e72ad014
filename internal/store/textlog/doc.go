// Package textlog keeps the text and log values of items: compressed blocks by partition in a SQLite file, each with a Bloom filter
// of its words and streams. A stream is an item of a Template on a node.
//
// In: the rows of each commit, which a worker of the metric reducer appends to the open block of its partition in memory. A block of
// 256 KiB is complete, and Run writes it. Flush writes all rows of a partition with the position of their last commit in one
// transaction; the snapshot of the partition waits for that. So a replay after a crash appends the lost rows again, and leaves out
// those of commits up to Position. Out: the newest rows that match words, a node, an item and a time span (Find).
//
// A mutex per partition guards its rows in memory, another one serializes the writes, a third one guards the bytes that wait for
// them. Run is the only goroutine. Start reading at store.go; block_encoding.go and bloom_filter.go have the bytes.
package textlog
