package intent

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// tokenKind is the kind of the rows of join tokens.
const tokenKind = "jointoken"

// JoinTokens keeps join tokens as rows of the intent store.
type JoinTokens struct{ Store Store }

func tokenKey(id string) Key { return Key{Kind: tokenKind, Name: id} }

// Create adds a token.
func (s JoinTokens) Create(ctx context.Context, t pki.JoinToken) error {
	return s.put(ctx, t, 0, "join token created")
}

func (s JoinTokens) put(ctx context.Context, t pki.JoinToken, expect int64, why string) error {
	body, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("keep join token %s: %w", t.ID, err)
	}
	who := Who{User: t.By, Whence: "local", Why: why}
	if expect != 0 {
		who.User = "server"
	}
	_, err = s.Store.Commit(ctx, who, []Write{{Key: tokenKey(t.ID), Body: body, Expect: expect}})
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

// Delete forgets a token; nodes that joined with it stay.
func (s JoinTokens) Delete(ctx context.Context, id string) error {
	_, err := s.Store.Commit(ctx, Who{User: "server", Why: "join token deleted"},
		[]Write{{Key: tokenKey(id), Expect: -1}})
	return err
}

// Use counts by optimistic concurrency: whoever loses the race looks again.
func (s JoinTokens) Use(ctx context.Context, id string, check func(pki.JoinToken) error) (pki.JoinToken, error) {
	for {
		row, err := s.Store.Get(ctx, tokenKey(id))
		if err != nil {
			return pki.JoinToken{}, err
		}
		var t pki.JoinToken
		if err := json.Unmarshal(row.Body, &t); err != nil {
			return pki.JoinToken{}, fmt.Errorf("read join token %s: %w", id, err)
		}
		if err := check(t); err != nil {
			return pki.JoinToken{}, err
		}
		t.Uses++
		err = s.put(ctx, t, row.Revision, "join token used")
		if err == nil || model.ClassOf(err) != model.Conflict {
			return t, err
		}
	}
}
