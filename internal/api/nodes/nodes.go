// Package nodes answers about nodes and their agents: states, origins of labels and groups, sessions, join tokens,
// machines that wait to be accepted, enrolment, and the life of a node (rename, replace, retire).
//
// Goroutines: none. Locks, each taken alone: Pending.mu, wrongSecretThrottle.mu.
//
// Start reading at Register.
package nodes

import (
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/pki"
)

// Options has the parts of the server that the operations on nodes and agents use.
type Options struct {
	// JoinTokens keeps join tokens; NewJoinToken makes one (pki.Authority.NewToken with the server's addresses).
	JoinTokens      intent.JoinTokens
	NewJoinToken    func(keep pki.JoinToken) (pki.Token, pki.JoinToken, error)
	PendingMachines *Pending            // machines that wait to be accepted; nil: no machine may wait
	CA              func() v1.Authority // nil: none
}

// nodeRequest handles an HTTP request about nodes and agents. Its methods are the operations of the API.
type nodeRequest struct {
	op.Request
	Options
}

// nodeOperations is the set of operations about nodes.
type nodeOperations = op.OperationSet[*nodeRequest]

// Register adds the API operations about nodes, agents, join tokens and enrolment to the server.
func Register(r *op.Routes, o Options) {
	at := op.NewOperationSet(r, func(q op.Request) *nodeRequest { return &nodeRequest{q, o} })
	registerNodeStates(at)
	registerAgents(at)
	registerJoinTokens(at)
	registerPending(at)
	registerNodeLifecycle(at)
}
