package core_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// lineSource is an example source of results: each line that it reads is a result's output, answered by "ok N" once
// the journal has it.
type lineSource struct {
	journal  *memoryJournal
	registry core.Registry[lineSession]
	limiter  core.Limiter
}

// lineSession is a connection of the example source.
type lineSession struct {
	core.Window
	source *lineSource
	conn   net.Conn
	node   core.Node
	uid    uuid.UUID
	budget core.Budget
	record core.Record
	last   uint64
}

// serve registers a session for a connection, writes a session-start record to the journal, and reads lines until the
// connection ends.
func (s *lineSource) serve(ctx context.Context, conn net.Conn, node core.Node, uid uuid.UUID) error {
	x := &lineSession{source: s, conn: conn, node: node, uid: uid}
	x.Window.Open()
	x.budget.Open(&s.limiter, &x.node)
	old, _ := s.registry.Swap(node.ID, x, 0, nil)
	var entries []journal.Entry
	if old != nil {
		old.Displace()
		_ = old.conn.Close()
		entries = append(entries, journal.Entry{Section: core.SectionOf(uid), Data: old.node.Mark(wire.SessionMark{Session: 1})})
	}
	entries = append(entries, journal.Entry{Section: core.SectionOf(uid), Data: x.node.Mark(wire.SessionMark{Session: 2, Begun: true})})
	if err := s.journal.Append(ctx, entries...); err != nil {
		return err
	}
	defer s.registry.Remove(node.ID, x)
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if err := x.appendResult(ctx, lines.Text()); err != nil {
			return err
		}
		debt := x.budget.Spend(&core.Charge{core.LoadResults: 1})
		x.budget.Wait(ctx, debt.Wait, &x.Window)
	}
	return nil
}

// appendResult appends one result to the journal.
func (x *lineSession) appendResult(ctx context.Context, output string) error {
	b := wire.Batch{First: x.last + 1, Signals: []wire.Signal{{Kind: wire.SignalResult, Definition: 7, Body: wire.AppendResult(nil, &wire.Result{Output: []byte(output)})}}}
	_, body, err := wire.FrameKind(wire.AppendBatch(nil, &b))
	if err != nil {
		return err
	}
	if !x.Acquire(len(body), 1<<20) {
		return fmt.Errorf("node %s: another connection has its session", x.node.Name)
	}
	defer x.Release()
	x.last++
	x.Mu.Unlock()
	defer x.record.Reset()
	return x.source.journal.Append(ctx, x.record.Entries(&core.Batch{Node: x.node.ID, Section: core.SectionOf(x.uid), Body: body, Signals: 1, Waiter: x, Token: uint64(len(body))})...)
}

// Committed sends the acknowledgement of a line.
func (x *lineSession) Committed(size uint64, at journal.Position, err error) {
	x.Mu.Lock()
	x.Commit(int(size), err)
	x.Mu.Unlock()
	if err == nil {
		_, _ = fmt.Fprintf(x.conn, "ok %d\n", at.Number)
	}
}

// memoryJournal is a journal in memory that commits each append at once.
type memoryJournal struct {
	records [][]byte
}

// Append stores entries in memory and commits each one immediately.
func (j *memoryJournal) Append(_ context.Context, entries ...journal.Entry) error {
	for _, e := range entries {
		j.records = append(j.records, append([]byte(nil), e.Data...))
		if e.Waiter != nil {
			e.Waiter.Committed(e.Token, journal.Position{Log: 1, Number: uint64(len(j.records))}, nil)
		}
	}
	return nil
}

// TestSourceOfLinesUsesTheCore runs the example source lineSource, which gets sessions, limits, journal and
// acknowledgements from package core.
func TestSourceOfLinesUsesTheCore(t *testing.T) {
	s := &lineSource{journal: &memoryJournal{}}
	s.limiter.LimiterConfig = core.LimiterConfig{
		Namespace: func(model.NamespaceID) core.NamespaceLimits { return core.NamespaceLimits{Namespace: "default"} },
		Defaults:  core.NamespaceLimits{NodeResultsPerSec: 1e6, OutputBytes: 1024}, Burst: time.Second,
		Monotonic: func() int64 { return time.Now().UnixNano() }, Now: time.Now,
		Met: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "met", Help: "met"}, []string{"namespace", "limit"}),
	}
	agent, server := net.Pipe()
	done := make(chan error, 1)
	node := core.Node{ID: 5, Name: "web01", Namespace: 1, Keepalive: 20 * time.Second}
	go func() {
		done <- s.serve(t.Context(), server, node, uuid.MustParse("00000000-0000-0000-0000-000000000005"))
	}()
	answers := bufio.NewReader(agent)
	for i, line := range []string{"disk ok", "disk full"} {
		testenv.Value(fmt.Fprintln(agent, line))(t)
		if got, err := answers.ReadString('\n'); err != nil || got != fmt.Sprintf("ok %d\n", i+2) {
			t.Fatalf("%q %v", got, err)
		}
	}
	if s.registry.Len() != 1 || s.registry.Get(5) == nil {
		t.Error("the node has no session")
	}
	_ = agent.Close()
	if err := <-done; err != nil || s.registry.Len() != 0 {
		t.Errorf("%v, %d sessions", err, s.registry.Len())
	}
	if len(s.journal.records) != 3 || !strings.Contains(string(s.journal.records[2]), "disk full") {
		t.Errorf("%q", s.journal.records)
	}
}

// TestDisplacedSessionAppendsNothing checks that Displace wakes a reader that waits for space in a full window, and
// that its session appends nothing afterwards.
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
