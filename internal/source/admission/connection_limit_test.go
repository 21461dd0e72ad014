package admission

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// newTestAdmission returns an Admission that allows at most `limit` connections.
func newTestAdmission(limit int) *Admission {
	handshakes := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "handshakes", Help: "handshakes"}, []string{"outcome"})
	return New(limit, nil, handshakes, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
}

// admitPipe makes a pair of connected in-memory connections, and submits one of the two to the connection
// limit. It returns nil after a refusal.
func admitPipe(t *testing.T, a *Admission) *Conn {
	t.Helper()
	server, client := net.Pipe()
	t.Cleanup(func() { client.Close() })
	c := a.admitConn(server)
	if c == nil {
		if _, err := client.Read(make([]byte, 1)); err == nil {
			t.Error("a refused connection is open")
		}
		return nil
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestAuthenticatedConnectionsAreNotEvicted fills the connection limit with authenticated connections, and
// expects a refusal of one more connection. All open connections are authenticated.
func TestAuthenticatedConnectionsAreNotEvicted(t *testing.T) {
	a := newTestAdmission(2)
	first, second := admitPipe(t, a), admitPipe(t, a)
	first.MarkAuthenticated()
	second.MarkAuthenticated()
	if admitPipe(t, a) != nil || testutil.ToFloat64(a.metrics.full) != 1 || a.open != 2 {
		t.Errorf("%d connections are open at a limit of 2", a.open)
	}
	first.Close()
	first.Close() // the second Close frees no other connection
	if admitPipe(t, a) == nil || admitPipe(t, a) != nil || a.open != 2 {
		t.Errorf("%d connections are open after one was closed, want 2", a.open)
	}
}

// TestLongestSilentConnectionIsEvicted exceeds the connection limit, and expects the server to close the
// longest silent connection. The new connection replaces it. Authenticated connections stay.
func TestLongestSilentConnectionIsEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTestAdmission(2)
		read := func(c *Conn) chan error {
			ended := make(chan error, 1)
			go func() { _, err := c.Read(make([]byte, 1)); ended <- err }()
			synctest.Wait()
			return ended
		}
		first := read(admitPipe(t, a))
		time.Sleep(minSilence / 2)
		second := read(admitPipe(t, a))
		if admitPipe(t, a) != nil {
			t.Errorf("a connection was evicted after %v of silence", minSilence/2)
		}
		time.Sleep(minSilence / 2)
		if admitPipe(t, a) == nil || <-first == nil || testutil.ToFloat64(a.metrics.evicted) != 1 || a.open != 2 {
			t.Errorf("the first connection was not evicted; %d are open", a.open)
		}
		select {
		case err := <-second:
			t.Errorf("the second connection ended: %v", err)
		default:
		}
	})
}

// TestAgentsLeaveConnectionsForUsers fills the connection limit with silent agents, and expects a new user to
// replace one agent. A new connection replaces a silent agent session, once agents use more than seven eighths
// of the limit.
func TestAgentsLeaveConnectionsForUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTestAdmission(16)
		var ends []chan error
		for range 16 {
			c := admitPipe(t, a)
			c.MarkAuthenticated()
			ended := make(chan error, 1)
			go func() { _, err := c.Read(make([]byte, 1)); ended <- err }()
			ends = append(ends, ended)
		}
		time.Sleep(minSilence)
		synctest.Wait()
		for range 2 {
			if c := admitPipe(t, a); c == nil {
				t.Error("a person finds no place")
			}
		}
		if admitPipe(t, a) != nil || a.open != 16 {
			t.Errorf("%d connections are open", a.open)
		}
		synctest.Wait()
		ended := 0
		for _, end := range ends {
			ended += len(end)
		}
		if ended != 2 || a.provenAgents != 14 {
			t.Errorf("%d sessions of agents ended, %d are protected", ended, a.provenAgents)
		}
	})
}

// TestUsersProtectAQuarterOfConnections expects requests of users to protect at most a quarter of all
// connections from replacement.
func TestUsersProtectAQuarterOfConnections(t *testing.T) {
	a := newTestAdmission(4)
	first, second := admitPipe(t, a), admitPipe(t, a)
	for _, c := range []*Conn{first, second, first} {
		ProtectRequest(WithConn(context.Background(), c))
	}
	if !first.proven.Load() || second.proven.Load() {
		t.Errorf("proven: first %v, second %v; want the first alone", first.proven.Load(), second.proven.Load())
	}
	first.Close()
	ProtectRequest(WithConn(context.Background(), second))
	if !second.proven.Load() {
		t.Error("no new connection was admitted after one was closed")
	}
}

// TestHandshakeWithoutASlotWaits checks that a TLS handshake waits until another handshake releases the only slot.
func TestHandshakeWithoutASlotWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gates := HandshakeLimits{agents: make(handshakeGate, 1)}
		first, second := new(Conn), new(Conn)
		gates.AcquireAgentSlot(first)
		entered := false
		go func() { gates.AcquireAgentSlot(second); entered = true }()
		synctest.Wait()
		if entered || gates.FreeAgentSlots() != 0 {
			t.Error("two TLS handshakes hold the only slot at the same time")
		}
		first.ReleaseHandshakeSlot()
		synctest.Wait()
		if !entered {
			t.Error("a TLS handshake waits although a slot is free")
		}
	})
}
