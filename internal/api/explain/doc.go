// Package explain answers muster why: for a node, the reasons for its groups and checks; for a
// check on a node, the chain from its declaration to the last delivery, with the reason where the
// chain ends early.
//
// Start reading at chain.follow.
package explain

import "github.com/muster-fleet/muster/internal/api/op"

// request is one request for an explanation.
type request struct{ op.Request }

type subject = op.Subject[*request]

// Register adds the operations of this subject.
func Register(r *op.Routes) {
	registerWhy(op.For(r, func(q op.Request) *request { return &request{q} }))
}
