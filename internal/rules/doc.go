// Package rules evaluates the RuleGroups of all namespaces: recording rules write series, and alerting rules open problems.
// Prometheus' own package evaluates them. docs/rules.md is the manual.
//
// In: compiled RuleGroups (directory) and series (queries limited to the namespace of a group). Out: records of samples and of
// verdicts in the journal. State: which alerts are active, in memory. After a start it comes from the events in the view
// (alert_events.go) and from the series ALERTS_FOR_STATE, as in Prometheus.
//
// Goroutines: one, Engine.Run, which evaluates one group at a time, so that rules take at most one CPU. One lock: Engine.mu,
// for readers of the list of groups.
//
// Start reading at Engine.Run, then Engine.evaluate.
package rules
