package pki

import "context"

// Tokens finds join tokens. Registrar.Register counts a use together with the node, so a failed
// registration uses nothing.
type Tokens interface {
	// Find returns the token with this id, with Stored set, or a model.NotFound error.
	Find(ctx context.Context, id string) (JoinToken, error)
}
