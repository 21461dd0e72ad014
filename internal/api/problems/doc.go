// Package problems answers about problems and the history of events: changes of status, events at
// a past time, availability of checks, nodes and groups.
//
// The event view knows the present, the history store the changes. A past status is computed from
// both: the present one, and the changes after the time in question. Events of deleted nodes come
// last (deleted_nodes.go).
//
// Start reading at Register.
package problems

import "github.com/muster-fleet/muster/internal/api/op"

// request is one request about problems and history.
type request struct{ op.Request }

type subject = op.Subject[*request]

// Register adds the operations of this subject.
func Register(r *op.Routes) {
	at := op.For(r, func(q op.Request) *request { return &request{q} })
	registerProblems(at)
	registerHistory(at)
}
