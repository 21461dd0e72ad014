// Package promapi is Prometheus' HTTP API of queries over the series of items, at /prometheus on the listener for people:
// Grafana and promtool use it as a Prometheus.
//
// A query reaches the series through the View of its request, so a caller bound to namespaces finds no others, whatever
// the expression is. Answers and errors have Prometheus' form; refusals before an operation (no token, no role) have
// the form of Muster's API.
//
// Goroutines: none. One lock: op.Quota's.
//
// Start reading at Register.
package promapi
