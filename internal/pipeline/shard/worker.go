package shard

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/wire"
)

// Worker applies commits to some of the partitions, on one goroutine. It owns every partition whose number modulo the
// number of workers is the worker's number. Appliers read the exported fields and never write them.
type Worker struct {
	// Position, Received and Listening belong to the commit being applied.
	Position  journal.Position
	Received  int64 // receive time, Unix ns
	Listening int64 // listening time, ns

	number   int
	shard    *Shard
	appliers []Applier                    // by reducer
	signals  [maxSignalKind + 1]Applier   // by kind; nil: no reducer claims it
	copies   [maxSignalKind + 1][]Applier // by kind: reducers that read what another one applied
	records  [recordKinds][]Applier       // by kind, in the order of reducers

	owned           []*Partition
	nextDeadlines   []int64  // by owned: a listening time before which nothing is due
	restoredNumbers []uint64 // by owned: commits up to this number are in its snapshot
	index           [model.Partitions]int16
	queue           *queue.Queue[journal.Commit]
	applied         atomic.Uint64
	started         bool // a commit has come: everything is restored

	all            [][]byte // entries of section All, of the commit being applied
	tally          [outcomes]uint64
	countedSignals uint64 // sum of tally
	definitions    map[model.DefinitionID]*model.Definition

	// Reused for every record.
	record  wire.Record
	reader  wire.BatchReader
	signal  currentSignal
	arrival SignalOrigin
	expired []uint32
}

// currentSignal is the signal that a worker is applying now, with the signal's decoded body. It has the decoded
// body if that is a report and a reducer has asked for it.
type currentSignal struct {
	wire.Signal
	report  wire.Report
	err     error
	decoded bool
}

const (
	// maxCachedDefinitions bounds the worker's cache of definitions; at the bound it starts anew.
	maxCachedDefinitions = 1 << 16
	// maxSignalKind bounds the table of signals' reducers.
	maxSignalKind = 31
)

// newWorker returns worker number n of a shard, with its queue and its partitions.
func newWorker(s *Shard, number int) *Worker {
	w := &Worker{
		number:      number,
		shard:       s,
		definitions: map[model.DefinitionID]*model.Definition{},
		queue:       queue.New[journal.Commit](s.opts.Queues, fmt.Sprintf("event-view-%d", number), s.opts.QueueCommits, queue.Block),
	}
	for i := range w.index {
		w.index[i] = -1
		if i%s.opts.Workers == number {
			w.index[i] = int16(len(w.owned))
			w.owned = append(w.owned, s.partitions[i])
		}
	}
	w.nextDeadlines = make([]int64, len(w.owned))
	w.restoredNumbers = make([]uint64, len(w.owned))
	return w
}

// addReducer registers a reducer's applier for the signals and records that the reducer claims.
func (w *Worker) addReducer(r Reducer) {
	a, claims := r.NewApplier(w), r.Claims()
	w.appliers = append(w.appliers, a)
	for _, kind := range claims.Signals {
		if kind == wire.SignalKeepalive || w.signals[kind] != nil {
			panic(fmt.Sprintf("BUG: two reducers of the signal %d", kind))
		}
		w.signals[kind] = a
	}
	for _, kind := range claims.Copies {
		w.copies[kind] = append(w.copies[kind], a)
	}
	for _, kind := range claims.Records {
		w.records[kind] = append(w.records[kind], a)
	}
}

// runQueue applies the commits of the worker's queue until ctx ends.
func (w *Worker) runQueue(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-w.queue.Items():
			began := time.Now()
			err := w.applyCommit(c)
			w.shard.busy[w.number].Add(int64(time.Since(began)))
			c.Release()
			if err != nil {
				return err
			}
		}
	}
}

// loadRestoredPositions reads the journal positions of restored partitions, before the worker applies the first
// commit.
func (w *Worker) loadRestoredPositions() {
	for i, p := range w.owned {
		w.nextDeadlines[i], w.restoredNumbers[i] = p.nextDeadline(), p.at.Number
	}
}

