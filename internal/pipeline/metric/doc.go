// Package metric is the metric view: a reducer that makes values of items from the value blocks of agents, judges triggers
// by them, and keeps the last value of each item.
//
// A block goes through one function, metricApplier.ApplySignal: decode the columns, find the slot of each item, preprocess
// (package prep), judge the triggers of the item (package trigger). A trigger that changes its state makes a verdict.
//
// Verdicts are records of the journal. The view keeps each verdict as pending until it finds the record in the journal: Run
// appends pending verdicts, and a replay, which computes the same verdicts again, takes those away that are recorded. So a
// verdict is in the journal once, whenever the server dies. The event view applies the records.
//
// Slow scripts must not hold a partition: a commit runs few script steps on new values, and defers the values behind them.
// ResumeDeferred writes records at which the view goes on; the clock decides when, and a replay repeats it.
//
// Goroutines: none but the callers' of Run and ResumeDeferred. The shard's partition locks guard the state. Start reading at apply_values.go.
package metric
