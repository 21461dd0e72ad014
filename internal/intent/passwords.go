package intent

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/alexedwards/argon2id"

	"github.com/muster-fleet/muster/internal/model"
)

// passwordCost is OWASP's: 19 MiB, two passes.
func passwordCost() *argon2id.Params {
	return &argon2id.Params{Memory: 19 << 10, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}
}

// HashPassword is what is kept of a password; with an empty one, one is made.
func HashPassword(password string) (plain, hash string, err error) {
	if password == "" {
		secret := make([]byte, 15)
		if _, err := rand.Read(secret); err != nil {
			return "", "", fmt.Errorf("make password: %w", err)
		}
		password = base64.RawURLEncoding.EncodeToString(secret)
	}
	if len(password) < 8 {
		return "", "", model.Errorf(model.Invalid, "password is shorter than 8 characters").WithHint("choose a longer one; four words are easy to remember")
	}
	if hash, err = argon2id.CreateHash(password, passwordCost()); err != nil {
		return "", "", fmt.Errorf("hash password: %w", err)
	}
	return password, hash, nil
}

// hash is HashPassword, when it is its turn.
func (s *Service) hash(ctx context.Context, password string) (plain, hash string, err error) {
	select {
	case s.users.verify <- struct{}{}:
		defer func() { <-s.users.verify }()
	case <-ctx.Done():
		return "", "", ctx.Err()
	}
	return HashPassword(password)
}

// ResetPassword gives a user the password that HashPassword gave a hash of. All sessions
// of the user end; role and API tokens stay. With mayRun, the user may run commands from
// now on.
func (s *Service) ResetPassword(ctx context.Context, by Who, user, hash string, mayRun bool) error {
	if _, _, _, err := argon2id.DecodeHash(hash); err != nil {
		return model.Errorf(model.Invalid, "this is no hash of a password: %w", err)
	}
	s.users.accounts.Lock()
	defer s.users.accounts.Unlock()
	return s.setHash(ctx, by, user, hash, "", mayRun)
}

// setHash ends all sessions of the user but one. The caller holds accounts.
func (s *Service) setHash(ctx context.Context, by Who, user, hash, but string, mayRun bool) error {
	row, ok := s.users.user(user)
	if !ok {
		return s.noUser(user)
	}
	if mayRun {
		if err := knownRole(row.Role, true); err != nil {
			return err
		}
	}
	row.Hash, row.Run = hash, row.Run || mayRun
	body, err := json.Marshal(row)
	if err != nil {
		return err
	}
	return s.withTokens(ctx, by, Write{Key: Key{Kind: userKind, Name: user}, Body: body, Expect: -1},
		func(t AccessToken) bool { return t.User == user && t.Session && t.ID != but })
}

// withTokens writes a user and ends tokens, in one transaction. A token that is revoked
// meanwhile is no longer among them when it is tried again.
func (s *Service) withTokens(ctx context.Context, by Who, user Write, end func(AccessToken) bool) (err error) {
	for range 5 {
		writes := []Write{user}
		for _, t := range s.Tokens() {
			if end(t) {
				writes = append(writes, Write{Key: Key{Kind: tokenRowKind, Name: t.ID}, Expect: -1})
			}
		}
		if _, err = s.commit(ctx, by, writes); model.ClassOf(err) != model.NotFound {
			break
		}
	}
	return err
}

// ChangePassword is a user who changes the own one and knows the old. All sessions of
// the user end but the one that asks, whose id is given.
func (s *Service) ChangePassword(ctx context.Context, by Who, session, was, password string) error {
	if _, ok := s.users.user(by.User); !ok {
		return model.Errorf(model.NotFound, "%s is the name of a token, and no user: it has no password", by.User).WithHint("log in as a user: muster login -u NAME")
	}
	if password == "" {
		return model.Errorf(model.Invalid, "the new password is empty")
	}
	row, err := s.proven(ctx, by.User, was)
	if model.ClassOf(err) == model.Unauthenticated {
		return model.Errorf(model.Forbidden, "the old password is wrong").
			WithHint("forgotten? on the server: muster auth reset-password --data DIR --user %s", by.User)
	}
	if err != nil {
		return err
	}
	_, hash, err := s.hash(ctx, password)
	if err != nil {
		return err
	}
	s.users.accounts.Lock()
	defer s.users.accounts.Unlock()
	if now, ok := s.users.user(by.User); ok && now.Hash != row.Hash {
		return model.Errorf(model.Conflict, "the password of %s was changed by somebody else just now", by.User).WithHint("log in again: muster login -u %s", by.User)
	}
	return s.setHash(ctx, by, by.User, hash, session, false)
}
