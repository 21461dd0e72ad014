package access

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
)

// NewSession creates a session for a test without checking the password, which would be slow.
func (s *Service) NewSession(ctx context.Context, user string) (string, error) {
	token, _, err := s.storeNewToken(ctx, intent.Actor{User: "server"}, AccessToken{User: user, Session: true, Expires: s.opts.Now().Add(sessionLifetime)})
	return token, err
}

// TestFullPasswordCacheEvictsWrongPasswords fills the cache of password checks and expects that only wrong passwords
// are evicted.
func TestFullPasswordCacheEvictsWrongPasswords(t *testing.T) {
	r, noon := newProgramPasswordCache(), time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	ended := make(chan struct{})
	close(ended)
	key := func(i int) (sum [32]byte) {
		binary.BigEndian.PutUint64(sum[:], uint64(i))
		return sum
	}
	for i := range maxCachedPasswords {
		r.comparisons[key(i)] = &passwordComparison{done: ended, good: i < 10, evictableFrom: noon.Add(wrongPasswordMemory)}
	}
	for i := 10; i < maxCachedPasswords; i++ {
		if !r.evictWrongPassword(noon) {
			t.Fatalf("no wrong password can be evicted after %d evictions", i)
		}
		r.comparisons[key(maxCachedPasswords+i)] = &passwordComparison{done: make(chan struct{})} // comparison still runs
	}
	for i := range 10 {
		if v := r.comparisons[key(i)]; v == nil || !v.good {
			t.Fatalf("right password %d was evicted", i)
		}
	}
	if r.evictWrongPassword(noon) {
		t.Error("a right password, or one under comparison, was evicted")
	}
}
