// Package dispatch turns transitions into history, problems and messages.
//
// In: transitions of the event view (Dispatcher.Emit); routes, silences and windows (package route); names and definitions
// (Names). Out: rows of package history, written in one transaction with the positions up to which they reach; messages,
// sent by package handler.
//
// # Stages
//
//  1. transition_queue.go queues transitions, bounded in bytes. It never blocks the view unless the queue's policy says so. When it
//     overflows it drops transitions, and queue_consumer.go derives them again from the journal (package rederive).
//  2. history_rows.go makes rows of transitions. It skips those that the recorded positions cover, so a replay after a crash
//     records nothing twice.
//  3. router.go keeps one escalation for each problem and route: when each step is due, which handlers were notified, and
//     the hold. withheld_notifications.go decides on holds; incident_ids.go keeps the ids under which each handler knows problems; followup_notifications.go
//     ends problems and reminds of them. notify_due_steps.go composes the messages of one transaction (delivery_batch.go).
//  4. dispatcher.go writes entries, problems, escalations, deliveries and positions in one transaction.
//  5. deliver.go sends the messages of the outbox (outbox.go): at least once, in order per problem and handler, with an
//     idempotency key that stays the same over attempts.
//
// Beside them: sensu_event_pipeline.go evaluates events by the pipelines kept from Sensu, with its own queue and positions;
// reconcile_open_problems.go compares history with the view at the start; routing_change.go routes problems that
// opened before their route; test_and_replay_messages.go tests handlers, replays dead letters and
// repeats open problems to Alertmanagers.
//
// A problem is of a node and a source (model.Source). Nothing here knows checks but the definitions that name handlers,
// and pipelines.
//
// # Goroutines and locks
//
// Dispatcher.Run is one goroutine, and owns the router and the recorded positions. It starts the deliverer (and one
// goroutine for each message under way), the cleaner, the Alertmanagers' refresh, and the event pipeline with its
// evaluators. Locks, each taken alone: backlog.mu, outbox.mu, outcomes.mu and eventPipeline.mu; one gate per
// Alertmanager, held during a post.
//
// Start reading at Dispatcher.Run in dispatcher.go, then history_rows.go, router.go and deliver.go.
package dispatch
