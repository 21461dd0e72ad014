package core

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// TestSlowNodesWaitForOthers simulates two slow nodes among twelve, and expects only the slow nodes to wait. A
// node that waits for its turn sends no batch. Two nodes take two CPU seconds for each batch. It counts the
// batches: quiet nodes never wait, and both hot ones get their share, equally. A hot node whose script is
// mended goes on.
func TestSlowNodesWaitForOthers(t *testing.T) {
	var now int64
	turns := NewWorkerShares(func() int64 { return now })
	const nodes, seconds = 12, 600
	var batches [nodes + 1]int
	var ready [nodes + 1]int64
	for range seconds {
		now += int64(time.Second)
		for node := model.NodeID(1); node <= nodes; node++ {
			if now < ready[node] {
				continue
			}
			cost := time.Millisecond
			if node <= 2 {
				cost = 2 * time.Second
			}
			turns.AddUsage(node, cost)
			batches[node]++
			ready[node] = now + int64(turns.Wait(node))
		}
	}
	for node := 3; node <= nodes; node++ {
		if batches[node] != seconds {
			t.Errorf("quiet node %d sent %d of %d batches", node, batches[node], seconds)
		}
	}
	if a, b := batches[1], batches[2]; a < 60 || a > 130 || max(a-b, b-a) > 1 {
		t.Errorf("hot nodes sent %d and %d batches in %d s", a, b, seconds)
	}
	if hot, _ := turns.Counts(); hot != 2 {
		t.Errorf("%d hot nodes", hot)
	}
	if turns.Excess(1) == 0 || turns.Excess(3) != 0 {
		t.Errorf("waiting: hot %v, quiet %v", turns.Excess(1), turns.Excess(3))
	}
	now += int64(time.Minute)
	if wait := turns.Wait(1); wait != 0 {
		t.Errorf("a minute after its last slow batch a node waits %v", wait)
	}
	turns.AddUsage(3, time.Millisecond)
	if len(turns.nodes) > 1 {
		t.Errorf("%d nodes without use are kept", len(turns.nodes))
	}
}

// TestManySlowNodes simulates sixty nodes with slow values, and expects to accept one batch from each every ten
// seconds. No quiet node waits, and each hot node sends a batch in ten seconds. A day later no node is counted
// as slow, without further values.
func TestManySlowNodes(t *testing.T) {
	var now int64
	turns := NewWorkerShares(func() int64 { return now })
	const hot, nodes, seconds = 60, 560, 1200
	var batches [nodes + 1]int
	var ready [nodes + 1]int64
	for range seconds {
		now += int64(time.Second)
		for node := model.NodeID(1); node <= nodes; node++ {
			if now < ready[node] {
				continue
			}
			cost := 10 * time.Millisecond
			if node <= hot {
				cost = time.Second
			}
			turns.AddUsage(node, cost)
			batches[node]++
			ready[node] = now + int64(turns.Wait(node))
		}
	}
	for node, sent := range batches[1:] {
		if most := seconds / 10; node >= hot && sent != seconds || node < hot && (sent < most || sent > most+5) {
			t.Errorf("node %d sent %d batches in %d s", node+1, sent, seconds)
		}
	}
	if slow, _ := turns.Counts(); slow != hot {
		t.Errorf("%d slow nodes", slow)
	}
	turns.AddUsage(1, time.Second)
	before := turns.Wait(1)
	if now += int64(6 * time.Second); before != maxTurn || turns.Wait(1) != 4*time.Second {
		t.Errorf("a node waits %v, and six seconds later %v", before, turns.Wait(1))
	}
	now += int64(24 * time.Hour)
	if slow, _ := turns.Counts(); slow != 0 || len(turns.nodes) > 0 {
		t.Errorf("a day later: %d slow nodes, %d are kept", slow, len(turns.nodes))
	}
}
