package react

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/guard"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipes"
	"github.com/muster-fleet/muster/internal/queue"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
)

// Options are the surroundings of a Reactor.
type Options struct {
	Store history.Store
	Names Names
	// Rederive starts to derive transitions again from the journal, after the queue overflowed.
	Rederive func() (Replay, error)
	// Journal measures how far history is behind; nil: unknown.
	Journal Journal

	Routing   RoutingOptions
	Pipelines PipelineOptions
	Delivery  DeliveryOptions
	Batches   BatchOptions
	Retention time.Duration // of history; default 90 days

	Now        func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Queues     *queue.Registry

	retryFirst   time.Duration // first wait after the store failed; default 100 ms
	shutdownWait time.Duration // for messages under way when the server stops; default 5 s
}

// RoutingOptions has the parts of the server that decide on notifications.
type RoutingOptions struct {
	// Table finds routes and holds; nil: only the handlers of checks and namespaces.
	Table Routing
	// Present returns the state of a source now; nil: none, so that a message leaves at once or never.
	Present func(node model.NodeID, source model.Source) (Presence, bool)
	// EndSilences deletes silences that end with their first problem, but none that was created after it closed;
	// nil: they stay.
	EndSilences func(ctx context.Context, ends []SilenceEnd) error
	// NodesSilent gets the times at which nodes fell silent, before their problems are routed; late where history
	// was behind.
	NodesSilent func(at []time.Time)
	// MassOutage returns the hold of keepalive problems while most of the fleet is silent; nil: never.
	MassOutage func(now time.Time) *route.Hold
	// Dependencies lists the checks on which the problems of a source on a node depend; nil: none.
	Dependencies func(node model.NodeID, source model.Source) []route.Dependency
	// Shadow reports whether messages of a namespace's nodes are recorded but not sent; nil: never.
	Shadow func(namespace string) bool
}

// PipelineOptions are the pipelines kept from Sensu; a nil Table has none.
type PipelineOptions struct {
	Table *pipes.Table
	// Kept returns the further fields that filter expressions read; nil: none.
	Kept func(node model.NodeID, check model.CheckID) directory.FilterContext
}

// DeliveryOptions are for sending messages.
type DeliveryOptions struct {
	// Secret returns the value of a Secret that a handler names; nil: there are none.
	Secret func(ctx context.Context, namespace, name string) (string, error)
	// Assets gives the command of a handler or mutator its assets; see handler.Options.
	Assets func(ctx context.Context, names []string) (list []model.AssetDir, done func(), err error)
	// Beat gets the output of each synthetic result that was delivered; nil: dropped.
	Beat  func(output string)
	Retry Retry
	Guard *guard.Guard // of handlers' commands; nil: they outlive a kill -9
	// ProblemLink is the address of a problem in messages: see handler.Options.
	ProblemLink string
}

// BatchOptions has the bounds of the queue of transitions and its transactions.
type BatchOptions struct {
	Capacity     int64         // bytes of waiting transitions; default: of the queue reactions
	Size         int           // transitions in one transaction; default 2000
	Gather       time.Duration // between transactions, unless a batch is full; default none
	GatherOpened time.Duration // the same where a problem opened; default Gather
}

// withDefaults fills the fields that are zero.
func (o Options) withDefaults() Options {
	o.Batches.Size = cmp.Or(max(o.Batches.Size, 0), 2000)
	o.Retention = cmp.Or(max(o.Retention, 0), 90*24*time.Hour)
	o.retryFirst = cmp.Or(o.retryFirst, 100*time.Millisecond)
	o.shutdownWait = cmp.Or(o.shutdownWait, 5*time.Second)
	o.Delivery.Retry = o.Delivery.Retry.withDefaults()
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Routing.Table == nil {
		o.Routing.Table = route.NewTable()
	}
	if o.Routing.Present == nil {
		o.Routing.Present = func(model.NodeID, model.Source) (Presence, bool) { return Presence{}, false }
	}
	return o
}

// Names is the planner's directory: names of ids as they are now, and the handlers that they name.
type Names interface {
	route.Directory
	// NodeProperties returns the values for variables in a handler.
	NodeProperties(id model.NodeID) model.PropertyValues
	NamespaceName(id model.NamespaceID) (name string, ok bool)
	// NamespaceHandlers lists the handlers for problems on a namespace's nodes whose check names none.
	NamespaceHandlers(namespace string) []string
	Handler(namespace, name string) (*model.HandlerSpec, bool)
	CheckChunk(id model.ChunkID) *model.CheckChunk
	// Keepalive returns the definition of a node's keepalive, with the handlers that the node names.
	Keepalive(node model.NodeID) *model.CheckChunk
}

