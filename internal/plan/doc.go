// Package plan compiles intent into assignments: which chunks and which property
// values each node holds. It keeps group membership and assignments in memory,
// shared between nodes that run the same set, and works in proportion to what
// changed: a changed check touches its targets, a changed node touches itself.
// Start reading at planner.go.
package plan
