// Package metrics exports the counts of packages that are also linked into the agent
// (journal, queues): they do not import Prometheus, which would make the agent
// 1.6 MB larger. Every other package registers its own metrics.
//
// No goroutines, no locks; values are read at each scrape. Start reading at journal.go.
package metrics
