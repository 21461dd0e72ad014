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

// passwordCost returns the parameters of the argon2id password hash. OWASP recommends 19 MiB of memory and two passes.
func passwordCost() *argon2id.Params {
	return &argon2id.Params{Memory: 19 << 10, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}
}

// HashPassword hashes a password with argon2id for the database. If the password is empty, HashPassword first
// generates one.
func HashPassword(password string) (plain, hash string, err error) {
	if password == "" {
		secret := make([]byte, 15)
		if _, err := rand.Read(secret); err != nil {
			return "", "", fmt.Errorf("generate a password: %w", err)
		}
		password = base64.RawURLEncoding.EncodeToString(secret)
	}
	if len(password) < 8 {
		return "", "", model.Errorf(model.Invalid, "password is shorter than 8 characters").WithHint("choose a longer password; four words are easy to remember")
	}
	if hash, err = argon2id.CreateHash(password, passwordCost()); err != nil {
		return "", "", fmt.Errorf("hash password: %w", err)
	}
	return password, hash, nil
}

// hashPassword waits for a free hashing slot, and then hashes a password like HashPassword. The few slots limit
// parallel hashing.
func (s *Service) hashPassword(ctx context.Context, password string) (plain, hash string, err error) {
	leave, err := s.acquireHashSlot(ctx)
	if err != nil {
		return "", "", err
	}
	defer leave()
	return HashPassword(password)
}

