package sensu

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// A handshake of more than 64 KiB is refused. Its headers, a line or its path may be too long.
func TestHandshakeIsBounded(t *testing.T) {
	w := newTestServer(t, nil)
	for name, text := range map[string]string{
		"one header again and again": "GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-A: "+strings.Repeat("y", 1000)+"\r\n", 200),
		"a line without an end":      "GET / HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("y", 200_000),
		"an address without an end":  "GET /" + strings.Repeat("y", 200_000),
		"for an archive":             "GET " + assetPath + "1/00 HTTP/1.1\r\nX-A: " + strings.Repeat("y", 200_000),
	} {
		nc := testenv.Value(net.Dial("tcp", w.addr))(t)
		_ = nc.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(nc, text)
		answer, _ := io.ReadAll(nc)
		if nc.Close(); !strings.HasPrefix(string(answer), "HTTP/1.1 431 ") || !strings.Contains(string(answer), "larger than 64 KiB") {
			t.Errorf("%s: got %.200q", name, answer)
		}
	}
}

// The times of a keepalive come from the node's resource, the agent or the server, in that order.
func TestKeepaliveTimesComeFromNodeAgentOrServer(t *testing.T) {
	s := &Server{cfg: Config{Checks: &testServer{}, Limits: Limits{SessionLimits: core.SessionLimits{Keepalive: 20 * time.Second, Timeout: 120 * time.Second}}}}
	for name, c := range map[string]struct {
		info                       intent.NodeInfo
		said                       sensuwire.ReceivedEvent
		keepalive                  bool
		interval, warning, timeout time.Duration
	}{
		"defaults":                            {intent.NodeInfo{}, sensuwire.ReceivedEvent{}, true, 20 * time.Second, 0, 120 * time.Second},
		"warning alone":                       {intent.NodeInfo{}, sensuwire.ReceivedEvent{Interval: 5, Timeout: 30}, true, 5 * time.Second, 0, 30 * time.Second},
		"warning and critical":                {intent.NodeInfo{}, sensuwire.ReceivedEvent{Interval: 5, Timeout: 30, TTL: 90}, true, 5 * time.Second, 30 * time.Second, 90 * time.Second},
		"shortest times":                      {intent.NodeInfo{}, sensuwire.ReceivedEvent{Interval: 20, Timeout: 5, TTL: 90}, true, 20 * time.Second, 30 * time.Second, 90 * time.Second},
		"the node's own":                      {intent.NodeInfo{Interval: time.Second, Timeout: 40 * time.Second}, sensuwire.ReceivedEvent{Interval: 5, Timeout: 30, TTL: 90}, true, time.Second, 0, 40 * time.Second},
		"its warning":                         {intent.NodeInfo{Warning: 50 * time.Second}, sensuwire.ReceivedEvent{Interval: 5, Timeout: 30, TTL: 90}, true, 5 * time.Second, 50 * time.Second, 90 * time.Second},
		"an event before the first keepalive": {intent.NodeInfo{}, sensuwire.ReceivedEvent{Interval: 5, Timeout: 30, TTL: 90}, false, 20 * time.Second, 0, 120 * time.Second},
	} {
		n := s.nodeWithKeepalive(&c.info, &c.said, c.keepalive)
		if n.Keepalive != c.interval || n.Warning != c.warning || n.Timeout != c.timeout {
			t.Errorf("%s: %v, %v, %v", name, n.Keepalive, n.Warning, n.Timeout)
		}
	}
}

// TestDeregisteringAgentEndsCleanly disconnects an agent with the setting deregister, and expects a planned
// stop, not a missing node. The node is ephemeral, and the end counts as a planned stop. Other nodes are
// missed.
func TestDeregisteringAgentEndsCleanly(t *testing.T) {
	w := newTestServer(t, nil)
	for _, deregister := range []bool{true, false} {
		for _, json := range []bool{true, false} {
			name := "web"
			a := w.mustDial(name, json)
			a.entity.Deregister = deregister
			w.update(func() { clear(w.nodes); w.records = nil })
			go a.read()
			a.send(sensuwire.TypeKeepalive, &sensuwire.Event{Timestamp: 1, Entity: &a.entity, Interval: 5, Warning: 30, Critical: 90})
			w.wait("its session", func() bool { return w.server.registry.Get(w.nodes[a.uid()].ID) != nil })
			w.mu.Lock()
			info := w.nodes[a.uid()]
			w.mu.Unlock()
			if want := map[bool]time.Duration{true: 90 * time.Second}[deregister]; info.ForgetAfter != want {
				t.Errorf("deregister %v: forgotten after %v", deregister, info.ForgetAfter)
			}
			testenv.NoError(t, a.conn.Close())
			<-a.ended
			var begun, ended *wire.SessionRecord
			w.wait("its end", func() bool {
				for _, r := range w.records {
					if r.Kind == wire.RecordSession && r.Session.Start {
						begun = r.Session
					} else if r.Kind == wire.RecordSession {
						ended = r.Session
					}
				}
				return ended != nil
			})
			if ended.Clean != deregister || begun.KeepaliveMs != 5000 || begun.WarningMs != 30000 || begun.TimeoutMs != 90000 {
				t.Errorf("deregister %v: began with %+v, ended with %+v", deregister, begun, ended)
			}
		}
	}
}

