//go:build linux

package test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/follow"
	"github.com/muster-fleet/muster/internal/store/pgtest"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

const webhookHandlers = `
{kind: Namespace, metadata: {name: load}, spec: {handlers: [hook]}}
---
{kind: Handler, metadata: {name: hook, namespace: load}, spec: {webhook: {url: %q}}}
`

// TestKillLosesNoNotification kills the server at random times, and expects a notification of each problem's
// opening and closing. Each opening and closing reaches the webhook at least once, in order and always with the
// same key; no other message does.
func TestKillLosesNoNotification(t *testing.T) {
	t.Parallel()
	kills := selectIfShort(2, 5)
	for _, c := range []struct {
		name      string
		leftShort bool
		args      func(t *testing.T) (server, prepare []string)
	}{
		{"sqlite", false, func(*testing.T) ([]string, []string) { return nil, nil }},
		{"postgresql", true, func(t *testing.T) ([]string, []string) {
			dsn := pgtest.Start(t).Database(t)
			return []string{"--intent-db", dsn, "--history-db", dsn}, []string{"--intent-db", dsn}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.leftShort {
				t.Skip("starts PostgreSQL")
			}
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 1))
			args, prepare := c.args(t)
			s := harness.NewServer(t, append(args, "--snapshot-cycle", "2s")...)
			fleet := harness.Fleet{Agents: 5, Checks: 4, Interval: 500 * time.Millisecond, Changes: 0.2}
			s.Prepare(fleet, prepare...)
			s.Start()
			api := s.Client()
			hook := newWebhook(t, 5)
			s.Apply(fmt.Sprintf(webhookHandlers, hook.URL))

			cfg := s.LoadConfig(fleet, time.Duration(kills)*4*time.Second)
			end := startLoadWith(t, cfg)
			for range kills {
				s.WaitReady(40 * time.Second)
				sleep(t.Context(), time.Duration(random.Int64N(int64(2*time.Second))))
				s.Kill()
				s.Launch()
			}
			s.WaitReady(40 * time.Second)
			e := <-end
			assert(t, e.err == nil && e.rep.OK(), "load run: %v, %+v", e.err, e.rep)
			awaitNotificationsSent(t, api)
			hook.compareWithProblems(t, api)
			s.Stop()
		})
	}
}

// webhook is an HTTP server that records received notifications.
type webhook struct {
	*httptest.Server
	refuse int // refuses every refuse-th message; 0: none

	mu     sync.Mutex
	kinds  map[string][]string // by problem, in the order of arrival
	bodies map[string]string   // by idempotency key
	wrong  []string
	got    int
}

// newWebhook starts a webhook that refuses every n-th message, or none if n is 0.
func newWebhook(t *testing.T, refuse int) *webhook {
	w := &webhook{refuse: refuse, kinds: map[string][]string{}, bodies: map[string]string{}}
	w.Server = httptest.NewServer(w)
	t.Cleanup(w.Close)
	return w
}

// ServeHTTP records a message, or refuses every n-th message. A repetition must have the same key and body.
func (w *webhook) ServeHTTP(answer http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the server sends it again
	}
	text, key := string(body), r.Header.Get("Idempotency-Key")
	parts := strings.SplitN(key, "/", 3)
	if len(parts) < 3 {
		w.wrong = append(w.wrong, "key "+key)
		return
	}
	if w.got++; w.refuse > 0 && w.got%w.refuse == 0 {
		answer.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if before, again := w.bodies[key]; again && before != text {
		w.wrong = append(w.wrong, fmt.Sprintf("%s came with another body:\n%s\n%s", key, before, text))
	} else if !again {
		w.bodies[key] = text
		w.kinds[parts[0]] = append(w.kinds[parts[0]], parts[1])
	}
}

