package pki

import "context"

// Tokens keeps join tokens. Use is atomic: of two machines with the last use of a
// token, one is refused.
type Tokens interface {
	Create(ctx context.Context, t JoinToken) error
	List(ctx context.Context) ([]JoinToken, error)
	Delete(ctx context.Context, id string) error
	// Use finds the token by id, calls check with it and counts one use if check
	// returns nil. A token that is not there is a model.NotFound error.
	Use(ctx context.Context, id string, check func(JoinToken) error) (JoinToken, error)
}
