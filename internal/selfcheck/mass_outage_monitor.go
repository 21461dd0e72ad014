package selfcheck

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muster-fleet/muster/internal/dispatch"
	"github.com/muster-fleet/muster/internal/follow"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/source/muster"
	"github.com/muster-fleet/muster/internal/store/history"
)

// Options holds the functions by which a Monitor reads the state of the server and writes events. With these
// functions the Monitor measures the server and records its built-in events. Run and the other methods call the
// functions; only Record and Events may block.
type Options struct {
	KeepaliveTimeout time.Duration // of the server; nodes may have another
	SnapshotCycle    string        // the setting, for a hint
	RestoredCommand  string        // gives an older copy of the data a new incarnation
	Now              func() time.Time
	Log              *slog.Logger

	// Record writes a result of a built-in check about a node and returns when it is durable.
	Record func(ctx context.Context, node model.NodeID, check model.CheckID, status model.Status, output string) error
	Event  func(node model.NodeID, check model.CheckID) (event.State, bool)
	Events func(ctx context.Context, q event.Query) (event.Page, error)

	Machines  func() int // nodes with an agent
	Exists    func(node model.NodeID) bool
	Node      func(namespace, name string) (model.NodeID, bool)
	Connected func() int                            // nodes with a session
	Hits      func(since time.Time) []core.LimitHit // limits met
	Journal   func() journal.Stats                  //
	Holder    func() (name string, bytes int64)     // consumer that keeps most of the journal from being cut; "": none
	Lag       func() dispatch.Lag                   // of history
	Trouble   func() error                          // of the history store
	History   func() history.Usage                  // size of history
	FullDisk  func() string                         // largest files of the server, and commands that find others on the journal's disk
	Streams   func() []follow.State                 // of handlers of every result
	Rollouts  func() []string                       // stopped by failures, as sentences
	Files     func() []string                       // files of the data folder that were deleted or replaced, as sentences
}

// Monitor maintains the built-in events about the server's own health and about faulty nodes. It also detects
// mass outages.
type Monitor struct {
	o           Options
	outages     outageDetector
	cloned      chan struct{} // capacity 1: clones has a report
	outageTexts chan string   // text of a mass outage that is still to be recorded

	mu          sync.Mutex
	clones      map[model.NodeID]core.Clone // the last report about each node that watchNodes has not taken
	agentsAhead int                         // agents with acknowledgements that this server's data does not hold
	firstAhead  string                      // the first one's node
}

// New returns a Monitor of the server's own health. Its work starts with Run. Its reporting methods may be called
// before Run.
func New(o Options) *Monitor {
	return &Monitor{o: o, outages: outageDetector{timeout: o.KeepaliveTimeout}, clones: map[model.NodeID]core.Clone{}, cloned: make(chan struct{}, 1), outageTexts: make(chan string, 1)}
}

// Run updates the built-in events until ctx ends.
func (m *Monitor) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.watchHealth(ctx) })
	g.Go(func() error { return m.watchNodes(ctx) })
	return g.Wait()
}

// outageDetector detects mass outages, in which many nodes become silent together. It counts the nodes that become
// silent within one keepalive timeout. A mass outage is a large share of the fleet within one keepalive time-out;
// messages about each of its nodes wait for two time-outs.
type outageDetector struct {
	timeout time.Duration // of keepalives

	mu     sync.Mutex
	silent []silentNodeCount // within the last time-out
	until  time.Time         // end of the mass outage
	reason string
}

// silentNodeCount has the number of nodes that became silent at about the same time.
type silentNodeCount struct {
	at    time.Time
	nodes int
}

// A mass outage is this share of all nodes, and at least so many.
const (
	massShare = 0.2
	massLeast = 10
)

// countSilentNodes adds newly silent nodes to the count, and reports whether the count means a mass outage. It detects
// a mass outage. It returns the number of silent nodes within the time-out before the instant, and whether they are a
// mass outage.
func (o *outageDetector) countSilentNodes(at time.Time, nodes, all int) (sum int, mass bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.silent) > 0 && at.Sub(o.silent[0].at) >= o.timeout {
		o.silent = o.silent[1:]
	}
	if last := len(o.silent) - 1; last >= 0 && at.Sub(o.silent[last].at) < o.timeout/100 {
		o.silent[last].nodes += nodes
	} else {
		o.silent = append(o.silent, silentNodeCount{at, nodes})
	}
	for _, s := range o.silent {
		sum += s.nodes
	}
	return sum, sum >= massLeast && float64(sum) > massShare*float64(all)
}

