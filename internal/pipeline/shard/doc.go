// Package shard computes views of the journal: it divides the fleet into 256 partitions
// by node, applies every commit to them on a few workers, and keeps the state that all views need.
// The views are reducers: events, metrics, compliance, inventories.
//
// Inputs: commits in journal order (Shard.Deliver, or Shard.Apply without goroutines) and,
// before the first commit, snapshots (Shard.Restore). Outputs: positions (Applied,
// WaitApplied), snapshots and hashes of partitions, the stream numbers of a node; each
// reducer answers its own questions.
//
// A shard keeps, for every reducer alike:
//   - the nodes of a partition and their index by namespace (partition_nodes.go);
//   - the last number of every stream, so that a batch that arrives twice counts once (apply_records.go);
//   - node life: sessions, keepalive, backlog, clean stop, reconnect grace (keepalive_deadlines.go);
//   - tombstones of deleted nodes (apply_records.go);
//   - deadlines on listening time, one engine per reducer and partition (keepalive_deadlines.go);
//   - the snapshot container: named, versioned, length-prefixed sections (snapshot_and_restore.go).
//
// A shard and its reducers read no wall clock, no SQL and no random number: the same
// journal gives the same bytes in every section, for any number of workers and from any
// snapshot.
//
// Goroutines: Options.Workers, started by Run. Worker i owns the partitions whose number
// modulo the count of workers is i; it alone changes them. Locks, in this order: a
// partition's mutex (held for microseconds), then the index of places. Reducers may take
// locks of their own inside a partition's mutex; nobody takes a partition's mutex while it
// holds another lock of a reducer.
//
// Start reading at shard.go (the caller's side), then reducer.go (the interface), worker.go
// (one commit), apply_records.go (one record), keepalive_deadlines.go.
package shard
