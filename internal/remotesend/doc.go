// Package remotesend sends the numbers that the series store keeps to another store, by Prometheus remote write.
//
// In: the stored numbers of each commit, from the metric view. They go into a log of their own (sample_queue.go) before a snapshot covers
// them, so that a kill loses none. Out: requests of remote write 1.0 (send_queued_samples.go), from a position in that log, which marks in the log
// keep. A number may be sent twice after a kill, with equal time and value.
//
// Goroutines: Queue.Run, which sends, and one during a request or pause of it, which ends it when the log is full. Locks: Queue.mu, for the positions of partitions and the state.
// Start reading at Queue.Append, then Queue.Run.
package remotesend
