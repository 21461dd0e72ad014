package tries

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Ten thousand wrong ones at once are ten that are looked at; then the network is tired, which is
// told once, until it has rested. Others wait for nobody.
func TestTriesAtOnceAreNoMoreThanInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(time.Now)
		var looked, told, tired atomic.Int64
		storm := func(n int, wrong bool) {
			var all sync.WaitGroup
			for range n {
				all.Go(func() {
					end, first, err := l.Begin(t.Context(), "192.0.2.1")
					if err != nil {
						if !errors.Is(err, ErrTired) {
							t.Error(err)
						}
						if tired.Add(1); first {
							told.Add(1)
						}
						return
					}
					looked.Add(1)
					time.Sleep(time.Millisecond) // on the bubble's clock: it takes its time
					end(wrong)
				})
			}
			all.Wait()
		}
		storm(10_000, true)
		if looked.Load() != AtOnce || tired.Load() != 10_000-AtOnce || told.Load() != 1 {
			t.Fatalf("%d looked at, %d refused, told %d times", looked.Load(), tired.Load(), told.Load())
		}
		if end, _, err := l.Begin(t.Context(), "198.51.100.1"); err != nil {
			t.Errorf("another network: %v", err)
		} else {
			end(false)
		}
		time.Sleep(Every)
		looked.Store(0)
		if storm(100, true); looked.Load() != 1 || told.Load() != 1 {
			t.Errorf("after three seconds: %d looked at, told %d times", looked.Load(), told.Load())
		}
		time.Sleep(AtOnce * Every)
		if storm(100, true); told.Load() != 2 {
			t.Errorf("after a rest: told %d times", told.Load())
		}
	})
}

// Right ones wait for each other, and none is refused; who cannot wait goes.
func TestRightOnesAreNeverRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(time.Now)
		var all sync.WaitGroup
		var now, most atomic.Int64
		for i := range 500 {
			all.Go(func() {
				end, _, err := l.Begin(t.Context(), "192.0.2.1")
				if err != nil {
					t.Errorf("%d: %v", i, err)
					return
				}
				for n := now.Add(1); ; {
					if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
						break
					}
				}
				time.Sleep(time.Millisecond)
				now.Add(-1)
				end(false)
			})
		}
		all.Wait()
		if most.Load() != AtOnce {
			t.Errorf("%d at a time", most.Load())
		}
		for range AtOnce {
			if _, _, err := l.Begin(t.Context(), "192.0.2.1"); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := l.Begin(ctx, "192.0.2.1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who waits in vain: %v", err)
		}
	})
}

// Where the table is full, a look that began under the shared limit ends under it.
func TestLooksBeyondTheTable(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	l := New(func() time.Time { return now })
	for i := range maxNets {
		l.Allow(fmt.Sprintf("2001:db8:%x:%x::1", i>>16, i&0xffff))
	}
	end, _, err := l.Begin(t.Context(), "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	l.Allow("198.51.100.1") // makes room
	end(true)
	if l.other.under != 0 || l.other.TokensAt(now) >= AtOnce || l.nets[Network("192.0.2.1")] != nil {
		t.Errorf("%+v", l.other)
	}
}
