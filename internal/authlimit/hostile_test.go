package authlimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
)

// TestAttemptsAreCountedByNetwork expects all IP addresses of one network to share one limit of wrong passwords
// or tokens. A network is an IPv4 address or an IPv6 /64.
func TestAttemptsAreCountedByNetwork(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	l := New(func() time.Time { return now })
	allowed := func(address func(i int) string) (n int) {
		for i := range 50 {
			if l.Allow(address(i)) {
				n++
			}
		}
		return n
	}
	for name, c := range map[string]struct {
		address func(int) string
		want    int
	}{
		"one address":             {func(int) string { return "192.0.2.1" }, 10},
		"the same, written anew":  {func(int) string { return "::ffff:192.0.2.2" }, 10},
		"one IPv6 network":        {func(i int) string { return fmt.Sprintf("2001:db8:1:1::%x", i) }, 10},
		"many networks":           {func(i int) string { return fmt.Sprintf("2001:db8:2:%x::1", i) }, 50},
		"many IPv4 addresses":     {func(i int) string { return fmt.Sprintf("198.51.100.%d", i) }, 50},
		"what is no address":      {func(i int) string { return fmt.Sprint("pipe", i) }, 10},
		"one address with a zone": {func(i int) string { return fmt.Sprintf("fe80::1%%eth%d", i) }, 10},
	} {
		if got := allowed(c.address); got != c.want {
			t.Errorf("%s: %d tries, want %d", name, got, c.want)
		}
	}
	if l.Allow("192.0.2.1") || !l.Allow("203.0.113.1") {
		t.Error("exhausted networks: expected 192.0.2.1 alone")
	}
	now = now.Add(time.Minute)
	if !l.Allow("192.0.2.1") {
		t.Error("exhausted after a full refill")
	}
}

// TestTableOfNetworksIsBounded makes attempts from very many networks, and expects the table of networks to stay
// small. No network gets a full limit again.
func TestTableOfNetworksIsBounded(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	l := New(func() time.Time { return now })
	for range 10 {
		l.Allow("192.0.2.1")
	}
	passed := 0
	for i := range 2 * maxNetworks {
		if l.Allow(fmt.Sprintf("2001:db8:%x:%x::1", i>>16, i&0xffff)) {
			passed++
		}
	}
	if len(l.networks) > maxNetworks || passed > maxNetworks+Burst {
		t.Errorf("%d networks, %d attempts passed", len(l.networks), passed)
	}
	if l.Allow("192.0.2.1") {
		t.Error("an exhausted network got a full bucket")
	}
	now = now.Add(time.Minute)
	if !l.Allow("203.0.113.1") || len(l.networks) > 2 {
		t.Errorf("%d networks after a full refill", len(l.networks))
	}
}

// TestConcurrentAttemptsAreLimitedLikeSequentialOnes sends ten thousand wrong secrets concurrently from one
// network, and expects the server to check only ten. The exhausted network is reported once. Other networks do
// not wait.
func TestConcurrentAttemptsAreLimitedLikeSequentialOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(time.Now)
		var checked, reported, exhausted atomic.Int64
		storm := func(n int, wrong bool) {
			var all sync.WaitGroup
			for range n {
				all.Go(func() {
					release, first, err := l.Acquire(t.Context(), "192.0.2.1")
					if err != nil {
						if !errors.Is(err, ErrExhausted) {
							t.Error(err)
						}
						if exhausted.Add(1); first {
							reported.Add(1)
						}
						return
					}
					checked.Add(1)
					time.Sleep(time.Millisecond) // on the bubble's clock: the check takes time
					release(wrong)
				})
			}
			all.Wait()
		}
		storm(10_000, true)
		if checked.Load() != Burst || exhausted.Load() != 10_000-Burst || reported.Load() != 1 {
			t.Fatalf("%d checked, %d refused, reported %d times", checked.Load(), exhausted.Load(), reported.Load())
		}
		if release, _, err := l.Acquire(t.Context(), "198.51.100.1"); err != nil {
			t.Errorf("another network: %v", err)
		} else {
			release(false)
		}
		time.Sleep(Interval)
		checked.Store(0)
		if storm(100, true); checked.Load() != 1 || reported.Load() != 1 {
			t.Errorf("after one interval: %d checked, reported %d times", checked.Load(), reported.Load())
		}
		time.Sleep(Burst * Interval)
		if storm(100, true); reported.Load() != 2 {
			t.Errorf("after a full refill: reported %d times", reported.Load())
		}
	})
}

// TestRightSecretsAreNeverRefused sends many right passwords or tokens at the same time, and expects the server
// to refuse none. The senders wait for each other. A caller whose context ends stops waiting.
func TestRightSecretsAreNeverRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(time.Now)
		var all sync.WaitGroup
		var now, most atomic.Int64
		for i := range 500 {
			all.Go(func() {
				release, _, err := l.Acquire(t.Context(), "192.0.2.1")
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
				release(false)
			})
		}
		all.Wait()
		if most.Load() != Burst {
			t.Errorf("%d at a time", most.Load())
		}
		for range Burst {
			if _, _, err := l.Acquire(t.Context(), "192.0.2.1"); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := l.Acquire(ctx, "192.0.2.1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller whose context ended: %v", err)
		}
	})
}

// TestNetworksBeyondTableShareOneLimit expects attempts from networks beyond the table's size to count against
// one shared limit. The attempt must be returned to the same limit.
func TestNetworksBeyondTableShareOneLimit(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	l := New(func() time.Time { return now })
	for i := range maxNetworks {
		l.Allow(fmt.Sprintf("2001:db8:%x:%x::1", i>>16, i&0xffff))
	}
	release, _, err := l.Acquire(t.Context(), "192.0.2.1")
	testenv.NoError(t, err)
	now = now.Add(time.Minute)
	l.Allow("198.51.100.1") // sweeps the table
	release(true)
	if l.overflow.checking != 0 || l.overflow.TokensAt(now) >= Burst || l.networks[Network("192.0.2.1")] != nil {
		t.Errorf("%+v", l.overflow)
	}
}
