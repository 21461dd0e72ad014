// Package alerts hears the alerts of a server from outside, beside the results that have to bring them about. Package judge
// judges both.
//
// listener.go hears, handler.go declares the webhook, witness.go has the alerts of one event state. Goroutines: an HTTP
// server, and a watch of keepalives. Locks: Listener.mu, then Witness.mu; both are taken under the agents'. Start reading
// at Listener.
package alerts

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load/clock"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// Run describes the run of a Listener.
type Run struct {
	API      *client.Client
	Log      *slog.Logger
	Scenario *scenario.Scenario
	Address  string // of this machine; the server reaches it
	*clock.Clock
}

// Listener receives the alerts of checks by a webhook, and the problems of machines by a watch of their keepalives. A
// nil Listener hears nothing.
type Listener struct {
	run      Run
	path     string // of the webhook, not to be guessed
	listener net.Listener
	server   *http.Server

	mu       sync.Mutex
	checks   map[string]*Witness // by node/check
	machines map[string]*machine // by node
	keys     map[string]struct{} // idempotency keys of all alerts: a repetition may come hours later
	seen     observe.Alerts      // without states and strikes
	heard    int64               // when the last alert came, ns

	following sync.WaitGroup
	stop      context.CancelFunc
}

// machine records the problems of a machine's keepalive.
type machine struct {
	Witness
	problem string // the open one, as it was last told
}

// Listen opens the socket for alerts. Nobody sends any before Declare.
func Listen(run Run) (*Listener, error) {
	in, err := net.Listen("tcp", net.JoinHostPort(run.Address, "0"))
	if err != nil {
		return nil, model.Errorf(model.Unavailable, "listen for alerts: %w", err)
	}
	l := &Listener{run: run, path: "/alerts/" + rand.Text(), listener: in, checks: map[string]*Witness{}, machines: map[string]*machine{},
		keys: map[string]struct{}{}, stop: func() {}}
	mux := http.NewServeMux()
	mux.Handle("POST "+l.path, l)
	l.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	return l, nil
}

// WatchCheck starts to record the alerts of a check on a node, and returns their record.
func (l *Listener) WatchCheck(node, check string, fails, tells bool) *Witness {
	w := &Witness{Alerted: observe.Alerted{Name: node + "/" + check, Fails: fails, Told: tells}}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checks[w.Name] = w
	return w
}

// WatchMachine starts to record the keepalive problems of a machine.
func (l *Listener) WatchMachine(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.machines[node] = &machine{Witness: Witness{Alerted: observe.Alerted{Name: KeepaliveOf(node), Machine: true}}}
}

// KeepaliveOf returns the name of the event state of a machine's keepalive.
func KeepaliveOf(node string) string { return observe.OwnName(node) + "/" + model.KeepaliveCheckName }

// Quiet returns the time since the last alert, or since a later time.
func (l *Listener) Quiet(since int64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.run.Now() - max(since, l.heard))
}

// Seen returns the alerts so far without strikes, with times since an instant, and the index of each state by its name.
func (l *Listener) Seen(begin int64) (out *observe.Alerts, index map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := l.seen
	seen.End, index = l.run.Now()-begin, map[string]int{}
	add := func(w *Witness) {
		index[w.Name] = len(seen.States)
		seen.States = append(seen.States, w.Seen(begin))
	}
	for _, name := range slices.Sorted(maps.Keys(l.checks)) {
		add(l.checks[name])
	}
	for _, name := range slices.Sorted(maps.Keys(l.machines)) {
		add(&l.machines[name].Witness)
	}
	return &seen, index
}

// url returns the URL to which the handler posts.
func (l *Listener) url() string { return "http://" + l.listener.Addr().String() + l.path }

// notification holds the fields of an alert that the listener reads.
type notification struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Node      string `json:"node"`
	Check     string `json:"check"`
	Expired   bool   `json:"expired"`
}

// mostAlert bounds the body of a notification; outputs are whole in it.
const mostAlert = 4 << 20

// ServeHTTP records a posted alert, and ignores repetitions with the same key, because the server delivers at least
// once. It accepts and ignores messages that neither open nor close a problem, such as reminders and newer kinds, so
// that the server does not keep them as undeliverable.
func (l *Listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := l.run.Now() // its head is here: the first byte was a moment before
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
		l.told(r.Header.Get("Idempotency-Key"), n, at)
	}
	w.WriteHeader(http.StatusNoContent)
}

// turns reports whether the message opens or closes a problem.
func (n *notification) turns() bool { return n.Kind == "opened" || n.Kind == "closed" }

// parseNotification decodes the body of an alert.
func parseNotification(body []byte) (n notification, err error) {
	if err := json.Unmarshal(body, &n); err != nil {
		return n, fmt.Errorf("read a notification: %w", err)
	}
	if n.turns() && (n.Node == "" || n.Check == "") {
		return n, fmt.Errorf("a notification of kind %q, node %q, check %q", n.Kind, n.Node, n.Check)
	}
	return n, nil
}

// told records an alert.
func (l *Listener) told(key string, n notification, at int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, again := l.keys[key]; again && key != "" {
		l.seen.Again++
		return
	}
	l.keys[key] = struct{}{}
	l.heard = l.run.Now()
	s := l.checks[observe.OwnName(n.Node)+"/"+n.Check]
	if s == nil || n.Namespace != simulated.Namespace {
		if l.seen.Strangers++; l.seen.Strangers == 1 {
			l.seen.Stranger = n.Namespace + "/" + n.Node + "/" + n.Check
		}
		return
	}
	if n.Expired {
		s.Unknown()
	}
	s.told(n.Kind == "opened", at)
}

// Event records the state of a machine's keepalive.
func (l *Listener) Event(e *v1.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.machines[observe.OwnName(e.Node)]
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
	l.heard = l.run.Now()
	if m.problem != "" {
		m.told(false, l.heard)
	}
	if now != "" {
		m.told(true, l.heard)
	}
	m.problem = now
}

// follow watches the keepalives until ctx ends. A watch that breaks, such as when the server is killed, starts again,
// and first reads the changes meanwhile.
func (l *Listener) follow(ctx context.Context) {
	filter := v1.EventFilter{Namespace: simulated.Namespace, Check: model.KeepaliveCheckName}
	for ctx.Err() == nil {
		_ = l.run.API.Events.Watch(ctx, filter, func() error { return l.missed(ctx) }, func(e v1.Event) error {
			l.Event(&e)
			return nil
		})
		pause.For(ctx, 200*time.Millisecond)
	}
}

// missed reads the open keepalive problems, and the machines whose problem has closed meanwhile.
func (l *Listener) missed(ctx context.Context) error {
	seen := map[string]bool{}
	err := OpenProblems(ctx, l.run.API, model.KeepaliveCheckName, func(e *v1.Event) {
		seen[observe.OwnName(e.Node)] = true
		l.Event(e)
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, m := range l.machines {
		if m.problem != "" && !seen[name] {
			m.told(false, l.run.Now())
			m.problem = ""
		}
	}
	return nil
}