// HasBacklog reports whether further commits wait for the worker.
func (w *Worker) HasBacklog() bool { return len(w.queue.Items()) > 0 }

// applyCommit applies one commit to the worker's partitions. First come the entries of each partition, then the
// entries for all partitions, then expired deadlines. Every partition sees the time of every commit; one without
// entries and without a deadline costs a look at two numbers.
func (w *Worker) applyCommit(c journal.Commit) error {
	w.Position, w.Received, w.Listening = c.Position(), c.Received(), int64(c.Listening())
	if !w.started {
		w.started = true
		w.loadRestoredPositions()
	}
	if w.Position.Number <= w.applied.Load() {
		return nil // replayed and delivered: the journal's head moves before Deliver
	}
	sections := c.Sections()
	w.all = w.all[:0]
	if n := len(sections); n > 0 && sections[n-1] == journal.All {
		sections = sections[:n-1]
		if err := c.Entries(journal.All, func(data []byte) error {
			w.all = append(w.all, data)
			return nil
		}); err != nil {
			return fmt.Errorf("read journal commit %d: %w", w.Position.Number, err)
		}
	}
	for _, s := range sections {
		if int(s) >= len(w.index) {
			return fmt.Errorf("read journal commit %d: section %d is not the number of a partition", w.Position.Number, s)
		}
		if i := w.index[s]; i >= 0 && w.Position.Number > w.restoredNumbers[i] {
			if err := w.applyToPartition(int(i), c, s); err != nil {
				return fmt.Errorf("read journal commit %d: %w", w.Position.Number, err)
			}
		}
	}
	for i := range w.owned {
		if w.Position.Number <= w.restoredNumbers[i] || w.owned[i].at == w.Position {
			continue
		}
		if len(w.all) > 0 || w.nextDeadlines[i] != 0 && w.nextDeadlines[i] <= w.Listening {
			if err := w.applyToPartition(i, nil, 0); err != nil {
				return err
			}
		}
	}
	w.reportCounts()
	for _, a := range w.appliers {
		a.EndCommit()
	}
	w.applied.Store(w.Position.Number)
	w.shard.wakeWaiters()
	return nil
}

// applyToPartition applies the present commit to one partition. c is nil where it has no section of its own.
func (w *Worker) applyToPartition(i int, c journal.Commit, s journal.Section) error {
	p := w.owned[i]
	p.Lock()
	defer p.Unlock()
	for _, a := range w.appliers {
		a.EnterPartition(p)
	}
	if c != nil {
		if err := c.Entries(s, func(data []byte) error {
			w.applyEntry(p, data)
			return nil
		}); err != nil {
			return err
		}
	}
	for _, data := range w.all {
		w.applyEntry(p, data)
	}
	w.expireDeadlines(p)
	p.at = w.Position
	w.nextDeadlines[i] = p.nextDeadline()
	return nil
}

// Count counts n signals with an outcome, such as applied or duplicate
func (w *Worker) Count(o Outcome, n uint64) {
	w.countedSignals += n
	w.tally[o] += n
}

// reportCounts adds the outcomes that the worker has counted to the metrics
func (w *Worker) reportCounts() {
	if w.countedSignals == 0 {
		return
	}
	m := w.shard.metrics
	m.received.Add(float64(w.countedSignals))
	w.countedSignals = 0
	for o, n := range w.tally {
		if n > 0 {
			m.outcomes[o].Add(float64(n))
			w.tally[o] = 0
		}
	}
}

// Definition returns the compiled check or other definition with an id, or nil for an unknown id.
func (w *Worker) Definition(id model.DefinitionID) *model.Definition {
	if c, ok := w.definitions[id]; ok {
		return c
	}
	var c *model.Definition
	if builtin := model.BuiltinDefinitionOf(id); builtin != nil {
		c = &builtin.Definition
	} else if w.shard.opts.Definitions != nil {
		c = w.shard.opts.Definitions(id)
	}
	if c != nil {
		if len(w.definitions) == maxCachedDefinitions {
			clear(w.definitions)
		}
		w.definitions[id] = c
	}
	return c
}

