package sensu

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/time/rate"

	"github.com/muster-fleet/muster/internal/sensuwire"
)

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
			a, status := w.dial(name, "default", "secret", json)
			if a == nil {
				t.Fatal(status)
			}
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
		a, status := w.dial("web", "default", "secret", json)
		if a == nil {
			t.Fatal(status)
		}
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
