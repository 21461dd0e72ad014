// Package rules evaluates the RuleGroups of all namespaces: recording rules write series, and alerting rules open problems.
// Prometheus' own package evaluates them. docs/rules.md is the manual.
//
// In: compiled RuleGroups (directory) and series (queries limited to the namespace of a group). Out: records of samples and of
// verdicts in the journal. State: which alerts are active, in memory. After a start it comes from the events in the view
// (alert_events.go) and from the series ALERTS_FOR_STATE, as in Prometheus.
//
// Goroutines: Engine.Run, and one per namespace with groups, evaluator.run, which owns the groups of the namespace. They take
// turns (evaluation_turns.go): a namespace evaluates one group at a time, all together maxEvaluations, so that slow rules
// delay only their own namespace. Locks: Engine.mu and evaluator.mu, for readers of the list of groups, and evaluationTurns.mu; none
// is held while another is taken, but evaluator.mu within Engine.mu.
//
// Start reading at Engine.Run, then evaluator.run.
package rules
