// Package kind is the registry of the kinds of resources: one value per kind says how its specs are
// decoded, validated, redacted, shown in tables and details, explained and resolved. The
// API, the command line, import and lint read the registry; nothing else lists kinds.
//
// In: files that people write, stored JSON, the server's state of a resource. Out: resources, flaws, references,
// cells, explanations. All is pure: the package starts no goroutine, holds no lock and keeps no state.
//
// Start reading at Kind and All; check.go shows a large kind, Hook in pipeline_filter_mutator_hook.go a small one. To add a kind,
// write its spec and a function such as Hook, and list it in All: see ARCHITECTURE.md, "Add a kind".
package kind
