package sensu

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"

	"github.com/muster-fleet/muster/internal/sensuwire"
)

// fake is a Sensu backend for tests: it accepts agents, sends requests, and keeps the last event of each check.
type fake struct {
	t      *testing.T
	json   bool
	agents net.Listener

	mu       sync.Mutex
	sessions map[string]*fakeSession
	kept     map[string]*fakeEvent    // by entity/check
	alive    map[string]int           // keepalives, by entity
	lives    map[string]string        // what the last of them said: its interval, and after how long it is missed
	checks   map[string]chan struct{} // by name: closed when it is deleted
	lose     func(e *fakeEvent) bool  // nil: nothing is lost
	never    string                   // a check that it asks nobody for
}

// fakeSession is a session of the fake backend.
type fakeSession struct {
	nc            net.Conn
	subscriptions []string
	mu            sync.Mutex
}

// fakeMeta is the metadata of an object.
type fakeMeta struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// fakeCheck is a check of the fake backend.
type fakeCheck struct {
	Metadata      fakeMeta `json:"metadata"`
	Command       string   `json:"command"`
	Interval      uint32   `json:"interval"`
	Timeout       uint32   `json:"timeout,omitempty"` // of a keepalive
	Subscriptions []string `json:"subscriptions"`
	Publish       bool     `json:"publish"`
	Handlers      []string `json:"handlers"`
	Env           []string `json:"env_vars,omitempty"`
}

// fakeEvent is an event as the API shows it.
type fakeEvent struct {
	Sequence int64 `json:"sequence"`
	Entity   struct {
		Metadata fakeMeta `json:"metadata"`
	} `json:"entity"`
	Check struct {
		fakeCheck
		Executed    int64  `json:"executed"`
		Issued      int64  `json:"issued"`
		Output      string `json:"output"`
		Status      uint32 `json:"status"`
		Occurrences uint32 `json:"occurrences"`
	} `json:"check"`
}

// newFake starts a fake backend.
func newFake(t *testing.T, speaksJSON bool) *fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &fake{t: t, json: speaksJSON, agents: l, sessions: map[string]*fakeSession{}, kept: map[string]*fakeEvent{}, alive: map[string]int{}, lives: map[string]string{}, checks: map[string]chan struct{}{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { b.serve(nc) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		b.cut()
		all.Wait()
	})
	return b
}

func (b *fake) url() string { return "ws://" + b.agents.Addr().String() }

// cut ends all sessions.
func (b *fake) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sessions {
		_ = s.nc.Close()
	}
}

// serve serves one agent.
func (b *fake) serve(nc net.Conn) {
	defer nc.Close()
	said := http.Header{}
	up := ws.Upgrader{
		OnHeader: func(k, v []byte) error { said.Add(string(k), string(v)); return nil },
		OnBeforeUpgrade: func() (ws.HandshakeHeader, error) {
			r := http.Request{Header: said}
			if user, password, _ := r.BasicAuth(); user != "agent" || password != "secret" {
				return nil, ws.RejectConnectionError(ws.RejectionStatus(401), ws.RejectionReason("bad credentials"))
			}
			accept := []string{sensuwire.MediaProto, sensuwire.MediaJSON}
			if b.json {
				accept = accept[1:]
			}
			return ws.HandshakeHeaderHTTP{"Accept": accept}, nil
		},
	}
	if _, err := up.Upgrade(nc); err != nil {
		return
	}
	s := &fakeSession{nc: nc, subscriptions: strings.Split(said.Get("Sensu-Subscriptions"), ",")}
	b.send(s, sensuwire.TypeEntityConfig, b.codec().AppendConfig(nil, &sensuwire.Config{Name: sensuwire.UnknownEntity, Namespace: "default"}))
	name := said.Get("Sensu-Agentname")
	for {
		message, op, err := wsutil.ReadClientData(nc)
		if err != nil {
			return
		}
		kind, body, err := sensuwire.Parse(message)
		if err != nil || op != ws.OpBinary {
			b.t.Errorf("%v, opcode %d", err, op)
			return
		}
		e := b.event(body)
		b.mu.Lock()
		switch string(kind) {
		case sensuwire.TypeKeepalive:
			if b.alive[name]++; b.alive[name] == 1 {
				b.send(s, sensuwire.TypeEntityConfig, b.codec().AppendConfig(nil, &sensuwire.Config{Name: name, Namespace: "default", Subscriptions: append(s.subscriptions, "entity:"+name)}))
			}
			b.lives[name] = fmt.Sprintf("%d s, %d s", e.Check.Interval, e.Check.Timeout)
			b.sessions[name] = s
		case sensuwire.TypeEvent:
			if b.lose == nil || !b.lose(e) {
				key := e.Entity.Metadata.Name + "/" + e.Check.Metadata.Name
				e.Check.Occurrences = 1
				if before := b.kept[key]; before != nil && before.Check.Status == e.Check.Status {
					e.Check.Occurrences += before.Check.Occurrences
				}
				b.kept[key] = e
			}
		default:
			b.t.Errorf("a message of kind %q", kind)
		}
		b.mu.Unlock()
	}
}

// ask sends a request for a check to an agent.
func (b *fake) ask(agent string, c fakeCheck, issued int64) {
	b.mu.Lock()
	s := b.sessions[agent]
	b.mu.Unlock()
	b.send(s, sensuwire.TypeCheckRequest, b.request(c, issued))
}

// send sends an agent a message.
func (b *fake) send(s *fakeSession, kind string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = wsutil.WriteServerBinary(s.nc, append([]byte(kind+"\n"), body...))
}

// codec returns the encoding of the agents' messages.
func (b *fake) codec() sensuwire.Codec {
	if b.json {
		return sensuwire.JSON
	}
	return sensuwire.Protobuf
}

// request returns an encoded request for a check.
func (b *fake) request(c fakeCheck, issued int64) []byte {
	return b.codec().AppendRequest(nil, &sensuwire.CheckRequest{Name: c.Metadata.Name, Namespace: "default", Command: c.Command, Env: c.Env, Interval: c.Interval, Issued: issued})
}

// event decodes the event that an agent sent.
func (b *fake) event(body []byte) *fakeEvent {
	var s sensuwire.ReceivedEvent
	if err := b.codec().ReadEvent(body, &s); err != nil {
		b.t.Errorf("%v in %q", err, body)
	}
	e := &fakeEvent{Sequence: s.Sequence}
	e.Entity.Metadata = fakeMeta{string(s.Entity), string(s.Namespace)}
	k := &e.Check
	k.Metadata.Name, k.Interval, k.Timeout = string(s.Check), s.Interval, s.Timeout
	k.Issued, k.Executed, k.Status, k.Output = s.Issued, s.Executed, s.Status, string(s.Output)
	return e
}

// eventually waits until the backend satisfies a condition.
func (b *fake) eventually(what string, ok func() bool) {
	b.t.Helper()
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); <-time.After(2 * time.Millisecond) {
		b.mu.Lock()
		done := ok()
		b.mu.Unlock()
		if done {
			return
		}
	}
	b.t.Fatalf("not in time: %s", what)
}

// holds returns a condition: the backend has an event for which executed returns true.
func (b *fake) holds(key string, executed func(e *fakeEvent) bool) func() bool {
	return func() bool { e := b.kept[key]; return e != nil && executed(e) }
}
