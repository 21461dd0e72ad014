package follow

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/journal/memfs"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

const firstTestDefinition model.DefinitionID = 100

// testDirectory replaces the server's directory in tests, with many nodes and the handlers that a test
// declares. Nodes 10, 20, … are in namespace other, and all others in default. Definition 100+n belongs to
// check 100+n, whose name is c0, c1, ….
type testDirectory struct {
	mu       sync.Mutex
	revision int64
	streams  map[route.Name]*model.HandlerSpec
	shadow   map[string]bool
}

// NodeName returns the name of a test node by its id. Every tenth node is in namespace other.
func (d *testDirectory) NodeName(id model.NodeID) (string, string, bool) {
	switch {
	case id == model.ServerNode:
		return model.DefaultNamespaceName, model.ServerNodeName, true
	case id > 1000:
		return "", "", false
	case id%10 == 0:
		return "other", fmt.Sprint("n", id), true
	}
	return "default", fmt.Sprint("n", id), true
}

// NodeLabels returns the label os=linux for every node.
func (d *testDirectory) NodeLabels(model.NodeID) map[string]string {
	return map[string]string{"os": "linux"}
}

// NodeFacts returns no facts for any test node.
func (d *testDirectory) NodeFacts(model.NodeID) map[string]string { return nil }

// NodeGroups returns no groups for any test node.
func (d *testDirectory) NodeGroups(model.NodeID) []string { return nil }

// SourceGroups returns no groups for any check of the test.
func (d *testDirectory) SourceGroups(model.Source) []string { return nil }

// SourceName returns the name of a test check by its id.
func (d *testDirectory) SourceName(s model.Source) (string, string, bool) {
	return "default", fmt.Sprint("c", s.Check()-model.CheckID(firstTestDefinition)), true
}

// Revision returns the revision of the test's declared resources, which grows with each change. Each call of
// change increases the revision.
func (d *testDirectory) Revision() int64 { d.mu.Lock(); defer d.mu.Unlock(); return d.revision }

// CheckDefinition returns, for any id, the definition of a test check with one result per minute.
func (d *testDirectory) CheckDefinition(id model.DefinitionID, _ string) *model.CheckDefinition {
	if c := model.BuiltinDefinitionOf(id); c != nil {
		return c
	}
	return &model.CheckDefinition{Definition: model.Definition{ID: id, Unit: model.CheckID(id), Namespace: 1}, Severities: [4]model.Severity{0, model.SeverityWarning, model.High, model.Average}, FailAfter: 1, RecoverAfter: 1}
}

// Shadow reports whether the test has put a namespace into shadow mode, in which nothing is sent
func (d *testDirectory) Shadow(namespace string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shadow[namespace]
}

// StreamHandlers returns the handlers that the test has declared to receive every check result.
func (d *testDirectory) StreamHandlers() map[route.Name]*model.HandlerSpec {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.streams)
}

// change changes the test's declarations by calling fn under the lock, and increases the revision.
func (d *testDirectory) change(fn func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fn()
	d.revision++
}

// testServer replaces a server in tests, with a journal in memory, event states and readers of results. A
// reader (follower) sends every result to one handler.
type testServer struct {
	t         testing.TB
	fs        disk.FS
	log       *journal.Log
	view      *event.View
	directory *testDirectory
	limit     int64
	timeout   time.Duration
	numbers   map[model.NodeID]uint64
	noise     int // random bytes in each output: they cannot be compressed

	set  *Set
	stop func()
}

