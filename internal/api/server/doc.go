// Package server answers about the server itself: status, version, queues, health.
//
// Start reading at request.status.
package server

import (
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
)

// Options are the surroundings of this subject.
type Options struct {
	// Describe fills in the state of the server itself: Server, Started, Connected, Journal,
	// Reactions and Warnings.
	Describe func() v1.Status
	// NotReady returns the reasons why the server is not ready; none: it is.
	NotReady func() []string
	// Pending returns the number of machines that wait to be accepted; nil: unknown.
	Pending func() int
}

// request is one request about the server.
type request struct {
	op.Request
	Options
}

type subject = op.Subject[*request]

// Register adds the operations of this subject, and the health checks.
func Register(r *op.Routes, o Options) {
	registerStatus(op.For(r, func(q op.Request) *request { return &request{q, o} }))
	op.HandleHealth(r.Mux, o.NotReady)
}