// Report returns the decoded report of a directive, and decodes the bytes only once for all reducers. It is
// valid until Applier.ApplySignal returns.
func (w *Worker) Report() (*wire.Report, error) {
	s := &w.signal
	if !s.decoded {
		s.err, s.decoded = s.report.Decode(s.Body), true
	}
	return &s.report, s.err
}

// Number returns the worker's number in the shard, which determines the partitions of the worker. It owns the
// partitions whose number modulo Shard.Workers is that number.
func (w *Worker) Number() int { return w.number }

// Logger returns the shard's logger.
func (w *Worker) Logger() *slog.Logger { return w.shard.opts.Logger }

// metrics holds the metrics of the shard. Workers count in plain fields and add once per commit. Their names begin
// with muster_event, as the names of the event view's own metrics do: dashboards and recorded results know one set.
type metrics struct {
	received  prometheus.Counter
	outcomes  [outcomes]prometheus.Counter
	records   [recordKinds]prometheus.Counter // by kind; zero: malformed
	holes     prometheus.Counter
	evictions prometheus.Counter
}

// newMetrics registers the metrics of the shard.
func newMetrics(s *Shard, r prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "muster", Subsystem: "event", Name: name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "muster", Subsystem: "event", Name: name, Help: help}, []string{label})
	}
	m := &metrics{
		received:  counter("signals_received_total", "Signals found in the journal; the sum of muster_event_signals_total."),
		holes:     counter("stream_holes_total", "Places in streams where numbers are missing without a gap: commits of the journal are lost, else a BUG."),
		evictions: counter("streams_forgotten_total", "Streams that a node has not used for so many others that its numbers were dropped."),
	}
	signals := vec("signals_total", "Signals, by outcome.", "outcome")
	for o := range outcomes {
		m.outcomes[o] = signals.WithLabelValues(o.String())
	}
	records := vec("records_total", "Journal entries read, by kind; those for all partitions count once per partition.", "kind")
	for kind, name := range recordNames {
		m.records[kind] = records.WithLabelValues(name)
	}
	if r == nil {
		return m
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "muster", Subsystem: "event", Name: name, Help: help}, value)
	}
	r.MustRegister(m.received, signals, records, m.holes, m.evictions,
		gauge("applied_commit", "Number of the last commit applied by every worker.", func() float64 { return float64(s.Applied().Number) }),
		gauge("lag_commits", "Commits delivered and not yet applied.", func() float64 {
			return float64(s.delivered.Load()) - float64(s.Applied().Number)
		}),
	)
	return m
}

const recordKinds = 13

var recordNames = [recordKinds]string{
	"malformed", "batch", "session", "started", "intent", "forget", "action", "own", "proxied", "verdict", "samples", "discovery", "resume",
}

// countRecord adds one to the counter of a kind of record.
func (m *metrics) countRecord(kind wire.RecordKind) {
	if int(kind) < recordKinds {
		m.records[kind].Inc()
	}
}

// Outcome is the result of applying one signal of an agent, such as applied or duplicate. Each signal has exactly one.
type Outcome uint8

const (
	Applied           Outcome = iota // changed a reducer's state
	Late                             // older than the present state: history only
	Keepalive                        // a heartbeat, nothing else
	Duplicate                        // its number was applied before
	Lost                             // dropped by the agent's spool, reported as a gap
	UnknownDefinition                // no definition says how to judge it
	Forgotten                        // of a deleted node or check, or from before a forget
	Malformed                        // cannot be decoded: never from our own sources
	UnknownKind                      // of a kind that no reducer claims
	outcomes
)

var outcomeNames = [outcomes]string{
	"applied", "late", "keepalive", "duplicate", "lost", "unknown_definition", "forgotten", "malformed", "unknown_kind",
}

// String returns the name of an outcome, such as applied or duplicate.
func (o Outcome) String() string { return outcomeNames[o] }
