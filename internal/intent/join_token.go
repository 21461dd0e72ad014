package intent

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/muster-fleet/muster/internal/pki"
)

// tokenKind is the kind of the rows of join tokens.
const tokenKind = "jointoken"

// JoinTokens stores join tokens as rows of intent.
type JoinTokens struct{ Store Store }

func tokenKey(id string) Key { return Key{Kind: tokenKind, Name: id} }

// Create adds a token.
func (s JoinTokens) Create(ctx context.Context, by Actor, t pki.JoinToken) error {
	body, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("keep join token %s: %w", t.ID, err)
	}
	_, err = s.Store.Commit(ctx, by, []Write{{Key: tokenKey(t.ID), Body: body}})
	return err
}

// List returns all tokens, by id.
func (s JoinTokens) List(ctx context.Context) ([]pki.JoinToken, error) {
	rows, err := s.Store.List(ctx, ListQuery{Kind: tokenKind})
	if err != nil {
		return nil, err
	}
	list := make([]pki.JoinToken, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal(row.Body, &list[i]); err != nil {
			return nil, fmt.Errorf("read join token %s: %w", row.Name, err)
		}
	}
	return list, nil
}

// Delete removes a token; nodes that joined with it stay.
func (s JoinTokens) Delete(ctx context.Context, by Actor, id string) error {
	_, err := s.Store.Commit(ctx, by, []Write{{Key: tokenKey(id), Expect: -1}})
	return err
}

// Find implements pki.Tokens.
func (s JoinTokens) Find(ctx context.Context, id string) (pki.JoinToken, error) {
	t, _, err := s.find(ctx, id)
	return t, err
}

func (s JoinTokens) find(ctx context.Context, id string) (t pki.JoinToken, revision int64, err error) {
	row, err := s.Store.Get(ctx, tokenKey(id))
	if err != nil {
		return t, 0, err
	}
	if err := json.Unmarshal(row.Body, &t); err != nil {
		return t, 0, fmt.Errorf("read join token %s: %w", id, err)
	}
	t.Stored = true
	return t, row.Revision, nil
}

// use returns the write that counts one use of a token. It goes into the commit that creates the node, so that no
// use is without a node; nil for a token that is not stored. The caller holds nodeIndex.enrolling.
func (s JoinTokens) use(ctx context.Context, token pki.JoinToken) ([]Write, error) {
	if !token.Stored {
		return nil, nil
	}
	t, revision, err := s.find(ctx, token.ID)
	if err != nil {
		return nil, err
	}
	if err := t.Exhausted(); err != nil {
		return nil, err
	}
	t.Uses++
	write, err := (&usedToken{t, revision}).write()
	return []Write{write}, err
}

// usedToken is a stored token with uses that are not written yet.
type usedToken struct {
	pki.JoinToken
	revision int64 // of its row when it was read
}

func (u *usedToken) write() (Write, error) {
	body, err := json.Marshal(u.JoinToken)
	if err != nil {
		return Write{}, fmt.Errorf("keep join token %s: %w", u.ID, err)
	}
	return Write{Key: tokenKey(u.ID), Body: body, Expect: u.revision}, nil
}
