package tries

import (
	"fmt"
	"testing"
	"time"
)

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
	if !l.Exhausted("192.0.2.1") || l.Exhausted("203.0.113.1") {
		t.Error("exhausted networks: expected 192.0.2.1 alone")
	}
	now = now.Add(time.Minute)
	if l.Exhausted("192.0.2.1") {
		t.Error("exhausted after a full refill")
	}
}

// An attacker with very many networks neither fills the memory nor gets a full bucket again.
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
