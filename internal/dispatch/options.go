package dispatch

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
	"github.com/muster-fleet/muster/internal/store/attempt"
	"github.com/muster-fleet/muster/internal/store/history"
)

// Options has the settings of a Dispatcher, and the server components that the Dispatcher calls.
type Options struct {
	Store history.Store
	Names Names
	// Rederive starts a replay that computes transitions from the journal again, after the queue overflowed.
	Rederive func() (Replay, error)
	// Journal is used to measure how far history is behind; nil: Lag has no commits and bytes.
	Journal Journal

	// MarkRecorded writes the number of transactions of the store into the journal. The dispatcher calls it between the
	// record of deliveries and their sending, so that a store that lost the record is found to be older than its journal;
	// nil: it is not found.
	MarkRecorded func(ctx context.Context)

	Routing   RoutingOptions
	Pipelines PipelineOptions
	Delivery  DeliveryOptions
	Batches   BatchOptions
	Retention time.Duration // greatest age of history; default 90 days

	Now        func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Queues     *queue.Registry

	retryFirst   time.Duration // pause after the first failure of the store; default 100 ms
	shutdownWait time.Duration // time that messages under way get when the server stops; default 5 s
}

// RoutingOptions has the server components that decide whom to notify of a problem, and when.
type RoutingOptions struct {
	// Table finds routes and holds; nil: only the handlers that checks and namespaces name are notified.
	Table *route.Table
	// Present returns the present state of a source as a transition: Problem is the open problem, and Received is the
	// time of the last change of status. It returns nil for a source without state. If Present is nil, no source has
	// state: a message is sent at once or never.
	Present func(node model.NodeID, source model.Source) *event.Transition
	// EndSilences deletes silences that end with their first problem, but no silence that was created after the problem
	// closed; nil: silences stay.
	EndSilences func(ctx context.Context, ends []SilenceEnd) error
	// NodesSilent gets the times since when nodes are silent, before the problems of these nodes are routed. The call
	// comes late when history is behind.
	NodesSilent func(at []time.Time)
	// MassOutage returns the hold of keepalive problems while most nodes of the fleet are silent; nil: there is no such
	// hold.
	MassOutage func(now time.Time) *route.Hold
	// Dependencies lists the checks on which the problems of a source on a node depend; nil: no check depends on
	// another.
	Dependencies func(node model.NodeID, source model.Source) []route.Dependency
	// Shadow reports whether messages about a namespace's nodes are recorded but not sent; nil: all are sent.
	Shadow func(namespace string) bool
}

// PipelineOptions holds the settings of Sensu pipelines (filters and mutators of events). A nil Table turns
// pipelines off.
type PipelineOptions struct {
	Table *pipes.Table
	// FilterContext returns the records of an event's node, of the node that ran its check, and of the check; nil: there are none.
	FilterContext func(node, runner model.NodeID, check model.CheckID) directory.FilterContext
}

// DeliveryOptions holds the settings for sending messages.
type DeliveryOptions struct {
	handler.Options // the dispatcher sets Now and Logger
	// Beat gets the output of each synthetic result that was delivered; nil: such outputs are dropped.
	Beat  func(output string)
	Retry Retry
	// Attempts counts the crashes of the server during deliveries and evaluations of pipelines; nil: none counts.
	Attempts *attempt.CrashLog
}

// BatchOptions limits the queue of event changes, and the size and delay of database transactions.
type BatchOptions struct {
	Capacity     int64         // most bytes of waiting transitions; default: the capacity of the queue reactions
	Size         int           // most transitions in one transaction; default 2000
	Gather       time.Duration // pause between transactions unless a batch is full; default none
	GatherOpened time.Duration // the same pause if a problem opened; default Gather
}

// withDefaults replaces zero values of the options by their defaults.
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

// Names is the interface by which the dispatcher looks up names, handlers and check definitions. They return the names
// of nodes and checks, and the handlers that resources name.
type Names interface {
	route.Directory
	// NodeProperties returns the properties of a node, for variables in the spec of a handler.
	NodeProperties(id model.NodeID) model.PropertyValues
	NamespaceName(id model.NamespaceID) (name string, ok bool)
	// NamespaceHandlers lists the handlers of a namespace, which are notified of problems whose check names no handler.
	NamespaceHandlers(namespace string) []string
	Handler(namespace, name string) (*model.HandlerSpec, bool)
	// CheckDefinition returns the alert rules of a source in a definition; nil: unknown.
	CheckDefinition(id model.DefinitionID, instance string) *model.CheckDefinition
	// SourceUnit returns the record of a check or Template as it is declared now; nil: it is built in or deleted.
	SourceUnit(s model.Source) *directory.Unit
	// Keepalive returns the definition of a node's keepalive, with the handlers that the node names.
	Keepalive(node model.NodeID) *model.CheckDefinition
}

// definition returns the check definition (handlers, route) for an event's change, or nil for an unknown check. Its
// handlers, route and pipelines are the present values.
func definition(names Names, t *event.Transition) *model.CheckDefinition {
	if t.Source.Check() == model.KeepaliveCheck {
		return names.Keepalive(t.Node)
	}
	return names.CheckDefinition(t.Definition, t.Source.Instance)
}