// newTestServer returns a test server with an in-memory journal and no handlers
func newTestServer(t testing.TB) *testServer {
	r := &testServer{t: t, fs: memfs.New(), directory: &testDirectory{streams: map[route.Name]*model.HandlerSpec{}, shadow: map[string]bool{}}, numbers: map[model.NodeID]uint64{}, timeout: time.Second}
	r.view = event.New(shard.New(shard.Options{Definitions: func(id model.DefinitionID) *model.Definition {
		return r.directory.CheckDefinition(id, "").ToDefinition()
	}, Workers: 2}), event.Options{})
	r.log = testenv.Value(journal.Open("j", journal.Options{FS: r.fs, Deliver: r.view.Deliver, Reserve: -1, Tick: -1, SegmentSize: 1 << 20}))(t)
	testenv.NoError(t, r.fs.MkdirAll("d"))
	ctx, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.view.Run(ctx) }()
	t.Cleanup(func() {
		if r.stop != nil {
			r.stop()
		}
		if err := r.log.Close(); err != nil {
			t.Error(err)
		}
		end()
		<-done
	})
	return r
}

// start starts the readers that send check results from the journal to handlers, as the server does. It sets
// the field stop to a function that ends the followers and waits for their goroutines.
func (r *testServer) start() {
	r.t.Helper()
	set := testenv.Value(Open(Options{Journal: r.log, View: r.view, Directory: r.directory, FS: r.fs, Dir: "d", Limit: r.limit, Timeout: r.timeout}))(r.t)
	ctx, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = set.Run(ctx) }()
	r.set, r.stop = set, func() { end(); <-done; r.stop = nil }
}

// addHandler declares a test handler that sends every check result to an address.
func (r *testServer) addHandler(address string, connections int) *model.HandlerSpec {
	spec := &model.HandlerSpec{Stream: &model.Stream{Address: address, Connections: connections, Results: model.AllResults, From: "oldest"}}
	r.directory.change(func() { r.directory.streams[handlerName("lake")] = spec })
	return spec
}

// appendResults appends `count` results of each check on each of `nodes` nodes to the journal. Then it waits
// until the event state has applied the results.
func (r *testServer) appendResults(nodes, checks, count int) {
	r.t.Helper()
	for range count {
		var entries []journal.Entry
		for n := 1; n <= nodes; n++ {
			id := model.NodeID(n)
			b := wire.Batch{StreamKey: wire.StreamKey{Stream: wire.StreamID(n)}, First: r.numbers[id] + 1, NowMs: 1000}
			for c := range checks {
				b.Signals = append(b.Signals, wire.ResultSignal(wire.Signal{Definition: firstTestDefinition + model.DefinitionID(c), AtMs: 900}, wire.Result{Status: model.Status(r.numbers[id] % 2), DurationMs: 12, Output: []byte(fmt.Sprintf("DISK OK - \"free\" space: / 3326 MB\nline %d|/=2643MB;5948", r.numbers[id]) + r.randomText())}))
			}
			r.numbers[id] += uint64(checks)
			_, body, err := wire.FrameKind(wire.AppendBatch(nil, &b))
			testenv.NoError(r.t, err)
			entries = append(entries, journal.Entry{Section: journal.Section(n % model.Partitions), Data: wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordBatch, Node: id, Batch: body})})
		}
		w := make(commitWaiter, 1)
		entries[len(entries)-1].Waiter = w
		testenv.NoError(r.t, r.log.Append(context.Background(), entries...))
		testenv.NoError(r.t, <-w)
	}
	testenv.NoError(r.t, r.view.WaitApplied(context.Background(), r.log.Head()))
}

// randomText returns random text, which the journal cannot compress.
func (r *testServer) randomText() string {
	text := make([]byte, r.noise)
	for i := range text {
		text[i] = byte('a' + rand.IntN(26))
	}
	return string(text)
}

// commitWaiter is a channel on which a test waits until its append to the journal is durable.
type commitWaiter chan error

// Committed tells the waiting test whether its append to the journal is durable.
func (w commitWaiter) Committed(_ uint64, _ journal.Position, err error) { w <- err }

