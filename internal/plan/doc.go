// Package plan compiles intent into assignments: which chunks and which property
// values each node holds. It keeps group membership and assignments in memory,
// shared between nodes that run the same set, and works in proportion to what
// changed: a changed check touches its targets, a changed node touches itself.
//
// In go changes of intent (Load, then CatchUp or Apply); out come the nodes whose
// assignment differs (Subscribe), assignments (For), chunks by id (Chunk), marks of
// what is expected no more (Options.Forget), and answers to who, where and why
// (Directory, Preview, Explain).
//
// A change goes this way: translate.go decodes it into definitions (defs.go) and
// numbers new chunks (chunks.go); pass.go brings the fleet (fleet.go) up to date:
// definitions (define.go), conditions and groups (members.go), checks on nodes
// (holders.go); build.go composes the assignments of the nodes that were touched,
// with their properties (properties.go). Start reading at planner.go.
//
// The package starts no goroutine. Compiling is one at a time, under one mutex;
// readers wait only for the moment in which a pass changes the fleet, never for the
// store.
package plan