// Replay reads the journal again and computes the event changes that history lacks. The changes (transitions) are in
// order per partition.
type Replay interface {
	// At returns the position of the replay. Before the first Read history has all transitions up to that position.
	At() journal.Position
	// Read reads on to the present end of the journal. It calls fn for every commit; fn must not keep ts.
	Read(ctx context.Context, fn func(at journal.Position, received int64, ts []event.Transition) error) (journal.Position, error)
	Close()
}

// Journal has the methods of *journal.Log by which the dispatcher measures how far history is behind.
type Journal interface {
	Head() journal.Position
	SizeAfter(p journal.Position) int64
}

// metrics holds the Prometheus metrics about the dispatcher's own work.
type metrics struct {
	recorded, repeated, recordFailed, rederived, replayed, unopened prometheus.Counter
	recordSeconds, deliverSeconds                                   prometheus.Histogram
	missed, attempts                                                *prometheus.CounterVec
	// Of pipelines.
	pipelineEvents, pipelinePassed, pipelineFailed prometheus.Counter
	pipelineSeconds                                prometheus.Histogram
}

// newMetrics makes the metrics of a dispatcher. With a registerer, the metrics are registered, too. lag returns how
// far history is behind, use the size of history.
func newMetrics(registerer prometheus.Registerer, lag func() Lag, use func() history.Usage) *metrics {
	factory := promauto.With(registerer)
	counterOpts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "muster", Subsystem: "dispatch", Name: name, Help: help}
	}
	counter := func(name, help string) prometheus.Counter { return factory.NewCounter(counterOpts(name, help)) }
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return factory.NewHistogram(prometheus.HistogramOpts{Namespace: "muster", Subsystem: "dispatch", Name: name, Help: help, Buckets: buckets})
	}
	gauge := func(name, help string, value func(Lag) float64) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "muster", Subsystem: "dispatch", Name: name, Help: help},
			func() float64 { return value(lag()) })
	}
	gauge("behind_seconds", "Age of the oldest change that history has not recorded. 0: history is complete.",
		func(l Lag) float64 { return l.Age.Seconds() })
	gauge("behind_bytes", "Bytes of journal since that change, which the journal must keep.", func(l Lag) float64 { return float64(l.Bytes) })
	gauge("behind_commits", "Commits of the journal since that change.", func(l Lag) float64 { return float64(l.Commits) })
	gauge("rederiving", "1 while the server reads changes from the journal again, because the queue overflowed.", func(l Lag) float64 {
		if l.Overflowed {
			return 1
		}
		return 0
	})
	for _, g := range []struct {
		name, help string
		value      func(history.Usage) float64
	}{
		{"bytes", "Bytes of rows in history: pages of history.db in use; on PostgreSQL the bytes of rows and their indexes, without free pages.", func(u history.Usage) float64 { return float64(u.Bytes) }},
		{"budget_bytes", "Maximum of these bytes: --history-budget, or the present size of the file on a full disk.", func(u history.Usage) float64 { return float64(u.Budget) }},
	} {
		factory.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "muster", Subsystem: "history", Name: g.name, Help: g.help}, func() float64 { return g.value(use()) })
	}
	factory.NewCounterFunc(prometheus.CounterOpts{Namespace: "muster", Subsystem: "history", Name: "evicted_total",
		Help: "Changes, closed problems and messages removed before their retention ended, to make room."}, func() float64 { return float64(use().Evicted) })
	return &metrics{
		recorded:     counter("transitions_total", "Changes recorded in history."),
		repeated:     counter("repeated_total", "Duplicate changes, which history already had (after a restart)."),
		recordFailed: counter("record_failed_total", "Failed writes of batches to the history store, which are retried."),
		unopened: counter("unopened_total",
			"Closed problems whose opening is missing in history although handlers should have received it."),
		missed: factory.NewCounterVec(counterOpts("missed_total", "Differences between history and events at the server's start, "+
			"by repair: opened and closed problems are notified late, adopted ones are only recorded."), []string{"done"}),
		rederived:       counter("rederived_total", "Overflows of the queue, after which the server reads changes from the journal again."),
		replayed:        counter("rederived_commits_total", "Commits of the journal read again after overflows."),
		recordSeconds:   histogram("record_seconds", "Duration of one history transaction.", prometheus.ExponentialBuckets(0.001, 2, 15)),
		attempts:        factory.NewCounterVec(counterOpts("delivery_attempts_total", "Delivery attempts, by outcome."), []string{"outcome"}),
		deliverSeconds:  histogram("delivery_seconds", "Duration of one delivery attempt.", prometheus.ExponentialBuckets(0.001, 2, 16)),
		pipelineEvents:  counter("pipeline_events_total", "Events passed to pipelines."),
		pipelinePassed:  counter("pipeline_passed_total", "Messages to the handlers of pipelines."),
		pipelineFailed:  counter("pipeline_failed_total", "Failed evaluations of filter expressions."),
		pipelineSeconds: histogram("pipeline_seconds", "Time to pass a batch of at most 500 events to pipelines.", prometheus.ExponentialBuckets(0.0001, 4, 10)),
	}
}
