package react

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/handler"
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
	Table *route.Table
	// Present returns the state of a source now as a transition: Problem is the open problem, and Received the time of the
	// last change of status. It returns nil for a source without state. A nil Present knows no source: then a message leaves
	// at once or never.
	Present func(node model.NodeID, source model.Source) *event.Transition
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
	handler.Options // Now and Logger are those of the reactor
	// Beat gets the output of each synthetic result that was delivered; nil: dropped.
	Beat  func(output string)
	Retry Retry
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
		o.Routing.Present = func(model.NodeID, model.Source) *event.Transition { return nil }
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
	recorded, repeated, recordFailed, rederived, replayed, unopened prometheus.Counter
	recordSeconds, deliverSeconds                                   prometheus.Histogram
	missed, attempts                                                *prometheus.CounterVec
	// Of pipelines.
	pipelineEvents, pipelinePassed, pipelineFailed prometheus.Counter
	pipelineSeconds                                prometheus.Histogram
}

// newMetrics makes the metrics of a reactor and registers them; a nil registerer leaves them out. lag returns how late
// history is.
func newMetrics(registerer prometheus.Registerer, lag func() Lag) *metrics {
	factory := promauto.With(registerer)
	counterOpts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "muster", Subsystem: "react", Name: name, Help: help}
	}
	counter := func(name, help string) prometheus.Counter { return factory.NewCounter(counterOpts(name, help)) }
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return factory.NewHistogram(prometheus.HistogramOpts{Namespace: "muster", Subsystem: "react", Name: name, Help: help, Buckets: buckets})
	}
	gauge := func(name, help string, value func(Lag) float64) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "muster", Subsystem: "react", Name: name, Help: help},
			func() float64 { return value(lag()) })
	}
	gauge("behind_seconds", "Age of the oldest change that history has not recorded; zero: none.",
		func(l Lag) float64 { return l.Age.Seconds() })
	gauge("behind_bytes", "Bytes of journal from that change on, which cannot be cut.", func(l Lag) float64 { return float64(l.Bytes) })
	gauge("behind_commits", "Commits of the journal from that change on.", func(l Lag) float64 { return float64(l.Commits) })
	gauge("rederiving", "1 while changes are derived again from the journal because the queue overflowed.", func(l Lag) float64 {
		if l.Again {
			return 1
		}
		return 0
	})
	return &metrics{
		recorded:     counter("transitions_total", "Changes recorded in history."),
		repeated:     counter("repeated_total", "Changes that history already had (after a restart)."),
		recordFailed: counter("record_failed_total", "Batches that the history store refused; tried again."),
		unopened: counter("unopened_total",
			"Closed problems whose opening is missing in history although handlers should have received it."),
		missed: factory.NewCounterVec(counterOpts("missed_total", "Problems that differed between history and events at the server's start, "+
			"by repair: opened and closed are notified late, adopted are only recorded."), []string{"done"}),
		rederived:       counter("rederived_total", "Overflows of the queue, after which changes are derived again from the journal."),
		replayed:        counter("rederived_commits_total", "Commits of the journal read again for that."),
		recordSeconds:   histogram("record_seconds", "Time of one history transaction.", prometheus.ExponentialBuckets(0.001, 2, 15)),
		attempts:        factory.NewCounterVec(counterOpts("delivery_attempts_total", "Delivery attempts, by outcome."), []string{"outcome"}),
		deliverSeconds:  histogram("delivery_seconds", "Time of one attempt.", prometheus.ExponentialBuckets(0.001, 2, 16)),
		pipelineEvents:  counter("pipeline_events_total", "Events passed to pipelines."),
		pipelinePassed:  counter("pipeline_passed_total", "Messages to the handlers of pipelines."),
		pipelineFailed:  counter("pipeline_failed_total", "Failed evaluations of filter expressions."),
		pipelineSeconds: histogram("pipeline_seconds", "Time to pass a batch of at most 500 events to pipelines.", prometheus.ExponentialBuckets(0.0001, 4, 10)),
	}
}