// The agent of a node may connect again after the node was deleted for its absence.
func TestDeletedAbsentNodeMayReconnect(t *testing.T) {
	w := newTestServer(t, nil)
	uid := (&intent.ExternalAgent{System: agentSystem, Namespace: "default", Name: "web"}).UID()
	w.update(func() { w.tombstones[uid] = intent.Tombstone{Name: "web", Cause: intent.ReasonForgotten} })
	w.mustDial("web", false)
}

// The server records the handlers and pipelines that an agent names in its keepalives, and their changes. Pipelines
// of an event belong to its check.
func TestHandlersOfAKeepaliveAreRecorded(t *testing.T) {
	for _, json := range []bool{true, false} {
		w := newTestServer(t, nil)
		a := w.mustDial("web", json)
		go a.read()
		hears := func() (h *model.KeepaliveReceivers, told bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			said, told := w.reports[a.uid()]
			return said.KeepaliveReceivers, told
		}
		a.entity.KeepaliveHandlers = []string{"Slack", "slack", "cmdb"}
		a.send(sensuwire.TypeEvent, &sensuwire.Event{Timestamp: 1, Entity: &a.entity, MetricsOnly: true, Pipelines: []string{"of-the-check"}})
		w.wait("its session", func() bool { _, told := w.reports[a.uid()]; return told })
		if h, _ := hears(); h != nil {
			t.Errorf("json %v: an event says %+v", json, h)
		}
		for _, pipelines := range [][]string{{"Alerts", "more"}, {"more"}, nil} {
			a.send(sensuwire.TypeKeepalive, &sensuwire.Event{Timestamp: 1, Entity: &a.entity, Interval: 5, Warning: 30, Pipelines: pipelines})
			want := &model.KeepaliveReceivers{Handlers: []string{"slack", "cmdb"}, Pipelines: validNames(pipelines)}
			w.wait(fmt.Sprint(pipelines), func() bool { return w.reports[a.uid()].KeepaliveReceivers.Equal(want) })
		}
	}
}

