package core_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// lineSource is an example source of results, whose agents send one result as a line in each message. It
// answers "ok N" once the journal has the result.
type lineSource struct {
	journal  *memoryJournal
	registry core.Registry[lineSession]
	limiter  core.Limiter
	life     *core.Goroutines
	acks     *core.WriterQueue[*lineSession]
	clock    core.Clock
	ended    chan string // causes of the ends of sessions
}

// newLineSource returns an example source of results with rate limits far above the test's traffic.
func newLineSource() *lineSource {
	s := &lineSource{journal: &memoryJournal{}, life: core.NewGoroutines(), ended: make(chan string, 2)}
	s.acks = core.NewWriterQueue[*lineSession](s.life, core.Acks, "line-acks", 10, nil, func() {})
	s.limiter.LimiterConfig = core.LimiterConfig{
		Namespace: func(model.NamespaceID) core.NamespaceLimits { return core.NamespaceLimits{Namespace: "default"} },
		Defaults:  core.NamespaceLimits{NodeResultsPerSec: 1e6, OutputBytes: 1024}, Burst: time.Second,
		Monotonic: func() int64 { return time.Now().UnixNano() }, Now: time.Now,
		LimitReached: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "met", Help: "met"}, []string{"namespace", "limit"}),
	}
	return s
}

// maxSilence is the time without a message after which a peer counts as gone.
const maxSilence = 30 * time.Second

// run writes acknowledgements and ends silent sessions until ctx ends. Then it closes all sessions.
func (s *lineSource) run(ctx context.Context) {
	s.acks.Start(1)
	s.clock.Run(ctx, time.Now, func(_ time.Time, now int64) {
		s.registry.ForEach(func(x *lineSession) {
			if silence, busy := x.SinceLastFrame(now); silence > maxSilence && !busy {
				_ = x.Conn.Close()
			}
		})
		s.acks.AddWriterIfStuck()
	})
	s.life.Stop(func() { s.registry.ForEach(func(x *lineSession) { _ = x.Conn.Close() }) }, s.acks)
}

// lineSession is one agent connection of the example source of results.
type lineSession struct {
	core.Session
	source *lineSource
	record core.BatchEncoder
	last   uint64 // number of the last line; the reader alone uses it
	kept   uint64 // position of the last line in the journal; Mu guards it
}

// serve opens a session for an authenticated node's connection, and starts the goroutine that reads the
// connection. It also writes the session's start to the journal.
func (s *lineSource) serve(conn net.Conn, node core.Node, uid uuid.UUID, id uint64) error {
	x := &lineSession{source: s}
	x.Conn, x.Node, x.UID, x.ID, x.Section = wsconn.NewServerConn(conn, wsconn.Options{Timeout: 10 * time.Second}), node, uid, id, core.SectionOf(uid)
	x.Open(s.clock.Now())
	x.Budget.Open(&s.limiter, &x.Node)
	if !s.life.AddReader() {
		return conn.Close()
	}
	var older *core.Session
	if old, _ := s.registry.Swap(node.ID, x, 0, nil); old != nil {
		older = old.Base()
		_ = older.Conn.Close()
	}
	err := s.journal.Append(s.life.Base, x.BeginEntries(x.EncodeSessionRecord(wire.SessionRecord{Start: true}), nil, older, func() []byte { return older.EncodeSessionRecord(wire.SessionRecord{}) })...)
	if err != nil {
		s.life.RemoveReader()
		return err
	}
	go s.life.Read(x.Conn, x)
	return nil
}

// Message reads one line from the connection, and writes the line to the journal as a result. It also charges the line
// to the rate limits.
func (x *lineSession) Message() (cause string) {
	_, line, err := x.Conn.Read(1024)
	if err != nil {
		return x.ReadFailed(err)
	}
	x.MarkBusy(x.source.clock.Now())
	defer func() { x.MarkIdle(x.source.clock.Now()) }()
	if err := x.appendResult(line); err != nil {
		return "not_stored"
	}
	debt := x.Budget.Spend(&core.TrafficCost{core.LoadResults: 1, core.LoadBytes: len(line)})
	x.Budget.Wait(x.source.life.Base, debt, &x.Window)
	return ""
}

// ReadFailed returns the cause of a failed read, as a label for metrics and logs.
func (x *lineSession) ReadFailed(err error) string { return core.ReadCause(err) }

// End writes to the journal that the session has ended. If the node has a newer session already, that session
// has written it.
func (x *lineSession) End(cause string) {
	x.Window.End()
	_ = x.Conn.Close()
	if x.source.registry.Remove(x.Node.ID, x) {
		_ = x.source.journal.Append(x.source.life.Base, journal.Entry{Section: x.Section, Data: x.EncodeSessionRecord(wire.SessionRecord{})})
	}
	x.source.ended <- cause
}