// definition returns the check's definition that judged a transition, with its handlers, route and pipelines
// of now; nil: none is known any more, or another kind of source judged.
func definition(names Names, t *event.Transition) *model.CheckChunk {
	switch {
	case t.Source.Kind != model.SourceCheck:
		return nil
	case t.Source.Check() == model.KeepaliveCheck:
		return names.Keepalive(t.Node)
	}
	return names.CheckChunk(t.Chunk)
}

// Replay derives transitions again (*rederive.Pass): at least all that history has not recorded, in order per
// partition.
type Replay interface {
	// At is the position of the pass; before the first Read history lacks nothing up to it.
	At() journal.Position
	// Read goes on to the journal's present head. It calls fn for every commit and reuses ts afterwards.
	Read(ctx context.Context, fn func(at journal.Position, received int64, ts []event.Transition) error) (journal.Position, error)
	Close()
}

// Journal is the part of *journal.Log that measures lag.
type Journal interface {
	Head() journal.Position
	SizeAfter(p journal.Position) int64
}

type metrics struct {
	recorded, repeated, recordFailed, rederived, replayed prometheus.Counter
	unopened                                              prometheus.Counter
	missed                                                *prometheus.CounterVec
	recordSeconds                                         prometheus.Histogram
	attempts                                              *prometheus.CounterVec
	deliverSeconds                                        prometheus.Histogram
	seen, passed, failed                                  prometheus.Counter // by pipelines
	seeSeconds                                            prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "muster", Subsystem: "react", Name: name, Help: help})
	}
	m := &metrics{
		recorded:     counter("transitions_total", "Changes recorded in history."),
		repeated:     counter("repeated_total", "Changes that history already had (after a restart)."),
		recordFailed: counter("record_failed_total", "Batches that the history store refused; tried again."),
		unopened:     counter("unopened_total", "Closed problems whose opening is missing in history although handlers should have received it."),
		missed: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "muster", Subsystem: "react", Name: "missed_total",
			Help: "Problems that differed between history and events at the server's start, by repair: opened and closed are notified late, adopted are only recorded."}, []string{"done"}),
		rederived: counter("rederived_total", "Overflows of the queue, after which changes are derived again from the journal."),
		replayed:  counter("rederived_commits_total", "Commits of the journal read again for that."),
		recordSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "muster", Subsystem: "react", Name: "record_seconds",
			Help: "Time of one history transaction.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 15)}),
		seen:   counter("pipeline_events_total", "Events passed to pipelines."),
		passed: counter("pipeline_passed_total", "Messages to the handlers of pipelines."),
		failed: counter("pipeline_failed_total", "Failed evaluations of filter expressions."),
		seeSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "muster", Subsystem: "react", Name: "pipeline_seconds",
			Help: "Time to pass a batch of at most 500 events to pipelines.", Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10)}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "muster", Subsystem: "react", Name: "delivery_attempts_total",
			Help: "Delivery attempts, by outcome."}, []string{"outcome"}),
		deliverSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "muster", Subsystem: "react", Name: "delivery_seconds",
			Help: "Time of one attempt.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 16)}),
	}
	if r != nil {
		r.MustRegister(m.recorded, m.repeated, m.unopened, m.missed, m.recordFailed, m.rederived, m.replayed, m.recordSeconds, m.attempts, m.deliverSeconds,
			m.seen, m.passed, m.failed, m.seeSeconds)
	}
	return m
}

// showBehind has the metrics tell how late history is.
func (r *Reactor) showBehind(to prometheus.Registerer) {
	if to == nil {
		return
	}
	for _, g := range []struct {
		name, help string
		of         func(Lag) float64
	}{
		{"behind_seconds", "Age of the oldest change that history has not recorded; zero: none.", func(l Lag) float64 { return l.Age.Seconds() }},
		{"behind_bytes", "Bytes of journal from that change on, which cannot be cut.", func(l Lag) float64 { return float64(l.Bytes) }},
		{"behind_commits", "Commits of the journal from that change on.", func(l Lag) float64 { return float64(l.Commits) }},
		{"rederiving", "1 while changes are derived again from the journal because the queue overflowed.", func(l Lag) float64 {
			if l.Again {
				return 1
			}
			return 0
		}},
	} {
		to.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "muster", Subsystem: "react", Name: g.name, Help: g.help},
			func() float64 { return g.of(r.Lag()) }))
	}
}
