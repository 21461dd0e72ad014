// Package alertmanager is the source for senders that speak to a Prometheus Alertmanager: Prometheus itself, Grafana's
// contact points, vmalert, rulers. docs/alerts.md is the manual.
//
// In: POST api/v2/alerts (receive_alerts.go). An alert's name is a passive check, its labels name a node or proxy node;
// both are created when an alert first names them (map_alerts_to_checks.go). All alerts of one name on one node are one event: its
// status is the worst of the firing alerts, its output lists them (alert_event_state.go). Firing alerts are kept in memory
// (alert_event_state.go), because senders repeat them every minute. An alert that is not repeated ends by its endsAt, on a clock that
// stops with this process (alert_lifetimes.go). Out: a result of the server for each changed event (Config.Write), durable
// before the sender gets its answer. After a start, open events stay open until senders have had time to repeat them.
//
// Goroutines: one per request, and Run, which ends alerts. Locks, in order: creation, so that two requests do not create
// the same check; then mu, held from the decision on results until the journal has queued them. Start reading at
// receive_alerts.go.
package alertmanager
