package intent

import (
	"encoding/binary"
	"testing"
	"time"
)

// Whoever guesses pushes out guesses, never the passwords that a fleet lives on.
func TestGuessesPushOutGuesses(t *testing.T) {
	r, noon := newRemembered(), time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	ended := make(chan struct{})
	close(ended)
	key := func(i int) (sum [32]byte) {
		binary.BigEndian.PutUint64(sum[:], uint64(i))
		return sum
	}
	for i := range mostRemembered {
		r.by[key(i)] = &verdict{done: ended, good: i < 10, until: noon.Add(wrongFor)}
	}
	for i := 10; i < mostRemembered; i++ {
		if !r.room(noon) {
			t.Fatalf("no room behind %d guesses", i)
		}
		r.by[key(mostRemembered+i)] = &verdict{done: make(chan struct{})} // under way
	}
	for i := range 10 {
		if v := r.by[key(i)]; v == nil || !v.good {
			t.Fatalf("good password %d is forgotten", i)
		}
	}
	if r.room(noon) {
		t.Error("a good one had to go for a guess, or one that is being checked")
	}
}
