// Package event turns results into event state, problems and transitions: the
// event view of the journal.
//
// It is a pure function of the journal and of chunks: it reads no wall clock, no
// SQL and no random number. Deliver takes commits in order; workers own partitions
// and apply each commit's sections to them; what changed leaves as transitions.
// Snapshot and Restore save a partition with the position it reflects. Start
// reading at view.go (what others call), then apply.go (the pipeline, top to
// bottom).
package event
