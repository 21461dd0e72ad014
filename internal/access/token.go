package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

const (
	// sessionLife is how long a login lasts.
	sessionLife = 30 * 24 * time.Hour
	// maxSessions bounds the sessions of one user: one more ends the oldest.
	maxSessions = 50
	// maxExpired bounds how many tokens one new token clears away.
	maxExpired = 100
)

// AccessToken describes a session or a token of a program. It never holds the secret.
type AccessToken struct {
	ID   string `json:"id"`
	User string `json:"user"` // name in the record of changes
	Grants
	Session bool      `json:"session"` // made by a login: it has its user's grants
	Note    string    `json:"note,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
}

func (t *AccessToken) expired(now time.Time) bool {
	return !t.Expires.IsZero() && !now.Before(t.Expires)
}

// Login checks a password and makes a session.
func (s *Service) Login(ctx context.Context, user, password, whence string) (token string, t AccessToken, err error) {
	row, err := s.checkPassword(ctx, user, password)
	if err != nil {
		return "", t, err
	}
	s.accounts.Lock()
	defer s.accounts.Unlock()
	if now, ok := s.index.user(user); !ok || now.Hash != row.Hash {
		return "", t, errBadLogin() // deleted, or another password, while this one was checked
	}
	return s.newToken(ctx, intent.Actor{User: user, Whence: whence, Why: "login"}, AccessToken{
		User: user, Grants: row.Grants, Session: true, Expires: s.opts.Now().Add(sessionLife).UTC(),
	})
}

// CreateToken makes a token for a program.
func (s *Service) CreateToken(ctx context.Context, by intent.Actor, t AccessToken) (string, AccessToken, error) {
	if err := t.Validate(); err != nil {
		return "", t, err
	}
	t.Session = false
	return s.newToken(ctx, by, t)
}

func (s *Service) newToken(ctx context.Context, by intent.Actor, t AccessToken) (string, AccessToken, error) {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return "", t, fmt.Errorf("make token: %w", err)
	}
	token := "mt1." + base64.RawURLEncoding.EncodeToString(secret)
	sum := sha256.Sum256([]byte(token))
	id := sha256.Sum256(append([]byte("id\n"), sum[:]...))
	t.ID, t.Created = hex.EncodeToString(id[:6]), s.opts.Now().UTC()
	body, err := json.Marshal(tokenRow{t, sum[:]})
	if err != nil {
		return "", t, err
	}
	made := intent.Write{Key: tokenKey(t.ID), Body: body}
	err = s.commit(ctx, by, append(s.obsolete(t), made))
	if model.ClassOf(err) == model.NotFound { // another login cleared the same tokens away first
		err = s.commit(ctx, by, []intent.Write{made})
	}
	return token, t, err
}

// obsolete lists the tokens that go when one is made: expired ones, and a user's oldest sessions.
func (s *Service) obsolete(made AccessToken) (writes []intent.Write) {
	var sessions []AccessToken // oldest first
	remove := func(t AccessToken) {
		if len(writes) < maxExpired {
			writes = append(writes, intent.Write{Key: tokenKey(t.ID), Expect: -1})
		}
	}
	for _, t := range s.Tokens() {
		switch {
		case t.expired(s.opts.Now()):
			remove(t)
		case made.Session && t.Session && t.User == made.User:
			sessions = append(sessions, t)
		}
	}
	for len(sessions) >= maxSessions {
		remove(sessions[0])
		sessions = sessions[1:]
	}
	return writes
}

// Authenticate finds the subject of a token, from memory.
func (s *Service) Authenticate(token string) (Subject, error) {
	t, ok := s.index.token(sha256.Sum256([]byte(token)))
	if !ok {
		return Subject{}, model.Errorf(model.Unauthenticated, "the server does not know this token, or it was revoked").WithHint("log in again: muster login")
	}
	if t.expired(s.opts.Now()) {
		return Subject{}, model.Errorf(model.Unauthenticated, "this token expired at %s", t.Expires.Format(time.RFC3339)).WithHint("log in again: muster login; for programs: muster auth token create")
	}
	return Subject{User: t.User, Token: t.ID, Grants: t.Grants}, nil
}

// Tokens lists all, oldest first.
func (s *Service) Tokens() []AccessToken {
	s.index.mu.RLock()
	defer s.index.mu.RUnlock()
	out := make([]AccessToken, 0, len(s.index.tokens))
	for _, t := range s.index.tokens {
		out = append(out, s.index.current(t))
	}
	slices.SortFunc(out, func(a, b AccessToken) int { return a.Created.Compare(b.Created) })
	return out
}

// RevokeToken ends a token at once.
func (s *Service) RevokeToken(ctx context.Context, by intent.Actor, id string) error {
	err := s.commit(ctx, by, []intent.Write{{Key: tokenKey(id), Expect: -1}})
	if model.ClassOf(err) == model.NotFound {
		return ErrNoToken(id)
	}
	return err
}

// ErrNoToken is the answer about an id that no token has; also about a token of somebody else.
func ErrNoToken(id string) error {
	return model.Errorf(model.NotFound, "token %s does not exist", id).WithHint("muster auth token list")
}
