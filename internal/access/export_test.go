package access

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
)

// NewSession is a login without the password, which takes its time.
func (s *Service) NewSession(ctx context.Context, user string) (string, error) {
	token, _, err := s.newToken(ctx, intent.Actor{User: "server"}, AccessToken{User: user, Session: true, Expires: s.opts.Now().Add(sessionLife)})
	return token, err
}

// When the cache of passwords is full, a wrong password evicts another wrong one, never a good one.
func TestFullCacheEvictsWrongPasswords(t *testing.T) {
	r, noon := newPasswordCache(), time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	ended := make(chan struct{})
	close(ended)
	key := func(i int) (sum [32]byte) {
		binary.BigEndian.PutUint64(sum[:], uint64(i))
		return sum
	}
	for i := range maxCachedPasswords {
		r.by[key(i)] = &comparison{done: ended, good: i < 10, until: noon.Add(wrongPasswordMemory)}
	}
	for i := 10; i < maxCachedPasswords; i++ {
		if !r.makeRoom(noon) {
			t.Fatalf("no room behind %d guesses", i)
		}
		r.by[key(maxCachedPasswords+i)] = &comparison{done: make(chan struct{})} // under way
	}
	for i := range 10 {
		if v := r.by[key(i)]; v == nil || !v.good {
			t.Fatalf("good password %d is forgotten", i)
		}
	}
	if r.makeRoom(noon) {
		t.Error("a good one had to go for a guess, or one that is being checked")
	}
}
