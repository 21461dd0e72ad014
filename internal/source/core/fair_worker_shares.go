package core

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/model"
)

// Shares of the time of the workers that apply values.
const (
	turnShare = 0.5              // seconds per second that all nodes beyond their turn get together, if no wait exceeds maxTurn
	turnSize  = time.Second / 2  // time of one turn: a node that used more waits before its next batch
	maxDebt   = 10 * time.Second // of time beyond a turn, so that a node whose script is mended soon goes on
	maxTurn   = 10 * time.Second // longest wait of one batch: each node sends one in this time, however long all take together
	sweepTime = 10 * time.Second // between two removals of nodes without use
)

// WorkerShares limits how much processing time of the workers each node's values may take while other nodes
// wait. A node pays for the time of its steps and triggers only while other commits wait. One that has used its
// turn waits before its next batch with values, so that a slow script delays the values of its own node. Any
// goroutine may call its methods.
type WorkerShares struct {
	monotonic func() int64 // ns
	mu        sync.Mutex
	nodes     map[model.NodeID]*nodeUsage
	hot       atomic.Int32 // nodes beyond their turn; mu guards changes
	swept     int64
	waits     uint64 // batches that waited
}

// nodeUsage is the worker time that a node has used beyond the share granted so far.
type nodeUsage struct {
	used    time.Duration
	at      int64 // of used, monotonic ns
	charged int64 // time of the last charge, monotonic ns
	hot     bool  // it is beyond its turn
}

// NewWorkerShares returns WorkerShares that use the given monotonic clock in nanoseconds.
func NewWorkerShares(monotonic func() int64) *WorkerShares {
	return &WorkerShares{monotonic: monotonic, nodes: map[model.NodeID]*nodeUsage{}}
}

// AddUsage adds the worker time that the values of a node took while other nodes waited.
func (t *WorkerShares) AddUsage(node model.NodeID, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.monotonic()
	if now-t.swept >= int64(sweepTime) {
		t.pruneNodes(now)
	}
	u := t.nodes[node]
	if u == nil {
		u = &nodeUsage{at: now}
		t.nodes[node] = u
	}
	t.deductShare(u, now)
	u.used, u.charged = min(u.used+took, turnSize+maxDebt), now
	if !u.hot && u.used > turnSize {
		u.hot = true
		t.hot.Add(1)
	}
}

// pruneNodes removes nodes whose used worker time has fallen to zero. Call it with mu.
func (t *WorkerShares) pruneNodes(now int64) {
	t.swept = now
	for id, u := range t.nodes {
		if t.deductShare(u, now); u.used == 0 {
			delete(t.nodes, id)
		}
	}
}

// slowNodeRate returns how many seconds of worker time per second each slow node gets. Call it with mu.
func (t *WorkerShares) slowNodeRate() float64 { return turnShare / float64(max(1, t.hot.Load())) }

// deductShare deducts the share that a node was granted since the last call from its used worker time. Nodes
// beyond their turn have one share together, and each other node has one of its own. Call it with mu.
func (t *WorkerShares) deductShare(u *nodeUsage, now int64) {
	rate := turnShare
	if u.hot {
		rate = t.slowNodeRate()
	}
	u.used = max(0, u.used-time.Duration(float64(now-u.at)*rate))
	if u.at = now; u.hot && u.used <= turnSize {
		u.hot = false
		t.hot.Add(-1)
	}
}

// Wait returns how long a slow node must wait before its next batch of values. It returns 0 if the batch does
// not wait. The caller waits, and calls CountWait once for the batch.
func (t *WorkerShares) Wait(node model.NodeID) time.Duration {
	wait, _ := t.waitAndExcess(node)
	return wait
}

// CountWait counts a batch of values that had to wait because its node was slow. A batch that the server
// refused in place of a wait counts, too.
func (t *WorkerShares) CountWait() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waits++
}

// Excess returns how much worker time a node has used beyond its share. It returns 0 if the node does not wait.
func (t *WorkerShares) Excess(node model.NodeID) time.Duration {
	_, debt := t.waitAndExcess(node)
	return debt
}

// waitAndExcess returns how long a slow node must wait, and its worker time beyond its share.
func (t *WorkerShares) waitAndExcess(node model.NodeID) (wait, debt time.Duration) {
	if t.hot.Load() == 0 { // nearly always: each batch of every session asks
		return 0, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	u, now := t.nodes[node], t.monotonic()
	if u == nil {
		return 0, 0
	}
	if t.deductShare(u, now); !u.hot {
		return 0, 0
	}
	debt = u.used - turnSize
	longest := maxTurn - time.Duration(now-u.charged) // also for a sender that asks again and again
	return max(0, min(longest, time.Duration(float64(debt)/t.slowNodeRate()))), debt
}

// Counts returns the present number of slow nodes, and the number of delayed batches since the start.
func (t *WorkerShares) Counts() (nodes int, waits uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pruneNodes(t.monotonic())
	return int(t.hot.Load()), t.waits
}

// Register registers the numbers of slow nodes and delayed batches as metrics.
func (t *WorkerShares) Register(to prometheus.Registerer) {
	m := Meter{to, "muster_metric_"}
	m.Gauge("slow_nodes", "Nodes whose steps and triggers took more time than their share while others waited.", func() float64 {
		nodes, _ := t.Counts()
		return float64(nodes)
	})
	to.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: m.Prefix + "turn_waits_total", Help: "Batches with values of slow nodes that waited for others."}, func() float64 {
		_, waits := t.Counts()
		return float64(waits)
	}))
}
