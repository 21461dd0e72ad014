package access

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"

	"github.com/alexedwards/argon2id"

	"github.com/muster-fleet/muster/internal/model"
)

const (
	maxCached = 10_000
	// wrongFor is how long a wrong password stays cached.
	wrongFor = 10 * time.Second
)

// Admit is called before a password is compared that is not cached: it may wait, or refuse. done
// is told whether the password was wrong.
type Admit func(ctx context.Context) (done func(wrong bool), err error)

// passwordCache holds the outcome of passwords of programs: a fleet has few, and shows them all at
// once. Keys are keyed hashes of name, password and the stored hash, so that a new password counts
// at once.
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

// check compares a password with a hash, or finds the outcome. Callers with a password that is
// being compared wait for that; where the first one was not admitted, another caller tries.
func (c *passwordCache) check(ctx context.Context, name, password, hash string, now func() time.Time, admit Admit) (good bool, err error) {
	sum := c.sum(name, password, hash)
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
			go c.compare(ctx, v, sum, password, hash, now, admit)
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

// compare outlives the caller that started it, once it was admitted.
func (c *passwordCache) compare(ctx context.Context, v *comparison, sum [32]byte, password, hash string, now func() time.Time, admit Admit) {
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
		v.until = now().Add(wrongFor)
	}
}

func errTooManyPasswords() error {
	return model.Errorf(model.Unavailable, "too many passwords are being checked").WithHint("come again in a moment")
}

// makeRoom bounds the cache. Guesses expire soon and push out guesses alone: the good passwords
// are few, and a fleet lives on them. False: all others are being compared. The caller holds mu.
func (c *passwordCache) makeRoom(now time.Time) bool {
	if len(c.by) < maxCached {
		return true
	}
	for sum, v := range c.by {
		if !v.until.IsZero() && now.After(v.until) {
			delete(c.by, sum)
		}
	}
	if len(c.by) < maxCached {
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

func (c *passwordCache) sum(parts ...string) (sum [32]byte) {
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
