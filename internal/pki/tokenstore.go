package pki

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

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

// tokenKind is the kind of the rows of join tokens.
const tokenKind = "jointoken"

// IntentTokens keeps join tokens as rows of the intent store.
type IntentTokens struct{ Store intent.Store }

func tokenKey(id string) intent.Key { return intent.Key{Kind: tokenKind, Name: id} }

// Create adds a token.
func (s IntentTokens) Create(ctx context.Context, t JoinToken) error {
	return s.put(ctx, t, 0, "join token created")
}

func (s IntentTokens) put(ctx context.Context, t JoinToken, expect int64, why string) error {
	body, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("keep join token %s: %w", t.ID, err)
	}
	who := intent.Who{User: t.By, Whence: "local", Why: why}
	if expect != 0 {
		who.User = "server"
	}
	_, err = s.Store.Commit(ctx, who, []intent.Write{{Key: tokenKey(t.ID), Body: body, Expect: expect}})
	return err
}

// List returns all tokens, by id.
func (s IntentTokens) List(ctx context.Context) ([]JoinToken, error) {
	rows, err := s.Store.List(ctx, intent.ListQuery{Kind: tokenKind})
	if err != nil {
		return nil, err
	}
	list := make([]JoinToken, len(rows))
	for i, row := range rows {
		if err := json.Unmarshal(row.Body, &list[i]); err != nil {
			return nil, fmt.Errorf("read join token %s: %w", row.Name, err)
		}
	}
	return list, nil
}

// Delete forgets a token; nodes that joined with it stay.
func (s IntentTokens) Delete(ctx context.Context, id string) error {
	_, err := s.Store.Commit(ctx, intent.Who{User: "server", Why: "join token deleted"},
		[]intent.Write{{Key: tokenKey(id), Expect: -1}})
	return err
}

// Use counts by optimistic concurrency: whoever loses the race looks again.
func (s IntentTokens) Use(ctx context.Context, id string, check func(JoinToken) error) (JoinToken, error) {
	for {
		row, err := s.Store.Get(ctx, tokenKey(id))
		if err != nil {
			return JoinToken{}, err
		}
		var t JoinToken
		if err := json.Unmarshal(row.Body, &t); err != nil {
			return JoinToken{}, fmt.Errorf("read join token %s: %w", id, err)
		}
		if err := check(t); err != nil {
			return JoinToken{}, err
		}
		t.Uses++
		err = s.put(ctx, t, row.Revision, "join token used")
		if err == nil || model.ClassOf(err) != model.Conflict {
			return t, err
		}
	}
}