// The deregistration handler of an agent is looked up in its node's namespace. A warning names a handler that does not
// exist or accepts only problems.
func TestDeregistrationHandlerIsInTheNodesNamespace(t *testing.T) {
	var log lockedBuffer
	w := newTestServer(t, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	for name, c := range map[string]struct {
		says   string
		names  []string
		logged string // "": nothing
	}{
		"there":    {"CMDB", []string{"cmdb"}, ""},
		"missing":  {"nobody", []string{"nobody"}, "the handler does not exist: apply the handler"},
		"pages":    {"pager", []string{"pager"}, "handler=pager"},
		"a set":    {"registration", []string{"registration"}, ""},
		"nobody":   {"", nil, ""},
		"climbing": {"shared/cmdb", []string{"shared-cmdb"}, "handler=shared-cmdb"},
	} {
		for _, json := range []bool{true, false} {
			a := w.mustDial(name, json)
			a.entity.Deregister, a.entity.Deregistration = true, c.says
			log.reset()
			w.update(func() { clear(w.nodes); w.server.logUnusableHandlers = rate.Sometimes{First: 1} })
			go a.read()
			a.sendKeepalive()
			w.wait("its session", func() bool { return w.server.registry.Get(w.nodes[a.uid()].ID) != nil })
			w.mu.Lock()
			life := w.lifecycles[a.uid()]
			w.mu.Unlock()
			if life == nil || !slices.Equal(life.Handlers, c.names) {
				t.Errorf("%s: %+v", name, life)
			}
			if text := log.text(); !strings.Contains(text, c.logged) || c.logged == "" && strings.Contains(text, "deregistration handler") {
				t.Errorf("%s: log %q, want %q", name, text, c.logged)
			}
			_ = a.conn.Close()
			<-a.ended
			w.wait("its end", func() bool { return w.server.registry.Len() == 0 })
		}
	}
}

// A session uses the default keepalive times until the agent's first keepalive arrives. The journal gets the agent's
// times once.
func TestFirstKeepaliveSetsTheTimeouts(t *testing.T) {
	for _, json := range []bool{true, false} {
		w := newTestServer(t, nil)
		a := w.mustDial("web", json)
		a.entity.Deregister = true
		go a.read()
		a.send(sensuwire.TypeEvent, &sensuwire.Event{Timestamp: 1, Entity: &a.entity, MetricsOnly: true})
		for range 2 {
			a.send(sensuwire.TypeKeepalive, &sensuwire.Event{Timestamp: 1, Entity: &a.entity, Interval: 5, Warning: 30, Critical: 60})
		}
		w.wait("two keepalives", func() bool { return len(w.signals) >= 2 })
		_ = a.conn.Close()
		<-a.ended
		var marks [][4]uint32 // begun, keepalive, warning, critical
		session := map[uint64]bool{}
		w.wait("its end", func() bool {
			marks = nil
			for _, r := range w.records {
				if s := r.Session; s != nil {
					begun := uint32(0)
					if s.Start {
						begun = 1
					}
					session[s.Session] = true
					marks = append(marks, [4]uint32{begun, s.KeepaliveMs, s.WarningMs, s.TimeoutMs})
				}
			}
			return len(marks) > 0 && marks[len(marks)-1][0] == 0
		})
		own := [3]uint32{5000, 30000, 60000}
		l := w.server.cfg.Limits
		want := [][4]uint32{{1, uint32(l.Keepalive.Milliseconds()), 0, uint32(l.Timeout.Milliseconds())}, {1, own[0], own[1], own[2]}, {0, own[0], own[1], own[2]}}
		if !slices.Equal(marks, want) || len(session) != 1 {
			t.Errorf("json %v: %v of %d sessions, want %v", json, marks, len(session), want)
		}
	}
}

// TestChangedPipelinesAreJournaled changes the pipelines in an agent's keepalives, and expects a new session record
// in the journal. Each keepalive counts once as a heartbeat.
func TestChangedPipelinesAreJournaled(t *testing.T) {
	w := newTestServer(t, nil)
	a := w.mustDial("web", true)
	go a.read()
	keepalive := func(pipelines ...string) {
		w.update(func() { w.pipelines = pipelines })
		a.send(sensuwire.TypeKeepalive, &sensuwire.Event{Timestamp: 1, Entity: &a.entity, Interval: 5, Warning: 30})
	}
	for i, step := range []struct {
		pipelines      []string
		marks, signals int
		every          bool
	}{{nil, 1, 1, false}, {[]string{"alerts"}, 2, 1, true}, {[]string{"alerts"}, 2, 2, true}, {nil, 3, 3, false}} {
		keepalive(step.pipelines...)
		w.wait(fmt.Sprintf("step %d", i), func() bool {
			marks, every := 0, false
			for _, r := range w.records {
				if r.Session != nil {
					marks, every = marks+1, r.Session.EveryKeepalive
				}
			}
			return marks == step.marks && len(w.signals) == step.signals && every == step.every
		})
	}
}

// lockedBuffer collects the server's log for tests. A test may read it concurrently.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends to the buffered log.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// text returns the log so far.
func (b *lockedBuffer) text() string { b.mu.Lock(); defer b.mu.Unlock(); return b.b.String() }

// reset empties the log.
func (b *lockedBuffer) reset() { b.mu.Lock(); defer b.mu.Unlock(); b.b.Reset() }

// TestNewAgentIsRegistered opens two sessions of an unknown agent, and expects only the first to count as
// registration. A handler gets that event.
func TestNewAgentIsRegistered(t *testing.T) {
	w := newTestServer(t, nil)
	for i, want := range []bool{true, false} {
		a := w.mustDial("web", true)
		go a.read()
		a.send(sensuwire.TypeKeepalive, &sensuwire.Event{Timestamp: 1, Entity: &a.entity, Interval: 5, Warning: 30})
		w.wait(fmt.Sprintf("session %d", i), func() bool {
			var begun []bool
			for _, r := range w.records {
				if r.Session != nil && r.Session.Start {
					begun = append(begun, r.Session.Registered)
				}
			}
			return len(begun) == i+1 && begun[i] == want
		})
		_ = a.conn.Close()
		<-a.ended
	}
}
