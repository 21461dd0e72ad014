package follow

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
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

const someCheck model.ChunkID = 100

// directory is a fleet: node 10n is in namespace other, the rest in default; chunk 100+n is that of check
// 100+n, called c0, c1, ….
type directory struct {
	mu       sync.Mutex
	revision int64
	streams  map[route.Name]*model.HandlerSpec
	shadow   map[string]bool
}

func (d *directory) NodeName(id model.NodeID) (string, string, bool) {
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
func (d *directory) NodeLabels(model.NodeID) map[string]string {
	return map[string]string{"os": "linux"}
}
func (d *directory) NodeFacts(model.NodeID) map[string]string { return nil }
func (d *directory) NodeGroups(model.NodeID) []string         { return nil }
func (d *directory) SourceName(s model.Source) (string, string, bool) {
	return "default", fmt.Sprint("c", s.Check()-model.CheckID(someCheck)), true
}
func (d *directory) Revision() int64 { d.mu.Lock(); defer d.mu.Unlock(); return d.revision }
func (d *directory) CheckChunk(id model.ChunkID) *model.CheckChunk {
	if c := model.BuiltinChunkOf(id); c != nil {
		return c
	}
	return &model.CheckChunk{Chunk: model.Chunk{ID: id, Unit: model.CheckID(id), Namespace: 1}, Severities: [4]model.Severity{0, model.SeverityWarning, model.High, model.Average}, FailAfter: 1, RecoverAfter: 1}
}
func (d *directory) Shadow(namespace string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shadow[namespace]
}
func (d *directory) Streams() map[route.Name]*model.HandlerSpec {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[route.Name]*model.HandlerSpec{}
	for name, spec := range d.streams {
		out[name] = spec
	}
	return out
}

func (d *directory) change(fn func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fn()
	d.revision++
}

// rig is a journal with its view, and followers.
type rig struct {
	t         testing.TB
	fs        disk.FS
	log       *journal.Log
	view      *event.View
	directory *directory
	limit     int64
	timeout   time.Duration
	numbers   map[model.NodeID]uint64
	noise     int // bytes of outputs that cannot be compressed

	set  *Set
	stop func()
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, fs: memfs.New(), directory: &directory{streams: map[route.Name]*model.HandlerSpec{}, shadow: map[string]bool{}}, numbers: map[model.NodeID]uint64{}, timeout: time.Second}
	r.view = event.New(shard.New(shard.Options{Chunks: func(id model.ChunkID) *model.Chunk { return r.directory.CheckChunk(id).Seal() }, Workers: 2}), event.Options{})
	var err error
	if r.log, err = journal.Open("j", journal.Options{FS: r.fs, Deliver: r.view.Deliver, Reserve: -1, Tick: -1, SegmentSize: 1 << 20}); err != nil {
		t.Fatal(err)
	}
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

// start runs the followers; stop ends them in order.
func (r *rig) start() {
	r.t.Helper()
	set := testenv.Value(Open(Options{Journal: r.log, View: r.view, Directory: r.directory, FS: r.fs, Dir: "d", Limit: r.limit, Timeout: r.timeout}))(r.t)
	ctx, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = set.Run(ctx) }()
	r.set, r.stop = set, func() { end(); <-done; r.stop = nil }
}

func (r *rig) handler(address string, connections int) *model.HandlerSpec {
	spec := &model.HandlerSpec{Stream: &model.Stream{Address: address, Connections: connections, Results: model.AllResults, From: "oldest"}}
	r.directory.change(func() { r.directory.streams[name("lake")] = spec })
	return spec
}

