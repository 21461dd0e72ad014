// Package react turns transitions into history, problems and messages.
//
// In: transitions of the event view (Reactor.Emit); routes, silences and windows (package route); names and definitions
// (Names). Out: rows of package history, written in one transaction with the positions up to which they reach; messages,
// sent by package handler.
//
// # Stages
//
//  1. backlog.go queues transitions, bounded in bytes. It never blocks the view unless the queue's policy says so. When it
//     overflows it drops transitions, and consumer.go derives them again from the journal (lag.go; package rederive).
//  2. batch.go makes rows of transitions. It skips those that the recorded positions cover, so a replay after a crash
//     records nothing twice.
//  3. router.go keeps one escalation for each problem and route: when each step is due, who was notified, what holds it.
//     dependencies.go, rate.go and severity.go decide on holds and reminders; incident.go keeps the ids under which each
//     handler knows problems; close.go ends them. notify.go makes the messages of one transaction (deliveryBatch).
//  4. reactor.go writes entries, problems, escalations, deliveries and positions in one transaction.
//  5. deliver.go sends what the outbox holds: at least once, in order per problem and handler, with an idempotency key
//     that stays the same over attempts.
//
// Beside them: event_pipeline.go evaluates events by the pipelines kept from Sensu, with its own queue and positions;
// reconcile.go compares history with the view at the start; alertmanager.go repeats open problems to Alertmanagers;
// manual.go tests handlers and replays dead letters.
//
// A problem is of a node and a source (model.Source). Nothing here knows checks but the definitions that name handlers,
// and pipelines.
//
// # Goroutines and locks
//
// Reactor.Run is one goroutine, and owns the router and the recorded positions. It starts the deliverer (and one
// goroutine for each message under way), the cleaner, the Alertmanagers' refresh, and the event pipeline with its
// evaluators. Locks: backlog.mu and deliverer.mu, never both; assetWaits.mu, outcomes.mu and eventPipeline.mu, each alone;
// one gate per Alertmanager, held during a post, under which only deliverer.mu is taken.
//
// Start reading at Reactor.Run in reactor.go, then batch.go, router.go and deliver.go.
package react
