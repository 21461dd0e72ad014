package play

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/usage"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/wire"
)

// Options are what a run needs.
type Options struct {
	Scenario *scenario.Scenario
	Timing   plan.Timing // of it
	Source   Source
	Edit     func(ctx context.Context, edits int) error // changes the directive that all nodes have
	Offered  float64                                    // values or components per second
	Startup  *observe.Startup                           // of the server
	Booted   time.Time                                  // zero of the boot clock that the agents have in common
	MaxLag   time.Duration                              // of the generator, beyond which the run is invalid; 0: the usual one
	Addr     string                                     // the server's listener for agents without TLS
	Name     func(node int) string
	UID      func(node int) uuid.UUID
	Server   Server
	Query    func(ctx context.Context) error            // is asked every few seconds while signals are sent
	Heap     func(ctx context.Context) (float64, error) // returns the bytes of the server's heap in use; is asked before the first fault
	Log      *observe.Log
	Say      func(format string, args ...any)
}

// Source makes the signals of a run: a node sends one at each tick. Play calls the methods about one node one at a time.
type Source interface {
	Ticks(node int) uint64                   // signals that a node sends
	Due(node int, tick uint64) time.Duration // time of a signal, since the start
	Interval(node int) time.Duration         // time between two signals of a node
	Weight(node int, tick uint64) int        // values or components of a signal
	// Assigned takes the assignment of a node. It reports whether it is that of the plan.
	Assigned(node int, held *link.Assignment) bool
	// Edits returns how often the directive that all nodes have was changed, as the node has it.
	Edits(node int) int
	// AppendSignal encodes a signal of a time of the boot clock. It is called again for a signal that was not acknowledged, and for the last one that was.
	AppendSignal(dst []byte, node int, tick uint64, at time.Duration) []byte
	// Acked says that the server has the signals of the first ticks.
	Acked(node int, ticks uint64)
	// Wrong returns invalid signals of a node; the server must refuse each.
	Wrong(node int) []wire.Signal
}

// Server is the process that receives the signals.
type Server interface {
	PID() int
	Kill(ctx context.Context) error    // and starts it again; returns when it is ready
	Restart(ctx context.Context) error // likewise, as planned
}

// driver plays one run.
type driver struct {
	Options
	nodes   []*node
	opening chan struct{} // a token for each session that is being opened
	start   atomic.Int64  // ns since Booted at which the signals start; zero: not yet
	ready   atomic.Int64  // nodes that have a session and their assignment for the first time
	refused atomic.Uint64
	down    atomic.Bool // the server is being started again
	shared  sync.Map    // *model.Definition by hash: all nodes of a class have the same

	mu     sync.Mutex // guards what follows
	second *hdrhistogram.Histogram
	total  *hdrhistogram.Histogram
	sent   uint64 // values or components
	acked  uint64
	lag    time.Duration
}

// newHistogram returns a histogram of latencies in µs.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, report.MaxLatency, 2) }

// Play plays the plan, and returns when all signals are acknowledged or the time for that is over.
func Play(ctx context.Context, o Options) error {
	d := &driver{Options: o, opening: make(chan struct{}, 64), second: newHistogram(), total: newHistogram()}
	shared := link.Config{BootMs: func() uint64 { return uint64(time.Since(d.Booted).Milliseconds()) }, Definition: d.shareDefinition}.Complete()
	for i := range o.Timing.Nodes {
		cfg := *shared
		cfg.Node = o.UID(i)
		d.nodes = append(d.nodes, &node{driver: d, number: i, cfg: &cfg})
	}
	ctx, stop := context.WithCancel(ctx)
	var readers, others errgroup.Group
	defer func() { // the sessions end last
		stop()
		for _, n := range d.nodes {
			n.leave()
		}
		_ = readers.Wait()
	}()
	for _, n := range d.nodes {
		readers.Go(func() error { n.live(ctx); return nil })
	}
	if err := d.awaitReady(ctx); err != nil {
		return err
	}
	d.start.Store(int64(time.Since(d.Booted)))
	d.Log.Append(observe.Line{Start: &observe.Start{Unix: time.Now(), Scenario: o.Scenario, Nodes: len(d.nodes), Values: o.Offered,
		Ready: time.Since(d.Booted).Seconds(), Startup: o.Startup, MaxLag: o.MaxLag}})
	playing, end := context.WithCancel(ctx)
	defer end()
	for part := range senders() {
		others.Go(func() error { d.send(playing, part); return nil })
	}
	others.Go(func() error { d.sample(playing); return nil })
	others.Go(func() error { return d.fault(playing) })
	others.Go(func() error { return d.edit(playing) })
	others.Go(func() error { d.query(playing); return nil })
	err := d.awaitEnd(ctx)
	end()
	if failed := others.Wait(); err == nil {
		err = failed
	}
	for _, n := range d.nodes {
		n.mu.Lock()
		d.Log.Append(observe.Line{At: d.now(), Node: &observe.Node{Number: n.number, Sent: n.most, Acked: n.acked}})
		n.mu.Unlock()
	}
	d.mu.Lock()
	total := latencyOf(d.total)
	d.mu.Unlock()
	d.Log.Append(observe.Line{At: d.now(), Total: &total})
	return err
}

