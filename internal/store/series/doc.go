// Package series is the store of numeric values of items: appended by the workers of the metric reducer, read by PromQL.
//
// Each worker has an Appender. A commit of the journal is one transaction: its values and one position sample, which are
// one record of the write-ahead log. A kill keeps both or none, so a replay that begins behind Store.Stored appends each
// value once. A commit with late values gets its position in Store.Sync instead, which first syncs the log of late values.
// Floor counts only commits that are synced to the disk.
//
// A commit that fails leaves the appender behind: it refuses everything until Restart, after which the caller appends again
// from the commit behind Written. The journal keeps these values: its cut counts Floor as a consumer.
//
// Open stands on Prometheus' tsdb.
//
// Goroutines: the tsdb has its own (compaction). An Appender belongs to one goroutine; any goroutine may call the Store.
// Locks: Sync holds syncing while it works and takes mu, which guards the positions, for moments.
// Start reading at store.go.
package series
