// Package metrics shows on /metrics what the rooms count that the agent carries too
// (journal, queues): they know nothing of Prometheus, which would make the agent
// 1.6 MB larger. Every other room registers its own.
//
// No goroutines, no locks; what is shown is read when somebody asks. Start reading at
// journal.go.
package metrics
