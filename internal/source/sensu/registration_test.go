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

// Who has not said yet who it is takes no more memory than a handshake needs: neither by one
// header again and again, nor by a line without an end, nor where archives are fetched.
func TestEndlessHandshake(t *testing.T) {
	w := newWorld(t, nil)
	for name, text := range map[string]string{
		"one header again and again": "GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-A: "+strings.Repeat("y", 1000)+"\r\n", 200),
		"a line without an end":      "GET / HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("y", 200_000),
		"an address without an end":  "GET /" + strings.Repeat("y", 200_000),
		"for an archive":             "GET " + assetPath + "1/00 HTTP/1.1\r\nX-A: " + strings.Repeat("y", 200_000),
	} {
		nc := testenv.Value(net.Dial("tcp", w.addr))(t)
		_ = nc.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(nc, text)
		said, _ := io.ReadAll(nc)
		if nc.Close(); !strings.HasPrefix(string(said), "HTTP/1.1 431 ") || !strings.Contains(string(said), "larger than 64 KiB") {
			t.Errorf("%s: got %.200q", name, said)
		}
	}
}

// When a node is missed is its own resource's to say, then its agent's.
func TestKeepaliveThresholds(t *testing.T) {
	s := &Server{cfg: Config{Limits: Limits{SessionLimits: core.SessionLimits{Keepalive: 20 * time.Second, Timeout: 120 * time.Second}}}}
	for name, c := range map[string]struct {
		info                       intent.NodeInfo
		said                       sensuwire.Received
		keepalive                  bool
		interval, warning, timeout time.Duration
	}{
		"nobody says":             {intent.NodeInfo{}, sensuwire.Received{}, true, 20 * time.Second, 0, 120 * time.Second},
		"warning alone":           {intent.NodeInfo{}, sensuwire.Received{Interval: 5, Timeout: 30}, true, 5 * time.Second, 0, 30 * time.Second},
		"warning and critical":    {intent.NodeInfo{}, sensuwire.Received{Interval: 5, Timeout: 30, TTL: 90}, true, 5 * time.Second, 30 * time.Second, 90 * time.Second},
		"no shorter than it may":  {intent.NodeInfo{}, sensuwire.Received{Interval: 20, Timeout: 5, TTL: 90}, true, 20 * time.Second, 30 * time.Second, 90 * time.Second},
		"the node's own":          {intent.NodeInfo{Interval: time.Second, Timeout: 40 * time.Second}, sensuwire.Received{Interval: 5, Timeout: 30, TTL: 90}, true, time.Second, 0, 40 * time.Second},
		"its warning":             {intent.NodeInfo{Warning: 50 * time.Second}, sensuwire.Received{Interval: 5, Timeout: 30, TTL: 90}, true, 5 * time.Second, 50 * time.Second, 90 * time.Second},
		"an event before it says": {intent.NodeInfo{}, sensuwire.Received{Interval: 5, Timeout: 30, TTL: 90}, false, 20 * time.Second, 0, 120 * time.Second},
	} {
		n := s.nodeOf(&c.info, &c.said, c.keepalive)
		if n.Keepalive != c.interval || n.Warning != c.warning || n.Timeout != c.timeout {
			t.Errorf("%s: %v, %v, %v", name, n.Keepalive, n.Warning, n.Timeout)
		}
	}
}