// startOrExtendOutage starts a mass outage, or extends the present mass outage. It reports whether a new outage has started.
// Nodes that lose their sessions fall silent a time-out later: that is the same outage.
func (o *outageDetector) startOrExtendOutage(now time.Time, reason string) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if first = o.until.IsZero() || now.Sub(o.until) >= 2*o.timeout; first {
		o.reason = reason
	}
	o.until = now.Add(2 * o.timeout)
	return first
}

// delayReason returns the reason to delay notifications during a mass outage, or nil without an outage.
func (o *outageDetector) delayReason(now time.Time) *route.Hold {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !now.Before(o.until) {
		return nil
	}
	return &route.Hold{Kind: route.ManySilent, Reason: o.reason, Until: o.until}
}

// MassOutage returns why notifications about silent nodes are delayed now, or nil without a mass outage. It is
// dispatch.Options.MassOutage.
func (m *Monitor) MassOutage(now time.Time) *route.Hold { return m.outages.delayReason(now) }

// ReportSessionLoss reports that many agents lost their sessions at the same time, for example by a network
// failure. Their nodes do not count as silent yet. It is muster.Config.OnSessionLoss.
func (m *Monitor) ReportSessionLoss(loss muster.SessionLoss) {
	text := fmt.Sprintf("%d of %d agents lost their sessions within %s: check the network of this server first", loss.Sessions, loss.Before, loss.Window)
	m.o.Log.Error("many agents lost their sessions at once", "lost", loss.Sessions, "before", loss.Before)
	m.outages.startOrExtendOutage(m.o.Now(), text)
	m.queueOutageReport(text)
}

// ReportSilentNodes counts nodes that became silent, and reports a mass outage above a threshold. Their
// connections hang, or they did not reconnect after the server's start. It is dispatch.Options.NodesSilent.
func (m *Monitor) ReportSilentNodes(at []time.Time) {
	all, sum := m.o.Machines(), 0
	for _, instant := range at {
		if n, mass := m.outages.countSilentNodes(instant, 1, all); mass {
			sum = max(sum, n)
		}
	}
	if sum == 0 {
		return
	}
	text := fmt.Sprintf("%d of %d nodes became silent within %s: check this server and its network first", sum, all, model.Duration(m.o.KeepaliveTimeout))
	if m.outages.startOrExtendOutage(m.o.Now(), text) {
		m.o.Log.Error("many nodes became silent at once", "silent", sum, "nodes", all)
		m.queueOutageReport(text)
	}
}

// queueOutageReport queues the report of a mass outage, without waiting for the journal. Another goroutine records the
// report.
func (m *Monitor) queueOutageReport(text string) {
	select {
	case m.outageTexts <- text:
	default:
	}
}

// recordSessionsEvent records the built-in event named sessions, which reports a mass outage.
func (m *Monitor) recordSessionsEvent(ctx context.Context, text string) {
	within, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := m.o.Record(within, model.ServerNode, model.SessionsCheck, model.Critical, text); err != nil && ctx.Err() == nil {
		m.o.Log.Error("cannot record the event about lost sessions", "err", err)
	}
}

// outageCalm is how long no more sessions must have ended before the event `sessions` closes.
const outageCalm = 5 * time.Minute

// closeSessionsEvent closes the built-in event named sessions (a mass outage) after the outage. If the journal refuses
// the result, the next call tries again.
func (m *Monitor) closeSessionsEvent(ctx context.Context, now time.Time) {
	event, ok := m.o.Event(model.ServerNode, model.SessionsCheck)
	if ok && (event.Status == model.OK || now.Sub(time.Unix(0, event.Received)) < outageCalm) {
		return
	}
	_ = m.o.Record(ctx, model.ServerNode, model.SessionsCheck, model.OK, fmt.Sprintf("%d agents are connected", m.o.Connected()))
}
