package pki

import "context"

// Tokens finds join tokens. A use is counted by Registrar.Register, with the node that it
// makes: a token of which the node was not kept is as good as before.
type Tokens interface {
	// Find is the token with this id, with Kept set. One that is not there is a
	// model.NotFound error.
	Find(ctx context.Context, id string) (JoinToken, error)
}
