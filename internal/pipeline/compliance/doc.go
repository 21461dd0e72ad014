// Package compliance is the compliance reducer: reports of directives → the last run of each directive on each node, as codes
// of four bits, and an entry of history for each run that differs from the one before. It stands on the shard of package
// pipeline/shard, whose partitions' mutexes guard the state; it has no goroutines and no locks of its own. The event reducer
// applies the same reports to events. Start reading at complianceApplier.Signal in last_directive_runs.go; run_snapshot_encoding.go has the section of
// snapshots, compliance_history.go the entries of history, shared_outcomes.go the memory that equal runs share, changed_runs.go the changes for the API's sums.
package compliance
