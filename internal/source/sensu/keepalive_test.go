package sensu

import (
	"errors"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/wire"
)

// When a node is missed is its own resource's to say, then its agent's.
func TestKeepaliveThresholds(t *testing.T) {
	s := &Server{cfg: Config{Limits: Limits{Keepalive: 20 * time.Second, Timeout: 120 * time.Second}}}
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
			a, status := w.dial(name, "default", "secret", json)
			if a == nil {
				t.Fatal(status)
			}
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
			if err := a.conn.Close(); err != nil {
				t.Fatal(err)
			}
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
func TestForgottenMayComeAgain(t *testing.T) {
	w := newWorld(t, nil)
	uid := (&intent.ExternalAgent{System: system, Namespace: "default", Name: "web"}).UID()
	w.set(func() { w.gone[uid] = intent.Tombstone{Name: "web", Why: intent.ReasonForgotten} })
	a, status := w.dial("web", "default", "secret", false)
	if a == nil {
		t.Fatal(errors.New("refused"), status)
	}
}
