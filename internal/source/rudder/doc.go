// Package rudder is the source for unmodified agents of Rudder: the part of a Rudder relay that takes inventories and the reports of
// runs. docs/from-rudder.md is the manual.
//
// In: HTTPS requests of a listener of its own, by PUT as to a WebDAV server, from addresses that a namespace allows
// (spec.rudderFrom). An inventory is two files, the inventory and its signature (pair_inventory_uploads.go). The first one of a node enrols it with the
// key in it (node_state.go); every later inventory and run has to be signed by this key. Out: signals in the journal, in a stream with
// numbers that the server gives: an inventory as the difference to the node's present one (read_inventory.go), a run as one report for each
// directive of the node that Rudder's agents run (evaluate_run_compliance.go). A request is answered when its signals are durable.
//
// Decoders, each bounded and with a fuzz target: compressed bodies (uncompress.go), XML and JSON of inventories (parse_inventory_elements.go), signatures
// (signature.go), lines of runs (parse_run_log.go).
//
// Goroutines: one per request, of net/http. Locks, in order: a node's mu, held while a request of it is handled; then nodes.mu, or
// uploads.mu. Start reading at server.go.
package rudder
