package core

import (
	"sync"
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

// StepTurns shares the time of the workers that apply values between nodes. A node pays for the time of its steps and triggers only
// while other commits wait. One that has used its turn waits before its next batch with values, so that a slow script
// delays the values of its own node. Any goroutine may call its methods.
type StepTurns struct {
	monotonic func() int64 // ns
	mu        sync.Mutex
	nodes     map[model.NodeID]*stepUse
	hot       int // nodes beyond their turn
	swept     int64
	waits     uint64 // batches that waited
}

// stepUse is the time that a node used while others waited, less its share since then.
type stepUse struct {
	used    time.Duration
	at      int64 // of used, monotonic ns
	charged int64 // time of the last charge, monotonic ns
	hot     bool  // it is beyond its turn
}

// NewStepTurns returns StepTurns by a monotonic clock in ns.
func NewStepTurns(monotonic func() int64) *StepTurns {
	return &StepTurns{monotonic: monotonic, nodes: map[model.NodeID]*stepUse{}}
}

// Charge adds time of a worker that the values of a node took while other commits waited.
func (t *StepTurns) Charge(node model.NodeID, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.monotonic()
	if now-t.swept >= int64(sweepTime) {
		t.sweep(now)
	}
	u := t.nodes[node]
	if u == nil {
		u = &stepUse{at: now}
		t.nodes[node] = u
	}
	t.settle(u, now)
	u.used, u.charged = min(u.used+took, turnSize+maxDebt), now
	if !u.hot && u.used > turnSize {
		u.hot = true
		t.hot++
	}
}

// sweep settles all nodes, and removes nodes without use. Call it with mu.
func (t *StepTurns) sweep(now int64) {
	t.swept = now
	for id, u := range t.nodes {
		if t.settle(u, now); u.used == 0 {
			delete(t.nodes, id)
		}
	}
}

// rate returns the seconds per second that a node beyond its turn gets. Call it with mu.
func (t *StepTurns) rate() float64 { return turnShare / float64(max(1, t.hot)) }

// settle takes the share of a node since the last call off its use. Nodes beyond their turn have one share together, and each
// other node has one of its own. Call it with mu.
func (t *StepTurns) settle(u *stepUse, now int64) {
	rate := turnShare
	if u.hot {
		rate = t.rate()
	}
	u.used = max(0, u.used-time.Duration(float64(now-u.at)*rate))
	if u.at = now; u.hot && u.used <= turnSize {
		u.hot = false
		t.hot--
	}
}

// Wait returns how long the next batch with values of a node waits for other nodes. It returns 0 if the batch does
// not wait. The caller waits, and calls CountWait once for the batch.
func (t *StepTurns) Wait(node model.NodeID) time.Duration {
	wait, _ := t.wait(node)
	return wait
}

// CountWait counts a batch that waited. A batch that the server refused in place of a wait counts, too.
func (t *StepTurns) CountWait() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waits++
}

// Excess returns the time that a node has used beyond its turn. It returns 0 if the node does not wait.
func (t *StepTurns) Excess(node model.NodeID) time.Duration {
	_, debt := t.wait(node)
	return debt
}

// wait returns how long a node waits, and its time beyond its turn.
func (t *StepTurns) wait(node model.NodeID) (wait, debt time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u, now := t.nodes[node], t.monotonic()
	if u == nil {
		return 0, 0
	}
	if t.settle(u, now); !u.hot {
		return 0, 0
	}
	debt = u.used - turnSize
	longest := maxTurn - time.Duration(now-u.charged) // also for a sender that asks again and again
	return max(0, min(longest, time.Duration(float64(debt)/t.rate()))), debt
}

// Counts returns the number of nodes beyond their turn, and of batches that have waited since the start.
func (t *StepTurns) Counts() (nodes int, waits uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(t.monotonic())
	return t.hot, t.waits
}

// Register registers the counts as metrics.
func (t *StepTurns) Register(to prometheus.Registerer) {
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
