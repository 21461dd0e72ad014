// Package event turns results into event state, problems and transitions: the
// event view of the journal.
//
// It is a pure function of the journal and of definitions: it reads no wall clock, no
// SQL and no random number. Deliver takes commits in order; workers own partitions
// and apply each commit's sections to them; changes leave as transitions.
// Snapshot and Restore save a partition with the position it reflects; a snapshot
// may be used only once the dispatcher has recorded that position.
//
// Goroutines: Options.Workers, started by Run, and one per Watch. Locks, in this
// order: a partition's mutex (held for microseconds; its worker alone changes it),
// then the mutexes of the index of places and of a watcher. Emit and Query.Match are called
// without a lock.
//
// Start reading at event_reducer.go (the view on its shard), then apply_results.go (one result, top to
// bottom), status_transitions.go (the next status), keepalive_ttl.go (keepalives and TTLs) and list_events.go (queries).
package event