// kindsOf returns the kinds of notifications that the webhook received about a problem, such as opened. Each kind is
// listed once, in order of arrival.
func (w *webhook) kindsOf(problem string) (kinds []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, kind := range w.kinds[problem] {
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// compareWithProblems compares the notifications that the webhook received with the problems in history.
func (w *webhook) compareWithProblems(t *testing.T, api *client.Client) {
	t.Helper()
	problems := map[string]v1.Problem{}
	for _, p := range fleetProblems(t, api, false) {
		problems[p.ID] = p
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, text := range w.wrong {
		t.Error(text)
	}
	for id, p := range problems {
		want := "[opened]"
		if !p.Closed.IsZero() {
			want = "[opened closed]"
		}
		told, worse := w.kinds[id], 0
		told = slices.DeleteFunc(slices.Clone(told), func(kind string) bool { // a recipient gets one reminder per higher severity
			if kind == "reminder" {
				worse++
			}
			return kind == "reminder"
		})
		if got := fmt.Sprint(told); got != want || worse > 2 {
			t.Errorf("problem %s of %s/%s has the messages %v, expected %s", id, p.Node, p.Check, w.kinds[id], want)
		}
	}
	for id, kinds := range w.kinds {
		_, known := problems[id]
		assert(t, known, "problem %s has the messages %v, and history lacks it", id, kinds)
	}
	for _, e := range openEvents(t, api, "") {
		p, ok := problems[e.Problem.ID]
		assert(t, ok && p.Closed.IsZero(), "%s/%s has the open problem %s, history has %+v", e.Node, e.Check, e.Problem.ID, p)
	}
	assert(t, len(problems) >= 20, "only %d problems: the test shows nothing", len(problems))
}

// TestKillsKeepOrderOfStreamedResults kills server and receiver repeatedly, and expects every result to arrive in order. Each
// result reaches the receiver at least once; the receiver is a handler of every result.
func TestKillsKeepOrderOfStreamedResults(t *testing.T) {
	skipIfShort(t, "25 s")
	t.Parallel()
	fleet := harness.Fleet{Agents: 20, Checks: 10, Interval: 200 * time.Millisecond}
	s := harness.StartFleet(t, fleet)
	peer := newLineReceiver(t, "127.0.0.1:0")
	address := peer.listener.Addr().String()
	s.Client() // logs in
	namespace := "default"
	if strings.Contains(s.CLI("get", "namespaces"), "load") {
		namespace = "load"
	}
	s.Apply(fmt.Sprintf(`{apiVersion: muster/v1, kind: Handler, metadata: {name: lake, namespace: %s}, spec: {stream: {address: %q, connections: 8, results: all, from: oldest}}}`, namespace, address))

	end := startLoad(t, s, fleet, 12*time.Second)
	came := func(more int) {
		t.Helper()
		from := peer.count()
		harness.Until(t, 60*time.Second, "the receiver gets lines", func() (string, bool) { n := peer.count(); return fmt.Sprint(n), n >= from+more })
	}
	came(1000)
	s.Kill()
	s.Start()
	came(1000)
	peer.kill() // with unread bytes
	sleep(t.Context(), time.Second)
	peer.listen(address)
	came(1000)
	peer.kill()
	s.Kill()
	s.Start()
	s.AwaitOutput("describe handler lake -n "+namespace, "STUCK", address)
	peer.listen(address)
	e := <-end
	require(t, e.err == nil && e.rep.OK(), "load run: %v %+v", e.err, e.rep)
	held := uint64(0)
	for _, state := range s.FleetStates() {
		held += state.Results
	}
	awaitEqual(t, "results that the receiver got", held, func() uint64 { return uint64(peer.count()) })
	s.Try("get", "handlers", "-n", namespace).Expect(0, "every result to "+address)
	lines := s.Metric("muster_stream_lines_total", "handler", "lake")
	assert(t, lines != 0, "the metrics know of no line")
	peer.mu.Lock()
	defer peer.mu.Unlock()
	t.Logf("%d results came, %d lines twice, %d behind a newer one after a connection broke", held, peer.twice, peer.older)
	assert(t, peer.older == 0, "%d new lines came behind a newer one of their event", peer.older)
}

// lineReceiver is a TCP server that receives lines and can be killed.
type lineReceiver struct {
	t        *testing.T
	mu       sync.Mutex
	listener net.Listener
	conns    []net.Conn
	seen     map[string]bool   // stream and number
	last     map[string]uint64 // by node and check: the highest number
	twice    int
	older    int // new lines that arrived after a newer one
}

// newLineReceiver starts a lineReceiver at an address.
func newLineReceiver(t *testing.T, address string) *lineReceiver {
	p := &lineReceiver{t: t, seen: map[string]bool{}, last: map[string]uint64{}}
	p.listen(address)
	t.Cleanup(p.kill)
	return p
}

// listen accepts connections at an address until the receiver is killed.
func (p *lineReceiver) listen(address string) {
	p.t.Helper()
	listener := testenv.Value(net.Listen("tcp", address))(p.t)
	p.listener = listener
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.conns = append(p.conns, conn)
			p.mu.Unlock()
			go p.checkLines(conn)
		}
	}()
}

// checkLines counts the lines of one connection and checks their order.
func (p *lineReceiver) checkLines(conn net.Conn) {
	in := bufio.NewScanner(conn)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var line follow.Line
		if json.Unmarshal(in.Bytes(), &line) != nil || line.Number == 0 {
			continue // a line cut by the broken connection, or of the server itself
		}
		id, event := fmt.Sprint(line.Stream, line.Late, line.Number), line.Node+"/"+line.Check+"/"+line.Stream
		p.mu.Lock()
		switch {
		case p.seen[id]:
			p.twice++
		case line.Number < p.last[event]:
			p.older++
		}
		p.seen[id], p.last[event] = true, max(p.last[event], line.Number)
		p.mu.Unlock()
	}
}

// kill resets all connections, like the kernel after the kill of a process.
func (p *lineReceiver) kill() {
	p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.conns {
		_ = conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
	}
	p.conns = nil
}

// count returns the number of received lines.
func (p *lineReceiver) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.seen)
}
