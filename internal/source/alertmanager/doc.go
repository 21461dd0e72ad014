// Package alertmanager is the way in for alerts of whoever speaks to a Prometheus
// Alertmanager: Prometheus itself, Grafana's contact points, vmalert, rulers (docs/alerts.md is
// the manual). They come in by POST api/v2/alerts.
//
// An alert's name is a passive check, made when it is first heard of; what it is about is a
// node, or a proxy node that is made likewise (places.go). All alerts of one name about one node
// are one event: its status is that of the worst that fires, its output lists them (said.go). What fires
// is kept in memory (firing.go), because senders say it again every minute; what nobody says any more
// ends by its endsAt, counted by a clock that stands still with this process. What changes
// becomes a result of the server (Config.Write), durable before a sender hears that it is well.
// After a start, events that are open stay so until senders had time to say it again.
//
// Goroutines: those of requests, and Run, which ends what nobody says any more. Locks, in
// order: making, which keeps the same place from being made twice; then writing, which is held from what
// is decided to where the journal has it in its queue. Start reading at take.go.
package alertmanager
