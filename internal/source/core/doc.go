// Package core holds the parts of a session that all sources share whose agents keep a connection: Muster's own agents
// (internal/source/muster) and Sensu's (internal/source/sensu). A source adds its wire format and its dialogue.
//
// In: results that a source has decoded. Out: journal entries, and acknowledgements after their commit.
//
//   - Registry finds the session of a node (registry.go).
//   - Window bounds a session's uncommitted bytes and ends its appends (window.go); Record builds the entries of a batch,
//     results about proxy nodes included (record.go); Node.Mark is the entry of a session's beginning and end (node.go).
//   - Limiter and Budget hold the limits of namespaces and nodes, and pause a reader that is over one (limits.go, budget.go).
//   - Clock is the listening time by which a silent peer is found (clock.go).
//
// Goroutines: the package starts none. Locks, in order: Registry, a Window's append lock, its Mu; Limiter and Budget lock
// nothing else. Start reading at window.go, then record.go.
package core