// A machine whose agent says deregister is a node that comes and goes: that its connection
// ends, however, is no death. Any other is missed when it goes without a word.
func TestDeregister(t *testing.T) {
	w := newWorld(t, nil)
	for _, deregister := range []bool{true, false} {
		for _, json := range []bool{true, false} {
			name := "web"
			a := w.mustDial(name, json)
			a.x.Deregister = deregister
			w.set(func() { clear(w.nodes); w.records = nil })
			go a.read()
			a.send(sensuwire.TypeKeepalive, &sensuwire.Event{Timestamp: 1, Entity: &a.x, Interval: 5, Warning: 30, Critical: 90})
			w.wait("its session", func() bool { return w.server.registry.Get(w.nodes[a.uid()].ID) != nil })
			w.mu.Lock()
			info := w.nodes[a.uid()]
			w.mu.Unlock()
			if want := map[bool]time.Duration{true: 90 * time.Second}[deregister]; info.ForgetAfter != want {
				t.Errorf("deregister %v: forgotten after %v", deregister, info.ForgetAfter)
			}
			testenv.NoError(t, a.conn.Close())
			<-a.ended
			var begun, ended *wire.SessionMark
			w.wait("its end", func() bool {
				for _, r := range w.records {
					if r.Kind == wire.RecordSession && r.Session.Begun {
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

// One that was forgotten may come again; one that was retired may not.
func TestDeletedNodeMayReturn(t *testing.T) {
	w := newWorld(t, nil)
	uid := (&intent.ExternalAgent{System: system, Namespace: "default", Name: "web"}).UID()
	w.set(func() { w.gone[uid] = intent.Tombstone{Name: "web", Why: intent.ReasonForgotten} })
	w.mustDial("web", false)
}

// Whom an agent wants to hear of its keepalive is learned from its keepalives, and anew when it
// changes; the pipelines of an event that begins a session are those of its check.
func TestReceiversOfAnAgentsKeepalive(t *testing.T) {
	for _, json := range []bool{true, false} {
		w := newWorld(t, nil)
		a := w.mustDial("web", json)
		go a.read()
		hears := func() (h *model.KeepaliveReceivers, told bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			said, told := w.said[a.uid()]
			return said.Hears, told
		}
		a.x.KeepaliveHandlers = []string{"Slack", "slack", "cmdb"}
		a.send(sensuwire.TypeEvent, &sensuwire.Event{Timestamp: 1, Entity: &a.x, MetricsOnly: true, Pipelines: []string{"of-the-check"}})
		w.wait("its session", func() bool { _, told := w.said[a.uid()]; return told })
		if h, _ := hears(); h != nil {
			t.Errorf("json %v: an event says %+v", json, h)
		}
		for _, pipelines := range [][]string{{"Alerts", "more"}, {"more"}, nil} {
			a.send(sensuwire.TypeKeepalive, &sensuwire.Event{Timestamp: 1, Entity: &a.x, Interval: 5, Warning: 30, Pipelines: pipelines})
			want := &model.KeepaliveReceivers{Handlers: []string{"slack", "cmdb"}, Pipelines: cleanNames(pipelines)}
			w.wait(fmt.Sprint(pipelines), func() bool { return w.said[a.uid()].Hears.Equal(want) })
		}
	}
}

// Whom an agent names is whom its node names, in the node's namespace; the operator hears of one
// that is not there, or takes problems only.
func TestDeregistrationHandler(t *testing.T) {
	var log lockedBuffer
	w := newWorld(t, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	for name, c := range map[string]struct {
		says   string
		names  []string
		logged string // "": nothing
	}{
		"there":    {"CMDB", []string{"cmdb"}, ""},
		"missing":  {"nobody", []string{"nobody"}, "it does not exist: apply it"},
		"pages":    {"pager", []string{"pager"}, "handler=pager"},
		"nobody":   {"", nil, ""},
		"climbing": {"shared/cmdb", []string{"shared-cmdb"}, "handler=shared-cmdb"},
	} {
		for _, json := range []bool{true, false} {
			a := w.mustDial(name, json)
			a.x.Deregister, a.x.Deregistration = true, c.says
			log.reset()
			w.set(func() { clear(w.nodes); w.server.logDeafHandlers = rate.Sometimes{First: 1} })
			go a.read()
			a.alive()
			w.wait("its session", func() bool { return w.server.registry.Get(w.nodes[a.uid()].ID) != nil })
			w.mu.Lock()
			life := w.lives[a.uid()]
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

// A session that begins with an event has its agent's time-outs from its first keepalive on, and
// the journal hears of them once.
func TestTimeoutsAfterAnEvent(t *testing.T) {
	for _, json := range []bool{true, false} {
		w := newWorld(t, nil)
		a := w.mustDial("web", json)
		a.x.Deregister = true
		go a.read()
		a.send(sensuwire.TypeEvent, &sensuwire.Event{Timestamp: 1, Entity: &a.x, MetricsOnly: true})
		for range 2 {
			a.send(sensuwire.TypeKeepalive, &sensuwire.Event{Timestamp: 1, Entity: &a.x, Interval: 5, Warning: 30, Critical: 60})
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
					if s.Begun {
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

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}
func (b *lockedBuffer) text() string { b.mu.Lock(); defer b.mu.Unlock(); return b.b.String() }
func (b *lockedBuffer) reset()       { b.mu.Lock(); defer b.mu.Unlock(); b.b.Reset() }