// send appends count results of each check of nodes 1 to nodes, and waits until the view has them.
func (r *rig) send(nodes, checks, count int) {
	r.t.Helper()
	for range count {
		var entries []journal.Entry
		for n := 1; n <= nodes; n++ {
			id := model.NodeID(n)
			b := wire.Batch{StreamKey: wire.StreamKey{Stream: wire.StreamID(n)}, First: r.numbers[id] + 1, NowMs: 1000}
			for c := range checks {
				b.Signals = append(b.Signals, wire.ResultSignal(wire.Signal{Chunk: someCheck + model.ChunkID(c), AtMs: 900}, wire.Result{Status: model.Status(r.numbers[id] % 2), DurationMs: 12, Output: []byte(fmt.Sprintf("DISK OK - \"free\" space: / 3326 MB\nline %d|/=2643MB;5948", r.numbers[id]) + r.noisy())}))
			}
			r.numbers[id] += uint64(checks)
			_, body, err := wire.FrameKind(wire.AppendBatch(nil, &b))
			testenv.NoError(r.t, err)
			entries = append(entries, journal.Entry{Section: journal.Section(n % model.Partitions), Data: wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordBatch, Node: id, Batch: body})})
		}
		w := make(waiter, 1)
		entries[len(entries)-1].Waiter = w
		testenv.NoError(r.t, r.log.Append(context.Background(), entries...))
		testenv.NoError(r.t, <-w)
	}
	testenv.NoError(r.t, r.view.WaitApplied(context.Background(), r.log.Head()))
}

// noisy is text that cannot be compressed well.
func (r *rig) noisy() string {
	text := make([]byte, r.noise)
	for i := range text {
		text[i] = byte('a' + rand.IntN(26))
	}
	return string(text)
}

type waiter chan error

func (w waiter) Committed(_ uint64, _ journal.Position, err error) { w <- err }

// lake is a peer: it keeps what it was told.
type lake struct {
	t        testing.TB
	listener net.Listener
	deaf     atomic.Bool   // does not read
	heard    chan struct{} // closed when that is over
	mu       sync.Mutex
	conns    map[net.Conn]bool
	lines    []Line
	last     map[string]uint64 // by node and check: the highest number
	twice    int
	older    int // lines that came behind a newer one of their event
	came     chan struct{}
	seen     map[string]bool
}

func newLake(t testing.TB) *lake { return lakeAt(t, "127.0.0.1:0") }

func lakeAt(t testing.TB, address string) *lake {
	listener := testenv.Value(net.Listen("tcp", address))(t)
	return lakeOn(t, listener)
}

func lakeOn(t testing.TB, listener net.Listener) *lake {
	l := &lake{t: t, listener: listener, conns: map[net.Conn]bool{}, last: map[string]uint64{}, came: make(chan struct{}, 1), seen: map[string]bool{}, heard: make(chan struct{})}
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
			all.Go(func() { l.read(conn) })
		}
	})
	t.Cleanup(func() { listener.Close(); l.hangUp(); all.Wait() })
	return l
}

func (l *lake) address() string { return l.listener.Addr().String() }

func (l *lake) read(conn net.Conn) {
	defer conn.Close()
	if l.deaf.Load() {
		l.mu.Lock()
		heard := l.heard
		l.mu.Unlock()
		<-heard
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
			l.twice++
		case line.Number != 0 && line.Number < l.last[key]:
			l.older++
		}
		l.last[key], l.seen[line.ID] = max(l.last[key], line.Number), true
		l.mu.Unlock()
		select {
		case l.came <- struct{}{}:
		default:
		}
	}
}

// different is how many different lines came.
func (l *lake) different() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.seen)
}

// hangUp closes all connections.
func (l *lake) hangUp() {
	if l.deaf.CompareAndSwap(true, false) {
		close(l.heard)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.conns {
		conn.Close()
		delete(l.conns, conn)
	}
}

// wait waits for so many different lines.
func (l *lake) wait(n int) {
	l.t.Helper()
	late := time.After(time.Minute)
	for {
		got := l.different()
		if got >= n {
			return
		}
		select {
		case <-l.came:
		case <-late:
			l.t.Fatalf("%d lines came, want %d", got, n)
		}
	}
}

// until waits for something that has no channel.
func (r *rig) until(what string, ok func(State) bool) (st State) {
	r.t.Helper()
	testenv.Until(r.t, what, func() (there bool) {
		st, there = r.set.State(name("lake"))
		return there && ok(st)
	})
	return st
}

func name(text string) route.Name { return route.Name{Namespace: "default", Name: text} }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
