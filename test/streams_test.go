//go:build linux

package test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/follow"
	"github.com/muster-fleet/muster/test/harness"
)

// A handler is told of every result of a fleet, while the server is killed, and its peer hangs
// and is killed: each result that the server holds came, at least once, and in order.
func TestStreamAcrossKills(t *testing.T) {
	if testing.Short() {
		t.Skip("25 s")
	}
	t.Parallel()
	s := harness.NewServer(t)
	fleet := harness.Fleet{Agents: 20, Checks: 10, Interval: 200 * time.Millisecond}
	s.Prepare(fleet)
	s.Start()
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
		harness.Until(t, 60*time.Second, "lines come", func() (string, bool) { n := peer.count(); return fmt.Sprint(n), n >= from+more })
	}
	came(1000)
	s.Kill()
	s.Start()
	came(1000)
	peer.kill() // with whatever it had not read
	sleep(t.Context(), time.Second)
	peer.listen(address)
	came(1000)
	peer.kill()
	s.Kill()
	s.Start()
	harness.Until(t, 30*time.Second, "status names the handler that does not get on", func() (string, bool) {
		out := s.CLI("describe", "handler", "lake", "-n", namespace)
		return out, strings.Contains(out, "STUCK") && strings.Contains(out, address)
	})
	peer.listen(address)
	e := <-end
	if e.err != nil || !e.rep.OK() {
		t.Fatalf("load run: %v %+v", e.err, e.rep)
	}
	held := uint64(0)
	for _, state := range s.FleetStates() {
		held += state.Results
	}
	harness.Until(t, 30*time.Second, "every result came", func() (string, bool) {
		n := uint64(peer.count())
		return fmt.Sprintf("%d of %d", n, held), n == held
	})
	if out := s.CLI("get", "handlers", "-n", namespace); !strings.Contains(out, "every result to "+address) {
		t.Errorf("get handlers says\n%s", out)
	}
	if lines := s.Metric("muster_stream_lines_total", "handler", "lake"); lines == 0 {
		t.Error("the metrics know of no line")
	}
	peer.mu.Lock()
	defer peer.mu.Unlock()
	t.Logf("%d results came, %d lines twice, %d behind a newer one after a connection broke", held, peer.twice, peer.older)
	if peer.older > 0 {
		t.Errorf("%d new lines came behind a newer one of their event", peer.older)
	}
}

// lineReceiver is a receiver of lines that can be killed.
type lineReceiver struct {
	t        *testing.T
	mu       sync.Mutex
	listener net.Listener
	conns    []net.Conn
	seen     map[string]bool   // stream and number
	last     map[string]uint64 // by node and check: the highest number
	twice    int
	older    int // lines that were new and came behind a newer one
}

func newLineReceiver(t *testing.T, address string) *lineReceiver {
	p := &lineReceiver{t: t, seen: map[string]bool{}, last: map[string]uint64{}}
	p.listen(address)
	t.Cleanup(p.kill)
	return p
}

func (p *lineReceiver) listen(address string) {
	p.t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		p.t.Fatal(err)
	}
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
			go p.read(conn)
		}
	}()
}

func (p *lineReceiver) read(conn net.Conn) {
	in := bufio.NewScanner(conn)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var line follow.Line
		if json.Unmarshal(in.Bytes(), &line) != nil || line.Number == 0 {
			continue // cut when the connection broke, or the server's own
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

// kill resets all connections, as the end of a process with unread bytes does.
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

func (p *lineReceiver) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.seen)
}
