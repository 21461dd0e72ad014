package access

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/alexedwards/argon2id"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// unknownUserHash matches no password. With it, the login of an unknown user takes as long as the
// login of a known one.
const unknownUserHash = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// passwordCost is OWASP's: 19 MiB, two passes.
func passwordCost() *argon2id.Params {
	return &argon2id.Params{Memory: 19 << 10, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}
}

// HashPassword makes the hash that is stored; an empty password is replaced by a generated one.
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

// hash is HashPassword within the bound of hashing.
func (s *Service) hash(ctx context.Context, password string) (plain, hash string, err error) {
	leave, err := s.enterHashing(ctx)
	if err != nil {
		return "", "", err
	}
	defer leave()
	return HashPassword(password)
}

func (s *Service) enterHashing(ctx context.Context) (leave func(), err error) {
	select {
	case s.hashing <- struct{}{}:
		return func() { <-s.hashing }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// checkPassword finds the person whose name and password these are.
func (s *Service) checkPassword(ctx context.Context, user, password string) (userRow, error) {
	leave, err := s.enterHashing(ctx)
	if err != nil {
		return userRow{}, err
	}
	defer leave()
	row, known := s.index.user(user)
	if known = known && !forPrograms(row.Role); !known {
		row.Hash = unknownUserHash
	}
	if ok, err := argon2id.ComparePasswordAndHash(password, row.Hash); err != nil || !ok || !known {
		return userRow{}, errBadLogin()
	}
	return row, nil
}

func errBadLogin() error {
	return model.Errorf(model.Unauthenticated, "user name or password is wrong").
		WithHint("forgotten? on the server: muster auth reset-password --data DIR")
}

// ResetPassword stores a hash that HashPassword made. All sessions of the user end; grants and
// tokens stay. With mayRun, the user may run commands from then on.
func (s *Service) ResetPassword(ctx context.Context, by intent.Actor, user, hash string, mayRun bool) error {
	if _, _, _, err := argon2id.DecodeHash(hash); err != nil {
		return model.Errorf(model.Invalid, "this is no hash of a password: %w", err)
	}
	s.accounts.Lock()
	defer s.accounts.Unlock()
	return s.setHash(ctx, by, user, hash, "", mayRun)
}

// ChangePassword changes the password of by.User, given the old one. All sessions of the user
// end but the one that asks, whose id is session.
func (s *Service) ChangePassword(ctx context.Context, by intent.Actor, session, old, password string) error {
	if _, ok := s.index.user(by.User); !ok {
		return model.Errorf(model.NotFound, "%s is the name of a token, and no user: it has no password", by.User).WithHint("log in as a user: muster login -u NAME")
	}
	if password == "" {
		return model.Errorf(model.Invalid, "the new password is empty")
	}
	row, err := s.checkPassword(ctx, by.User, old)
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
	s.accounts.Lock()
	defer s.accounts.Unlock()
	if now, ok := s.index.user(by.User); ok && now.Hash != row.Hash {
		return model.Errorf(model.Conflict, "the password of %s was changed by somebody else just now", by.User).WithHint("log in again: muster login -u %s", by.User)
	}
	return s.setHash(ctx, by, by.User, hash, session, false)
}

// setHash stores a hash and ends all sessions of the user but one. The caller holds accounts.
func (s *Service) setHash(ctx context.Context, by intent.Actor, user, hash, but string, mayRun bool) error {
	row, ok := s.index.user(user)
	if !ok {
		return s.errNoUser(user)
	}
	row.Hash, row.Run = hash, row.Run || mayRun
	if mayRun {
		if err := row.Validate(); err != nil {
			return err
		}
	}
	body, err := json.Marshal(row)
	if err != nil {
		return err
	}
	return s.writeUser(ctx, by, intent.Write{Key: userKey(user), Body: body, Expect: -1},
		func(t AccessToken) bool { return t.User == user && t.Session && t.ID != but })
}
