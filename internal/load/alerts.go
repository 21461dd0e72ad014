package load

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// alarms hears, from outside, whom a server tells of what: of checks by a webhook that the
// run sets up (result, problem, outbox, delivery), of machines by a watch of their
// keepalives. Start reading at newAlarms, and alertsetup.go; package judge judges.
type alarms struct {
	run      *run
	path     string // of the webhook, not to be guessed
	listener net.Listener
	server   *http.Server

	mu        sync.Mutex
	checks    map[string]*witness // by node/check
	machines  map[string]*machineWitness
	keys      map[string]struct{} // idempotency keys of what was told: all of them, for a repetition may come hours later
	again     uint64              // that came once more
	strangers int                 // alerts of checks that nobody watches
	stranger  string              // the first of them
	heard     int64               // when the last alert came, ns

	following sync.WaitGroup
	stop      context.CancelFunc
}

// machineWitness follows a machine's keepalive.
type machineWitness struct {
	witness
	problem string // the open one, as it was last told
}

func newAlarms(r *run) (*alarms, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(r.facing(), "0"))
	if err != nil {
		return nil, model.Errorf(model.Unavailable, "listen for alerts: %w", err)
	}
	al := &alarms{run: r, path: "/alerts/" + rand.Text(), listener: l, checks: map[string]*witness{}, machines: map[string]*machineWitness{},
		keys: map[string]struct{}{}, stop: func() {}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+al.path, al.post)
	al.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	return al, nil
}

// facing is the address of this machine that the server under test reaches.
func (r *run) facing() string {
	if c, err := net.Dial("udp", r.cfg.Server); err == nil { // nothing is sent
		defer c.Close()
		if a, ok := c.LocalAddr().(*net.UDPAddr); ok {
			return a.IP.String()
		}
	}
	return "127.0.0.1"
}

// url is where the handler posts to.
func (al *alarms) url() string { return "http://" + al.listener.Addr().String() + al.path }

// notification is what is read of one.
type notification struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Node      string `json:"node"`
	Check     string `json:"check"`
	Expired   bool   `json:"expired"`
}

// mostAlert bounds the body of a notification; outputs are whole in it.
const mostAlert = 4 << 20

// post takes one. A repetition with the same key is none: delivery is at least once. What is neither
// the beginning nor the end of a problem (a reminder that it is worse, a kind that is newer than this
// program) is taken too, and counts as nothing: refused, it would be a dead letter of the server's.
func (al *alarms) post(w http.ResponseWriter, r *http.Request) {
	at := al.run.now() // its head is here: the first byte was a moment before
	body, err := io.ReadAll(io.LimitReader(r.Body, mostAlert))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError) // it is tried again
		return
	}
	n, err := parseNotification(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if n.turns() {
		al.told(r.Header.Get("Idempotency-Key"), n, at)
	}
	w.WriteHeader(http.StatusNoContent)
}

// turns says whether it is one that is judged: a problem opens or closes.
func (n *notification) turns() bool { return n.Kind == "opened" || n.Kind == "closed" }

func parseNotification(body []byte) (n notification, err error) {
	if err := json.Unmarshal(body, &n); err != nil {
		return n, fmt.Errorf("read a notification: %w", err)
	}
	if n.turns() && (n.Node == "" || n.Check == "") {
		return n, fmt.Errorf("a notification of kind %q, node %q, check %q", n.Kind, n.Node, n.Check)
	}
	return n, nil
}

func (al *alarms) told(key string, n notification, at int64) {
	al.mu.Lock()
	defer al.mu.Unlock()
	if _, again := al.keys[key]; again && key != "" {
		al.again++
		return
	}
	al.keys[key] = struct{}{}
	al.heard = al.run.now()
	s := al.checks[observe.OwnName(n.Node)+"/"+n.Check]
	if s == nil || n.Namespace != simulated.Namespace {
		if al.strangers++; al.strangers == 1 {
			al.stranger = n.Namespace + "/" + n.Node + "/" + n.Check
		}
		return
	}
	if n.Expired {
		s.unknown()
	}
	s.told(n.Kind == "opened", at)
}

// event takes what the watch says of a machine's keepalive.
func (al *alarms) event(e *v1.Event) {
	al.mu.Lock()
	defer al.mu.Unlock()
	m := al.machines[observe.OwnName(e.Node)]
	if m == nil || e.Check != model.KeepaliveCheckName {
		return
	}
	now := ""
	if e.Problem != nil {
		now = e.Problem.ID
	}
	if now == m.problem {
		return
	}
	al.heard = al.run.now()
	if m.problem != "" {
		m.told(false, al.heard)
	}
	if now != "" {
		m.told(true, al.heard)
	}
	m.problem = now
}

// follow watches the keepalives until ctx ends. A watch that breaks off, as with a server
// that is killed, begins anew, and asks then what it missed.
func (al *alarms) follow(ctx context.Context) {
	filter := v1.EventFilter{Namespace: simulated.Namespace, Check: model.KeepaliveCheckName}
	for ctx.Err() == nil {
		_ = al.run.cfg.API.Events.Watch(ctx, filter, func() error { return al.missed(ctx) }, func(e v1.Event) error {
			al.event(&e)
			return nil
		})
		pause.For(ctx, 200*time.Millisecond)
	}
}

// missed reads the open problems of machines, and how those are that had one.
func (al *alarms) missed(ctx context.Context) error {
	seen := map[string]bool{}
	err := al.run.openProblems(ctx, model.KeepaliveCheckName, func(e *v1.Event) {
		seen[observe.OwnName(e.Node)] = true
		al.event(e)
	})
	if err != nil {
		return err
	}
	al.mu.Lock()
	defer al.mu.Unlock()
	for name, m := range al.machines {
		if m.problem != "" && !seen[name] {
			m.told(false, al.run.now())
			m.problem = ""
		}
	}
	return nil
}
