// Package plan compiles the intent (all declared resources) into assignments: the definitions and property values of each node. It keeps
// group membership and assignments in memory, shared between nodes that run the same set. Its work is in
// proportion to a change: a changed unit touches its targets, a changed node touches itself.
//
// Changes of intent come in (Load, then CatchUp or Apply). Each pass publishes a Directory, calls its
// subscribers, and reports removed results (Options.Removed). Preview compiles without keeping anything;
// the Inspector explains to people.
//
// The way of a change: translate_resource_changes.go decodes resources and compiles units (resource_compiler.go,
// check_compiler.go for checks) and numbers their definitions (definition_store.go). incremental_recomputation.go brings the
// definitions of the fleet (compiled_fleet.go) up to date, then conditions and groups (group_members.go) and the nodes
// of units (target_selection.go). build_node_assignments.go composes the assignments of the affected nodes with their
// properties (merge_node_properties.go). Start reading at planner.go, which publishes the changed records.
//
// The package starts no goroutine. One goroutine compiles at a time, under one mutex; readers of the
// directory take no lock.
package plan
