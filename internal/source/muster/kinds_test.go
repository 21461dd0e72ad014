package muster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// values is a batch of value blocks of chunk 1, each of so many rows.
func values(first uint64, rows ...uint32) *wire.Batch {
	b := &wire.Batch{StreamKey: live, First: first}
	for _, n := range rows {
		body := wire.AppendValueBlock(nil, &wire.ValueBlock{Rows: n, Columns: make([]byte, max(n, 1))})
		b.Signals = append(b.Signals, wire.Signal{Kind: wire.SignalValueBlock, Chunk: 1, Body: body})
	}
	return b
}

// A kind that no reducer reads is refused by its number, whether the server has a name for it or
// not, and the session goes on.
func TestKindsThatNobodyReadsAreRefused(t *testing.T) {
	w := newWorld(t, nil)
	a := w.agent(w.node(1, 1))
	b := results(1, 1, 1)
	for _, kind := range []wire.SignalKind{wire.SignalValueBlock, wire.SignalReport, wire.SignalInventory, 30} {
		b.Signals = append(b.Signals, wire.Signal{Kind: kind, Chunk: 1, Body: []byte{1}})
	}
	a.send(b)
	a.waitAck(5)
	got := ""
	for _, r := range a.refused {
		got += fmt.Sprintf("%d %s\n", r.Number, r.Code)
	}
	const want = "2 kind\n3 kind\n4 kind\n5 kind\n"
	if got != want {
		t.Fatalf("refused\n%swant\n%s", got, want)
	}
	a.send(results(6, 1, 1))
	a.waitAck(6)
}

// To add a signal: a server whose reducer reads value blocks takes them as they came, judges their
// header and definition, and charges their rows to a limit of their own.
func TestValuesAreChargedApart(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.Kinds = []wire.SignalKind{wire.SignalValueBlock}
		c.Limits.RateBurst = time.Second
	})
	uid := w.node(1, 1)
	w.nodes.limit(1, core.NamespaceLimits{NodeValuesPerSec: 100, NodeResultsPerSec: 1e6})
	node, _ := w.nodes.Lookup(uid)
	w.nodes.limit(node.Namespace, core.NamespaceLimits{NodeValuesPerSec: 100, NodeResultsPerSec: 1e6})
	a := w.agent(uid)
	a.send(results(1, 300, 1))
	a.waitAck(300)
	if w.count("throttled_total", "node")+w.count("throttled_total", "node_values") != 0 {
		t.Fatal("results met a limit of values")
	}
	bad := values(301, 5, 6, 7)
	bad.Signals[0].Body = wire.AppendValueBlock(nil, &wire.ValueBlock{Rows: 5, Columns: make([]byte, 4)})
	bad.Signals[1].Chunk, bad.Signals[2].Node = 99, 50
	a.send(bad)
	a.waitAck(303)
	got := ""
	for _, r := range a.refused {
		got += fmt.Sprintf("%d %s\n", r.Number, r.Code)
	}
	if got != "301 malformed\n302 unknown_chunk\n303 proxy\n" {
		t.Fatalf("refused\n%s", got)
	}
	start := time.Now()
	a.send(values(304, 60, 40)) // the burst
	a.send(values(306, 30))     // 0.3 s of debt
	a.send(values(307, 1))
	a.waitAck(307)
	if took := time.Since(start); took < 200*time.Millisecond {
		t.Errorf("131 values at 100 per second with a burst of a second took %v", took)
	}
	if w.count("throttled_total", "node_values") == 0 || w.count("throttled_total", "node") != 0 {
		t.Error("the limit that was met is not counted by its name")
	}
	a.wait("slow", func() bool { return len(a.slow) == 1 && strings.Contains(a.slow[0], "100 values per second") })
	w.journal.mu.Lock()
	defer w.journal.mu.Unlock()
	rows := uint32(0)
	for _, data := range w.journal.entries {
		var r wire.Record
		var b wire.Batch
		if r.Decode(data) != nil || r.Kind != wire.RecordBatch || b.Decode(r.Batch) != nil {
			continue
		}
		for _, s := range b.Signals {
			var block wire.ValueBlock
			if s.Kind == wire.SignalValueBlock && block.Decode(s.Body) == nil {
				rows += block.Rows
			}
		}
	}
	if rows != 131 {
		t.Errorf("the journal has %d values, want 131", rows)
	}
}

// Value blocks give way at a quarter of what fills, results at half.
func TestValuesAreSlowedFirst(t *testing.T) {
	results, values := throttle{threshold: slowResultsAt}, throttle{threshold: slowValuesAt}
	for i, step := range []struct {
		share           float64
		results, values bool
	}{{0.24, false, false}, {0.3, false, true}, {0.2, false, true}, {0.12, false, false}, {0.51, true, true}, {0.26, true, true}, {0.13, false, true}} {
		results.update(int64(i), step.share)
		values.update(int64(i), step.share)
		if results.active != step.results || values.active != step.values {
			t.Errorf("step %d, %g full: results slow %v, values slow %v", i, step.share, results.active, values.active)
		}
	}
}
