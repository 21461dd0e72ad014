package link

import (
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// TestServersOfWelcomeAreTriedBeforeConfiguredOnes expects the agent to try the servers in Welcome before the servers
// in its settings. Welcome is the server's first message in a session.
func TestServersOfWelcomeAreTriedBeforeConfiguredOnes(t *testing.T) {
	for _, c := range []struct{ welcome, own, want []string }{
		{nil, []string{"a:1", "b:1"}, []string{"a:1", "b:1"}},
		{[]string{"c:1"}, []string{"a:1"}, []string{"c:1", "a:1"}},
		{[]string{"b:1", "c:1"}, []string{"a:1", "b:1"}, []string{"b:1", "c:1", "a:1"}},
	} {
		r := &sessionRunner{cfg: RunConfig{Servers: c.own}, welcomeServers: c.welcome}
		if got := r.serverOrder(); !slices.Equal(got, c.want) {
			t.Errorf("servers of Welcome %v, configured %v: order %v, want %v", c.welcome, c.own, got, c.want)
		}
	}
}

// awaitReceive waits for a value of the channel, and fails the test after a minute.
func awaitReceive(t *testing.T, came <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-came:
	case <-time.After(time.Minute):
		t.Fatalf("not within a minute: %s", what)
	}
}

// TestWrongServerListKeepsConfiguredServers names unreachable servers in the message Welcome, and expects the agent
// to return to its configured server.
func TestWrongServerListKeepsConfiguredServers(t *testing.T) {
	came := make(chan struct{}, 10)
	nobody, either := testenv.Port(t), testenv.Port(t)
	s := startServer(t, func(p *serverConn) {
		p.answerHello(wire.Welcome{Servers: []string{nobody, either}})
		came <- struct{}{} // then the server ends the session
	})
	startRun(t, newMemorySource(), nil, s.l.Addr().String())
	for range 3 {
		awaitReceive(t, came, "a session at the agent's own server")
	}
}

// TestSessionReturnsToThePreferredServer expects the agent to leave the second server when the first server is
// reachable again.
func TestSessionReturnsToThePreferredServer(t *testing.T) {
	first := testenv.Port(t) // no server listens on this port
	second, byes := make(chan struct{}, 10), make(chan struct{}, 10)
	s := startServer(t, func(p *serverConn) {
		p.answerHello(wire.Welcome{})
		second <- struct{}{}
		for kind, _ := p.readMessage(); kind != 0; kind, _ = p.readMessage() {
			if kind == wire.KindBye {
				byes <- struct{}{}
			}
		}
	})
	startRun(t, newMemorySource(), func(c *RunConfig) { c.HomeAfter = 20 * time.Millisecond }, first, s.l.Addr().String())
	awaitReceive(t, second, "a session at the second server")
	home := make(chan struct{}, 10)
	startServerAt(t, first, func(p *serverConn) {
		if kind, _ := p.readMessage(); kind == wire.KindHello {
			home <- struct{}{}
		}
	})
	awaitReceive(t, byes, "Bye at the second server")
	awaitReceive(t, home, "a session at the first server")
}

// TestSessionMovesToTheServerThatWelcomeNamesFirst names another server first in the message Welcome, and expects the
// session to move.
func TestSessionMovesToTheServerThatWelcomeNamesFirst(t *testing.T) {
	home := make(chan struct{}, 10)
	better := startServer(t, func(p *serverConn) {
		if kind, _ := p.readMessage(); kind == wire.KindHello {
			home <- struct{}{}
		}
	})
	old := startServer(t, func(p *serverConn) {
		p.answerHello(wire.Welcome{Servers: []string{better.l.Addr().String()}})
		p.readBatch()
	})
	startRun(t, newMemorySource(), func(c *RunConfig) { c.HomeAfter = 20 * time.Millisecond }, old.l.Addr().String())
	awaitReceive(t, home, "a session at the first server of Welcome")
}

// TestInvalidProxyIsAnErrorWithoutItsPassword dials through invalid or unreachable proxies and expects no password in
// the error.
func TestInvalidProxyIsAnErrorWithoutItsPassword(t *testing.T) {
	for proxy, want := range map[string]string{
		"http://agent:se%zzcret@127.0.0.1:1": "HTTPS_PROXY cannot be read",
		"http://agent:se/cret@127.0.0.1:1":   "HTTPS_PROXY cannot be read",
		"socks5://agent:secret@127.0.0.1:1":  `has the scheme "socks5"`,
		"agent:secret@127.0.0.1:1":           "connect to the proxy http://agent:xxxxx@127.0.0.1:1: connect: connection refused",
		"http://agent:p@secret@127.0.0.1:1":  "connect to the proxy http://agent:xxxxx@127.0.0.1:1",
	} {
		dial := NewDialer(func(name string) string { return map[string]string{"HTTPS_PROXY": proxy}[name] })
		_, err := dial(t.Context(), "tcp", "192.0.2.1:8443")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "cret") {
			t.Errorf("%s: %v, want %s", proxy, err, want)
		}
	}
}

