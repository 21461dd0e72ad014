package access

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sync"
	"time"

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
			return "", "", fmt.Errorf("create password: %w", err)
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

// hashPassword is HashPassword within the bound of hashing.
func (s *Service) hashPassword(ctx context.Context, password string) (plain, hash string, err error) {
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
	row, known := s.index.findUser(user)
	if known = known && !isProgramRole(row.Role); !known {
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
		return model.Errorf(model.Invalid, "not a password hash: %w", err)
	}
	s.accounts.Lock()
	defer s.accounts.Unlock()
	return s.setHash(ctx, by, user, hash, "", mayRun)
}

// ChangePassword changes the password of by.User, given the old one. All sessions of the user
// end but the one that asks, whose id is session.
func (s *Service) ChangePassword(ctx context.Context, by intent.Actor, session, old, password string) error {
	if _, ok := s.index.findUser(by.User); !ok {
		return model.Errorf(model.NotFound, "%s is a token, not a user: it has no password", by.User).WithHint("log in as a user: muster login -u NAME")
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
	_, hash, err := s.hashPassword(ctx, password)
	if err != nil {
		return err
	}
	s.accounts.Lock()
	defer s.accounts.Unlock()
	if now, ok := s.index.findUser(by.User); ok && now.Hash != row.Hash {
		return model.Errorf(model.Conflict, "another session changed the password of %s just now", by.User).WithHint("log in again: muster login -u %s", by.User)
	}
	return s.setHash(ctx, by, by.User, hash, session, false)
}

// setHash stores a hash and ends all sessions of the user but one. The caller holds accounts.
func (s *Service) setHash(ctx context.Context, by intent.Actor, user, hash, but string, mayRun bool) error {
	row, ok := s.index.findUser(user)
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

const (
	maxCachedPasswords = 10_000
	// wrongPasswordMemory is how long a wrong password stays cached.
	wrongPasswordMemory = 10 * time.Second
)

// Admit is called before a password is compared that is not cached: it may wait, or refuse. done
// is told whether the password was wrong.
type Admit func(ctx context.Context) (done func(wrong bool), err error)

// passwordCache holds the outcome of passwords of programs: a fleet has few, and shows them all at once. Keys are
// keyed hashes of name, password and the stored hash, so that a new password counts at once.
type passwordCache struct {
	comparing chan struct{} // at most two at a time; passwords of people have a bound of their own
	key       [32]byte

	mu sync.Mutex
	by map[[32]byte]*comparison
}

// comparison is one password: done is closed once good is known, or err says why nobody compared.
type comparison struct {
	done  chan struct{}
	good  bool
	err   error
	until time.Time // a wrong one makes room for others from then on
}

func newPasswordCache() *passwordCache {
	c := &passwordCache{comparing: make(chan struct{}, 2), by: map[[32]byte]*comparison{}}
	_, _ = rand.Read(c.key[:]) // never fails
	return c
}

// checkPassword compares a password with a hash, or finds the outcome. Callers with a password that is
// being compared wait for that; where the first one was not admitted, another caller tries.
func (c *passwordCache) checkPassword(ctx context.Context, name, password, hash string, now func() time.Time, admit Admit) (good bool, err error) {
	sum := c.cacheKey(name, password, hash)
	for {
		c.mu.Lock()
		v := c.by[sum]
		mine := v == nil
		if mine {
			if !c.makeRoom(now()) {
				c.mu.Unlock()
				return false, errTooManyPasswords()
			}
			v = &comparison{done: make(chan struct{})}
			c.by[sum] = v
			go c.comparePassword(ctx, v, sum, password, hash, now, admit)
		}
		c.mu.Unlock()
		select {
		case <-v.done:
			if v.err == nil || mine {
				return v.good, v.err
			}
		case <-ctx.Done():
			return false, errTooManyPasswords()
		}
	}
}

// comparePassword outlives the caller that started it, once it was admitted.
func (c *passwordCache) comparePassword(ctx context.Context, v *comparison, sum [32]byte, password, hash string, now func() time.Time, admit Admit) {
	defer close(v.done)
	done := func(bool) {}
	if admit != nil {
		var err error
		if done, err = admit(ctx); err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.by, sum)
			if v.err = err; ctx.Err() != nil {
				v.err = errTooManyPasswords()
			}
			return
		}
	}
	c.comparing <- struct{}{}
	defer func() { <-c.comparing }()
	good, err := argon2id.ComparePasswordAndHash(password, hash)
	good = good && err == nil
	done(!good)
	c.mu.Lock()
	defer c.mu.Unlock()
	if v.good = good; !good {
		v.until = now().Add(wrongPasswordMemory)
	}
}

func errTooManyPasswords() error {
	return model.Errorf(model.Unavailable, "too many passwords are being checked").WithHint("try again in a moment")
}

// makeRoom bounds the cache. Guesses expire soon and push out guesses alone: the good passwords
// are few, and a fleet lives on them. False: all others are being compared. The caller holds mu.
func (c *passwordCache) makeRoom(now time.Time) bool {
	if len(c.by) < maxCachedPasswords {
		return true
	}
	for sum, v := range c.by {
		if !v.until.IsZero() && now.After(v.until) {
			delete(c.by, sum)
		}
	}
	if len(c.by) < maxCachedPasswords {
		return true
	}
	for sum, v := range c.by {
		select {
		case <-v.done:
			if !v.good {
				delete(c.by, sum)
				return true
			}
		default:
		}
	}
	return false
}

func (c *passwordCache) cacheKey(parts ...string) (sum [32]byte) {
	h := hmac.New(sha256.New, c.key[:])
	for _, part := range parts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	h.Sum(sum[:0])
	return sum
}