// receivingPeer is the test's receiver of the lines that a stream handler sends. It listens at the handler's
// address, and reads and counts the lines. It stores the lines that it receives.
type receivingPeer struct {
	t             testing.TB
	listener      net.Listener
	hangs         atomic.Bool   // the peer accepts connections and does not read
	reads         chan struct{} // closed when the peer reads again
	mu            sync.Mutex
	conns         map[net.Conn]bool
	lines         []Line
	last          map[string]uint64 // highest sequence number of the received lines, by node and check
	repeatedLines int               // lines that came more than once
	lateLines     int               // lines that came after a newer one of their event
	received      chan struct{}
	seen          map[string]bool
}

// newReceivingPeer starts a test receiver of lines on a free port of the loopback address.
func newReceivingPeer(t testing.TB) *receivingPeer { return newReceivingPeerAt(t, "127.0.0.1:0") }

// newReceivingPeerAt starts a test receiver of lines at a given address.
func newReceivingPeerAt(t testing.TB, address string) *receivingPeer {
	listener := testenv.Value(net.Listen("tcp", address))(t)
	return newReceivingPeerOn(t, listener)
}

// newReceivingPeerOn starts a test receiver of lines on an open listener.
func newReceivingPeerOn(t testing.TB, listener net.Listener) *receivingPeer {
	l := &receivingPeer{t: t, listener: listener, conns: map[net.Conn]bool{}, last: map[string]uint64{}, received: make(chan struct{}, 1), seen: map[string]bool{}, reads: make(chan struct{})}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			l.mu.Lock()
			l.conns[conn] = true
			l.mu.Unlock()
			all.Go(func() { l.readLines(conn) })
		}
	})
	t.Cleanup(func() { listener.Close(); l.closeConnections(); all.Wait() })
	return l
}

// address returns the address of the receiver.
func (l *receivingPeer) address() string { return l.listener.Addr().String() }

// readLines reads lines from a connection, and counts repeated lines and lines out of order.
func (l *receivingPeer) readLines(conn net.Conn) {
	defer conn.Close()
	if l.hangs.Load() {
		l.mu.Lock()
		reads := l.reads
		l.mu.Unlock()
		<-reads
		return
	}
	in := bufio.NewScanner(conn)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var line Line
		if err := json.Unmarshal(in.Bytes(), &line); err != nil {
			l.t.Errorf("%v in %s", err, in.Bytes())
		}
		l.mu.Lock()
		l.lines = append(l.lines, line)
		key := line.Node + "/" + line.Check
		switch {
		case l.seen[line.ID]:
			l.repeatedLines++
		case line.Number != 0 && line.Number < l.last[key]:
			l.lateLines++
		}
		l.last[key], l.seen[line.ID] = max(l.last[key], line.Number), true
		l.mu.Unlock()
		select {
		case l.received <- struct{}{}:
		default:
		}
	}
}

// countDistinctLines returns the number of distinct lines received.
func (l *receivingPeer) countDistinctLines() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.seen)
}

// closeConnections closes all open connections of the test receiver, as a broken network does.
func (l *receivingPeer) closeConnections() {
	if l.hangs.CompareAndSwap(true, false) {
		close(l.reads)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.conns {
		conn.Close()
		delete(l.conns, conn)
	}
}

// waitLines waits until the receiver has n distinct lines.
func (l *receivingPeer) waitLines(n int) {
	l.t.Helper()
	late := time.After(time.Minute)
	for {
		got := l.countDistinctLines()
		if got >= n {
			return
		}
		select {
		case <-l.received:
		case <-late:
			l.t.Fatalf("%d lines came, want %d", got, n)
		}
	}
}

// waitState waits until the state of a handler's reader satisfies a condition, and returns the state. The function ok
// tests the state.
func (r *testServer) waitState(what string, ok func(State) bool) (st State) {
	r.t.Helper()
	testenv.Until(r.t, what, func() (there bool) {
		st, there = r.set.State(handlerName("lake"))
		return there && ok(st)
	})
	return st
}

// handlerName returns the name of a handler in namespace default.
func handlerName(text string) route.Name { return route.Name{Namespace: "default", Name: text} }