// ignoredMessages is a Handler with empty methods, for a fuzz test that only decodes the server's messages.
type ignoredMessages struct{ ignoredEvents }

// OpenedSession does nothing, because the fuzz test needs no notice of the session's start.
func (ignoredMessages) OpenedSession(*Session, *wire.Welcome) {}

// Acked does nothing, because the fuzz test has no spool from which to remove acknowledged results.
func (ignoredMessages) Acked(*Session, *wire.Ack) {}

// BackPressure does nothing, because the fuzz test sends no results to slow down.
func (ignoredMessages) BackPressure(*Session, *wire.BackPressure) {}

// ServerStops does nothing, because the fuzz test needs no notice of the server's announced stop.
func (ignoredMessages) ServerStops(*Session, time.Duration, string) {}

// FuzzServer sends random frames from the server to an agent's session, and expects no panic. No assignment without a
// valid signature may be accepted.
func FuzzServer(f *testing.F) {
	agent, server := net.Pipe()
	f.Cleanup(func() { agent.Close(); server.Close() })
	go func() {
		if _, err := wsconn.Accept(server, Path, wire.Subprotocol, wsconn.Options{Timeout: time.Hour, Buffers: new(wsconn.Buffers)}); err == nil {
			_, _ = io.Copy(io.Discard, server)
		}
	}()
	conn, err := wsconn.Connect(agent, "host", Path, wire.Subprotocol, wsconn.Options{Timeout: time.Hour, Buffers: new(wsconn.Buffers)})
	testenv.NoError(f, err)
	definition := wire.AppendDefinition(nil, (&model.CheckDefinition{Definition: model.Definition{ID: 3, Unit: 2, Name: "disk"}, Probe: &model.Probe{Name: "disk"}, Interval: time.Minute, FailAfter: 1, RecoverAfter: 1}).ToDefinition())
	decoded, err := wire.DecodeDefinition(3, definition)
	testenv.NoError(f, err)
	whole := &wire.Assignment{Generation: wire.Generation{Epoch: 1, Revision: 1}, Add: []wire.AssignedDefinition{{ID: 3, Body: definition}}, Hash: wire.AssignmentHash([]*model.Definition{decoded}, nil, nil)}
	empty := &wire.Assignment{Generation: wire.Generation{Epoch: 1, Revision: 2}, Base: whole.Hash, Remove: []model.DefinitionID{3}, Hash: wire.AssignmentHash(nil, nil, nil)}
	f.Add(wire.AppendAssignment(nil, whole), wire.AppendAssignment(nil, empty))
	f.Add(wire.AppendPackedAssignment(nil, empty), wire.AppendRun(nil, &wire.Run{Definition: 3}))
	f.Add(wire.AppendAck(nil, &wire.Ack{Last: []wire.StreamLast{{StreamKey: testStream, Last: 2}}}), wire.AppendBackPressure(nil, &wire.BackPressure{LingerMs: 1000, Reason: "journal"}))
	f.Add(wire.AppendBye(nil, &wire.Bye{RetryMs: 5, Reason: "drain"}), wire.AppendRefuse(nil, &wire.Refuse{Code: "unknown", Message: "who?", Hint: "muster agent"}))
	cfg := (&Config{}).withDefaults() // no key: whatever is read is in force, if its hash fits
	f.Fuzz(func(t *testing.T, first, second []byte) {
		s := &Session{cfg: cfg, h: ignoredMessages{}, conn: conn, maxUnacked: 1 << 20, unacked: 30, unackedBatches: []unackedBatch{{testStream, 1, 10}, {testStream, 2, 20}}}
		for _, message := range [][]byte{first, second} {
			if s.handleFrame(message) != nil {
				break
			}
			under := 0
			for _, f := range s.unackedBatches {
				under += f.size
			}
			if s.UnackedBytes() != under {
				t.Fatalf("%d bytes under way, counted %d", under, s.UnackedBytes())
			}
			if held := s.Assignment(); held != nil && wire.AssignmentHash(held.Definitions, held.Properties, nil) != held.Hash {
				t.Fatalf("held %+v has another hash", held)
			}
		}
	})
}
