// Package react is what happens when something changes.
//
// The event view calls Emit with transitions; they wait in a bounded backlog
// (backlog.go) that never blocks the view. One goroutine (reactor.go) takes them in
// batches and writes history, problems, outbox and its own place per partition in
// one transaction: after a crash the view emits again what it replays, and what the
// places say is recorded is passed over (batch.go). The deliverer (deliver.go) works
// off the outbox: at least once, in order per problem and handler, with an idempotency
// key; how each kind of handler is told is package handler. Alertmanagers are told again of
// what is open (standing.go); people try handlers and replay dead letters (byhand.go).
//
// Who is told what, and when, is the router's (router.go, then fire.go); under which ids each handler
// knows it, incident.go says. What was lost in spite of all is found at the start (missed.go).
//
// When the backlog overflows (the store was away for long), what it dropped is made
// again from the journal (replay.go, lag.go; package rederive).
//
// Events of checks with pipelines kept from Sensu have a backlog and places of their own
// (sights.go, shown.go): slow JavaScript holds back nothing else. One pass at a time makes again
// what either dropped; that of pipelines gives way.
//
// Start reading at reactor.go, then batch.go and deliver.go.
//
// Goroutines: Run, that of pipelines with those that evaluate, the deliverer, one per message under way, the one that repeats, and the one that cuts off what is under way when the server stops. Locks:
// the backlog's and the deliverer's, never both; and one per Alertmanager, which is held while
// it is told: no other is waited for under it but the deliverer's, for a moment; one over the last verdicts of pipelines; and one over
// outcomes that wait to be written, which is held for a moment only.
package react