// appendResult appends one result to the journal.
func (x *lineSession) appendResult(output []byte) error {
	b := wire.Batch{First: x.last + 1, Signals: []wire.Signal{{Kind: wire.SignalResult, Definition: 7, Body: wire.AppendResult(nil, &wire.Result{Output: output})}}}
	_, body, err := wire.FrameKind(wire.AppendBatch(nil, &b))
	if err != nil {
		return err
	}
	if !x.Acquire(len(body), 1<<20) {
		return fmt.Errorf("node %s: another connection has its session", x.Node.Name)
	}
	defer x.Release()
	x.last++
	x.Mu.Unlock()
	defer x.record.Reset()
	return x.source.journal.Append(x.source.life.Base, x.record.Encode(&core.Batch{Node: x.Node.ID, Section: x.Section, Body: body, Signals: 1, Waiter: x, Token: uint64(len(body))})...)
}

// dueAck is the kind of message that acknowledges received lines.
const dueAck core.MessageSet = 1

// Committed queues the acknowledgement of a line after the line's commit in the journal.
func (x *lineSession) Committed(size uint64, at journal.Position, err error) {
	x.Mu.Lock()
	defer x.Mu.Unlock()
	if x.Commit(int(size), err); err == nil {
		x.kept = at.Number
		x.source.acks.AddLocked(x, dueAck)
	}
}

// Flush writes the acknowledgement of the session's last line to the connection.
func (x *lineSession) Flush(w *core.WriteBuffers, _ core.MessageSet) error {
	x.Mu.Lock()
	kept := x.kept
	x.Mu.Unlock()
	return x.Conn.Write(fmt.Appendf(w.NewFrame(), "ok %d", kept))
}

// FlushFailed does nothing after a failed write, because the goroutine that reads then ends the session.
func (x *lineSession) FlushFailed() {}

// memoryJournal is a fake journal in memory that commits each append at once.
type memoryJournal struct {
	mu      sync.Mutex
	records [][]byte
}

// Append stores entries in memory and commits each one immediately.
func (j *memoryJournal) Append(_ context.Context, entries ...journal.Entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range entries {
		j.records = append(j.records, append([]byte(nil), e.Data...))
		if e.Waiter != nil {
			e.Waiter.Committed(e.Token, journal.Position{Log: 1, Number: uint64(len(j.records))}, nil)
		}
	}
	return nil
}

// TestExampleSourceAcknowledgesLines sends lines to an example source of results, and expects an
// acknowledgement of each line. Package core gives sessions, readers, writers, clock, limits and journal
// entries. A second connection of the node takes the session over.
func TestExampleSourceAcknowledgesLines(t *testing.T) {
	s := newLineSource()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { s.run(ctx) })
	uid := uuid.MustParse("00000000-0000-0000-0000-000000000005")
	connect := func(id uint64) *wsconn.Conn {
		agent, server := net.Pipe()
		testenv.NoError(t, s.serve(server, core.Node{ID: 5, Name: "web01", Namespace: 1, Keepalive: 20 * time.Second}, uid, id))
		return testenv.Value(wsconn.NewClientConn(agent, nil, wsconn.Options{Timeout: 10 * time.Second}))(t)
	}
	agent := connect(1)
	for i, line := range []string{"disk ok", "disk full"} {
		testenv.NoError(t, agent.Write(append(make([]byte, wsconn.Headroom), line...)))
		if _, got, err := agent.Read(100); err != nil || string(got) != fmt.Sprintf("ok %d", i+2) {
			t.Fatalf("%q %v", got, err)
		}
	}
	if s.registry.Len() != 1 || s.registry.Get(5) == nil {
		t.Error("the node has no session")
	}
	again := connect(2)
	if cause := <-s.ended; cause == "" || s.registry.Len() != 1 {
		t.Errorf("the displaced session ended: %q; %d sessions", cause, s.registry.Len())
	}
	_ = again.Close()
	if cause := <-s.ended; cause != "eof" || s.registry.Len() != 0 {
		t.Errorf("the session ended: %s; %d sessions", cause, s.registry.Len())
	}
	cancel()
	running.Wait()
	var marks []bool
	for _, data := range s.journal.records {
		var r wire.Record
		if testenv.NoError(t, r.Decode(data)); r.Session != nil {
			marks = append(marks, r.Session.Start)
		}
	}
	if fmt.Sprint(marks) != "[true false true false]" || len(s.journal.records) != 6 || !strings.Contains(string(s.journal.records[2]), "disk full") {
		t.Errorf("begins and ends of sessions %v in %q", marks, s.journal.records)
	}
}

// TestDisplacedSessionAppendsNothing replaces a session that waits for an append, and expects no further
// journal entry of the session. The call of Displace wakes the waiting reader.
func TestDisplacedSessionAppendsNothing(t *testing.T) {
	var w core.Window
	w.Open()
	if !w.Acquire(10, 10) {
		t.Fatal("an empty window takes no entry")
	}
	w.Mu.Unlock()
	w.Release()
	waited := make(chan bool, 1)
	go func() { waited <- w.Acquire(1, 10) }()
	w.End()
	if <-waited {
		t.Error("an ended window takes an entry")
	}
	w.Displace()
	w.WithAppendLock(func() { t.Error("an append after Displace") })
}