// acquireHashSlot waits for one of the few slots for parallel password hashing. The returned function `leave` frees the
// slot.
func (s *Service) acquireHashSlot(ctx context.Context) (leave func(), err error) {
	select {
	case s.hashSlots <- struct{}{}:
		return func() { <-s.hashSlots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// checkPassword compares a password with the stored hash, and returns the user after a match.
func (s *Service) checkPassword(ctx context.Context, user, password string) (userRow, error) {
	leave, err := s.acquireHashSlot(ctx)
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

// errBadLogin returns the error of a login with a wrong user name or password.
func errBadLogin() error {
	return model.Errorf(model.Unauthenticated, "user name or password is wrong").
		WithHint("set a new password, on the server: muster auth reset-password --data DIR")
}

// ResetPassword stores a new password hash, made by HashPassword, for a user. All sessions of the user end; grants and
// tokens stay. With mayRun, the user may run commands from then on.
func (s *Service) ResetPassword(ctx context.Context, by intent.Actor, user, hash string, mayRun bool) error {
	if _, _, _, err := argon2id.DecodeHash(hash); err != nil {
		return model.Errorf(model.Invalid, "the given text is not an argon2id password hash: %w", err)
	}
	s.accountsMu.Lock()
	defer s.accountsMu.Unlock()
	return s.storePasswordHash(ctx, by, user, hash, "", mayRun)
}

// ChangePassword replaces a user's password after a check of the old password. All sessions of the user end, except
// the session that asks; session is its id.
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
			WithHint("set a new password, on the server: muster auth reset-password --data DIR --user %s", by.User)
	}
	if err != nil {
		return err
	}
	_, hash, err := s.hashPassword(ctx, password)
	if err != nil {
		return err
	}
	s.accountsMu.Lock()
	defer s.accountsMu.Unlock()
	if now, ok := s.index.findUser(by.User); ok && now.Hash != row.Hash {
		return model.Errorf(model.Conflict, "another session changed the password of %s at the same time", by.User).WithHint("log in again: muster login -u %s", by.User)
	}
	return s.storePasswordHash(ctx, by, by.User, hash, session, false)
}

// storePasswordHash stores a user's new password hash and ends the user's other sessions. The session `but`, in which
// the user changed the password, stays. The caller holds accounts.
func (s *Service) storePasswordHash(ctx context.Context, by intent.Actor, user, hash, but string, mayRun bool) error {
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

// PasswordThrottle is a function that may delay or refuse the password check of an agent or alert source. The
// delays slow down password guessing. The caller then passes to done whether the password was wrong.
type PasswordThrottle func(ctx context.Context) (done func(wrong bool), err error)

// programPasswordCache remembers which passwords of programs (agents, alert sources) were right or wrong. A whole
// fleet sends the same few passwords at once. Keys are keyed hashes of name, password and the stored hash, so that a
// new password counts at once.
type programPasswordCache struct {
	comparisonSlots chan struct{} // at most two comparisons at a time; passwords of people are bounded by Service
	hashKey         [32]byte

	mu          sync.Mutex
	comparisons map[[32]byte]*passwordComparison
}

// passwordComparison is a cache entry about whether one program's password matched its stored hash. done is
// closed when it ended: good is set, or err is the reason why nothing was compared.
type passwordComparison struct {
	done          chan struct{}
	good          bool
	err           error
	evictableFrom time.Time // earliest eviction of a wrong password from the cache
}

// newProgramPasswordCache returns an empty cache of checked passwords, with a random hash key. At most two passwords
// are compared at a time.
func newProgramPasswordCache() *programPasswordCache {
	c := &programPasswordCache{comparisonSlots: make(chan struct{}, 2), comparisons: map[[32]byte]*passwordComparison{}}
	_, _ = rand.Read(c.hashKey[:]) // never fails
	return c
}

// checkPassword reports whether a password matches a hash, from the cache if the same password was compared before.
// Callers with the same password wait for one comparison; where the first caller was not admitted, the next caller
// compares.
func (c *programPasswordCache) checkPassword(ctx context.Context, name, password, hash string, now func() time.Time, admit PasswordThrottle) (good bool, err error) {
	sum := c.cacheKey(name, password, hash)
	for {
		c.mu.Lock()
		v := c.comparisons[sum]
		mine := v == nil
		if mine {
			if !c.evictWrongPassword(now()) {
				c.mu.Unlock()
				return false, errTooManyPasswords()
			}
			v = &passwordComparison{done: make(chan struct{})}
			c.comparisons[sum] = v
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

// comparePassword compares one password with its hash and caches whether the password was right. An admitted
// comparison goes on when the request of its caller ends.
func (c *programPasswordCache) comparePassword(ctx context.Context, v *passwordComparison, sum [32]byte, password, hash string, now func() time.Time, admit PasswordThrottle) {
	defer close(v.done)
	done := func(bool) {}
	if admit != nil {
		var err error
		if done, err = admit(ctx); err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.comparisons, sum)
			if v.err = err; ctx.Err() != nil {
				v.err = errTooManyPasswords()
			}
			return
		}
	}
	c.comparisonSlots <- struct{}{}
	defer func() { <-c.comparisonSlots }()
	good, err := argon2id.ComparePasswordAndHash(password, hash)
	good = good && err == nil
	done(!good)
	c.mu.Lock()
	defer c.mu.Unlock()
	if v.good = good; !good {
		v.evictableFrom = now().Add(wrongPasswordMemory)
	}
}

// errTooManyPasswords returns the error of a login while all slots for hashing passwords are taken.
func errTooManyPasswords() error {
	return model.Errorf(model.Unavailable, "the server is checking too many passwords: cannot log in now").WithHint("try again in a moment")
}

// evictWrongPassword removes one wrong password when the cache is full. The right passwords stay, because the programs
// of the whole fleet send them again and again. evictWrongPassword returns false where no wrong password can be
// evicted. The caller holds mu.
func (c *programPasswordCache) evictWrongPassword(now time.Time) bool {
	if len(c.comparisons) < maxCachedPasswords {
		return true
	}
	for sum, v := range c.comparisons {
		if !v.evictableFrom.IsZero() && now.After(v.evictableFrom) {
			delete(c.comparisons, sum)
		}
	}
	if len(c.comparisons) < maxCachedPasswords {
		return true
	}
	for sum, v := range c.comparisons {
		select {
		case <-v.done:
			if !v.good {
				delete(c.comparisons, sum)
				return true
			}
		default:
		}
	}
	return false
}

// cacheKey hashes a user name, a password and the stored hash into the key of one cached comparison. The hash
// is keyed (HMAC).
func (c *programPasswordCache) cacheKey(parts ...string) (sum [32]byte) {
	h := hmac.New(sha256.New, c.hashKey[:])
	for _, part := range parts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	h.Sum(sum[:0])
	return sum
}