// shareDefinition returns a definition, decoded once for all nodes.
func (d *driver) shareDefinition(id model.DefinitionID, data []byte) (*model.Definition, error) {
	key := wire.DefinitionHash(data)
	if known, ok := d.shared.Load(key); ok {
		return known.(*model.Definition), nil
	}
	definition, err := wire.DecodeDefinition(id, data)
	if err == nil {
		d.shared.Store(key, definition)
	}
	return definition, err
}

// senders returns how many goroutines send.
func senders() int { return runtime.GOMAXPROCS(0) }

// now returns the time since the start of the signals.
func (d *driver) now() time.Duration {
	return time.Since(d.Booted) - time.Duration(d.start.Load())
}

// readyWithin is how long the sessions may take that no other session follows.
const readyWithin = 60 * time.Second

// awaitReady waits until all nodes have a session and their assignment.
func (d *driver) awaitReady(ctx context.Context) error {
	seen, at := int64(-1), time.Now()
	for d.ready.Load() < int64(len(d.nodes)) {
		if n := d.ready.Load(); n != seen {
			seen, at = n, time.Now()
		}
		if time.Since(at) > readyWithin {
			return model.Errorf(model.Unavailable, "%d of %d agents have a session and the assignment of the plan", seen, len(d.nodes)).WithHint("the server's log says why the others have none")
		}
		if err := pause.For(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// awaitEnd waits until the signals are sent and acknowledged, or the time for that is over.
func (d *driver) awaitEnd(ctx context.Context) error {
	if err := pause.For(ctx, d.Timing.Steady-d.now()); err != nil {
		return err
	}
	for _, f := range d.Timing.Faults { // a server that is not ready acknowledges nothing
		if err := pause.For(ctx, time.Duration(f.At)-d.now()); err != nil {
			return err
		}
	}
	deadline := d.now() + d.Timing.Drain
	for !d.allAcked() {
		if d.now() > deadline {
			d.Log.Append(observe.Line{At: d.now(), Mark: observe.MarkUnacknowledged})
			return nil
		}
		if d.down.Load() {
			deadline = d.now() + d.Timing.Drain
		}
		if err := pause.For(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	d.Log.Append(observe.Line{At: d.now(), Mark: observe.MarkAcknowledged})
	return nil
}

// allAcked reports whether all signals are acknowledged.
func (d *driver) allAcked() bool {
	for _, n := range d.nodes {
		n.mu.Lock()
		done := n.acked >= d.Source.Ticks(n.number)
		n.mu.Unlock()
		if !done {
			return false
		}
	}
	return true
}

// fault does to the server what the plan says.
func (d *driver) fault(ctx context.Context) error {
	measured := false
	for _, f := range d.Timing.Faults {
		if pause.For(ctx, time.Duration(f.At)-d.now()) != nil {
			return nil
		}
		if f.Wrong != nil {
			d.Log.Append(observe.Line{At: d.now(), Wrong: d.sendWrong(f.Wrong)})
			continue
		}
		if !measured {
			measured = true
			if heap, err := d.Heap(ctx); err == nil {
				d.Log.Append(observe.Line{At: d.now(), Heap: heap})
			}
		}
		do, mark := d.Server.Kill, observe.MarkKilled
		if f.Server == "restart" {
			do, mark = d.Server.Restart, observe.MarkStopped
		}
		d.Log.Append(observe.Line{At: d.now(), Mark: mark})
		d.Say("%s after %s", mark, d.now().Round(time.Second))
		d.down.Store(true)
		if err := do(ctx); err != nil {
			return err
		}
		d.down.Store(false)
		d.Log.Append(observe.Line{At: d.now(), Mark: observe.MarkReady})
		d.Say("%s after %s", observe.MarkReady, d.now().Round(time.Millisecond))
		for !d.allBack() {
			if pause.For(ctx, 100*time.Millisecond) != nil {
				return nil
			}
		}
		d.Log.Append(observe.Line{At: d.now(), Mark: observe.MarkBack})
	}
	return nil
}

// allBack reports whether all nodes have a session.
func (d *driver) allBack() bool {
	return !slices.ContainsFunc(d.nodes, func(n *node) bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.session == nil
	})
}

// queryEvery is the time between two queries.
const queryEvery = 5 * time.Second

// query queries the server while signals flow.
func (d *driver) query(ctx context.Context) {
	for pause.For(ctx, queryEvery) == nil && d.now() < d.Timing.Steady {
		began := time.Now()
		if err := d.Query(ctx); err == nil { // a server that was killed answers nothing
			d.Log.Append(observe.Line{At: d.now(), Query: time.Since(began)})
		}
	}
}

// visit is the time at which a node sends in each interval.
type visit struct {
	node *node
	at   time.Duration
}

// sendWrong lets nodes send what the server must refuse, and what it has already. It returns how many signals it must refuse.
func (d *driver) sendWrong(pick *scenario.Pick) (sent int) {
	count := cmp.Or(pick.Count, int(pick.Share*float64(len(d.nodes))), len(d.nodes))
	for i := range min(count, len(d.nodes)) {
		sent += d.nodes[i*len(d.nodes)/count].sendWrong()
	}
	return sent
}

// edit changes a directive when the plan says so, and waits until all nodes with a session have it.
func (d *driver) edit(ctx context.Context) error {
	for i, at := range d.Timing.Edits {
		if pause.For(ctx, at-d.now()) != nil {
			return nil
		}
		began := d.now()
		if err := d.Edit(ctx, i+1); err != nil {
			return err
		}
		edit := observe.Edit{Applied: d.now() - began}
		for !d.allHave(i + 1) {
			if pause.For(ctx, 20*time.Millisecond) != nil {
				return nil
			}
		}
		edit.Held = d.now() - began
		d.Log.Append(observe.Line{At: d.now(), Edit: &edit})
		d.Say("a directive changed after %s: all agents have it after %s", began.Round(time.Second), edit.Held.Round(time.Millisecond))
	}
	return nil
}

// allHave reports whether all nodes have a directive as it is after some changes.
func (d *driver) allHave(edits int) bool {
	return !slices.ContainsFunc(d.nodes, func(n *node) bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return d.Source.Edits(n.number) < edits
	})
}

// send sends the signals of every nth node when they are due, until ctx ends.
func (d *driver) send(ctx context.Context, part int) {
	var list []visit
	for i := part; i < len(d.nodes); i += senders() {
		list = append(list, visit{d.nodes[i], d.Source.Due(i, 0)})
	}
	// Nodes of several intervals: the next visit is the earliest one.
	slices.SortFunc(list, func(a, b visit) int { return cmp.Compare(a.at, b.at) })
	byInterval := map[time.Duration][]visit{}
	for _, v := range list {
		interval := d.Source.Interval(v.node.number)
		byInterval[interval] = append(byInterval[interval], v)
	}
	var all errgroup.Group
	for interval, list := range byInterval {
		all.Go(func() error { d.sendEvery(ctx, interval, list); return nil })
	}
	_ = all.Wait()
}

// shortestSleep of a sender bounds its wake-ups.
const shortestSleep = 2 * time.Millisecond

// sendEvery visits nodes of one interval, by offset, again and again.
func (d *driver) sendEvery(ctx context.Context, interval time.Duration, list []visit) {
	var room scratch
	for round := time.Duration(0); ; round++ {
		for _, v := range list {
			due := v.at + round*interval
			now := d.now()
			if due > now {
				if pause.For(ctx, max(due-now, shortestSleep)) != nil {
					return
				}
				now = d.now()
			}
			if ctx.Err() != nil {
				return
			}
			values := v.node.visit(uint64(round)+1, now, &room)
			d.mu.Lock()
			d.sent += values
			d.lag = max(d.lag, now-due)
			d.mu.Unlock()
		}
	}
}

// ack counts acknowledged values of a tick.
func (d *driver) ack(latency time.Duration, values int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.acked += uint64(values)
	report.Record(d.second, int64(latency), int64(values))
}

// sample writes a line each second.
func (d *driver) sample(ctx context.Context) {
	var sent, acked, refused uint64
	for n, running := time.Duration(1), true; running; n++ {
		running = pause.For(ctx, n*time.Second-d.now()) == nil // the last line has the rest
		pid := d.Server.PID()
		server := usage.Process{}
		if pid != 0 {
			server = usage.OfProcess(pid)
		}
		own := usage.OfProcess(0)
		d.mu.Lock()
		s := observe.Second{Sent: d.sent - sent, Acked: d.acked - acked, Latency: latencyOf(d.second), Lag: float64(d.lag) / 1e6,
			PID: pid, CPU: server.CPU.Seconds(), Own: own.CPU.Seconds(), RSS: server.RSS, Load: loadAverage()}
		sent, acked = d.sent, d.acked
		d.total.Merge(d.second)
		d.second.Reset()
		d.lag = 0
		d.mu.Unlock()
		s.Refused = d.refused.Load() - refused
		refused += s.Refused
		d.Log.Append(observe.Line{At: d.now(), Second: &s})
		if n%10 == 0 {
			d.Say("%s  sent %s/s, acknowledged %s/s, p99 %.0f ms", n*time.Second, number.Count(int(s.Sent)), number.Count(int(s.Acked)), s.Latency.P99)
		}
	}
	d.mu.Lock()
	d.total.Merge(d.second)
	d.mu.Unlock()
}

// latencyOf sums up a histogram.
func latencyOf(h *hdrhistogram.Histogram) observe.Latency {
	l := report.LatencyOf(h)
	return observe.Latency{P50: l.P50, P99: l.P99, P999: l.P999, Max: l.Max}
}

// loadAverage returns the machine's load of the last minute.
func loadAverage() float64 {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return load
}

// lost records why a session ended.
func (d *driver) lost(n *node, err error) {
	if d.start.Load() != 0 {
		d.Log.Append(observe.Line{At: d.now(), Lost: fmt.Sprintf("node %d: %v", n.number, err)})
	}
}
