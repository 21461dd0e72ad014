// Package react is what happens when something changes: it takes transitions from
// the event view, writes history, outbox and its own position in one transaction,
// and delivers the outbox to handlers, at least once, in order per problem. Start
// reading at reactor.go.
package react
