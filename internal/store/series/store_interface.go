package series

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
)

// Names of labels of a series.
const (
	LabelMetric    = "__name__" // the name of the metric
	LabelItem      = "item"     // the whole key
	LabelNode      = "node"
	LabelNamespace = "namespace"
	LabelTemplate  = "template"
	LabelCheck     = "check" // of numbers in results of a check
)

// Store is a store of numeric time series. One goroutine at a time appends to a partition, encodes or decodes it. One
// writes its files, also while another one appends.
type Store interface {
	storage.Queryable

	// Append adds a value at a time in Unix ns to a series of a partition. It calls name if s is new or its series has left
	// the head; the labels stay the caller's. It returns the time in Unix ms under which the store has the value; ok is false if it
	// refuses and counts the value.
	Append(p model.Partition, s *Series, name func() labels.Labels, at int64, value float64) (ms int64, ok bool)
	// Insert adds a value at a time in Unix ms to a series of a partition, bit by bit. A second value of the series at that time
	// is left out and counted. s caches the series between calls with the same labels, which stay the caller's.
	Insert(p model.Partition, s *Series, l labels.Labels, ms int64, value float64) Outcome
	// WriteChunks writes the full chunks of a partition to files. Snapshots that follow name them by their offsets.
	WriteChunks(p model.Partition)
	// Encode appends the head of a partition to a snapshot, with the full chunks that no file has. It waits for no disk. The
	// snapshot counts when Sync has returned without an error.
	Encode(p model.Partition, dst []byte) []byte
	// Decode fills the empty head of a partition from a snapshot.
	Decode(p model.Partition, d Decoder)
	// Sync makes the files durable that the last Encode of a partition named.
	Sync(p model.Partition) error
	// Run writes blocks, merges and deletes them until ctx ends. It begins when all partitions are decoded.
	Run(ctx context.Context)
	// SeriesCount returns the number of series in the head of a namespace. Series of bounds do not count.
	SeriesCount(namespace string) int
	// Trouble returns why the store cannot write its files; nil: it can.
	Trouble() error
	// Counts returns the counters since the store was opened.
	Counts() Counts
	Close() error
}

// Decoder reads a partition's recent values from a snapshot, for the series store. *shard.Decoder implements it.
type Decoder interface {
	Byte() byte
	Uint() uint64
	Int() int64
	Fixed64() uint64
	Bytes() []byte
	Count() int
	Fail(element string)
	Err() error
}

// Series is a writer's handle for a series, which caches the search by labels. The zero value is a new one,
// which Append looks up by its labels.
type Series struct{ of *headSeries }

// Labels returns the labels of the series. Call it only after Append, because the zero value refers to no series yet.
func (s *Series) Labels() labels.Labels { return s.of.labels }

// IsRefused reports whether the limit of the namespace refused the series when its last value came.
func (s *Series) IsRefused() bool { return s.of != nil && s.of.refused }

// Outcome says whether Insert stored a value, or why not.
type Outcome uint8

// Outcomes of Insert.
const (
	Stored        Outcome = iota
	Doubled               // the series has a value at that time
	Late                  // the value is older than the window for late values
	Dense                 // the series has too many values at that time
	NamespaceFull         // the series is new, and its namespace has as many series as it may have
	CheckFull             // the series is new, and its check has as many series on the node as it may have
)

// Counts has the counters of a store, such as refused values.
type Counts struct {
	Values    uint64 // appended
	Moved     uint64 // by 1 ms, because the series has a value at that time
	Doubled   uint64 // left out: Insert found a value at that time
	Late      uint64 // refused: older than the window for late values
	Dense     uint64 // refused: the series has too many values at that time
	Unbounded uint64 // refused: the namespace has as many series as it may have
	Crowded   uint64 // refused: the check has as many series on the node as it may have
	Unchecked uint64 // late, without a look whether the series has a value at that time: a query may return one of both
}

// register registers the counters of a store as Prometheus metrics.
func register(s Store, r prometheus.Registerer) (err error) {
	for _, m := range [...]struct {
		name, reason, help string
		value              func(Counts) uint64
	}{
		{"values_total", "", "Values appended to the series store.", func(c Counts) uint64 { return c.Values }},
		{"moved_total", "", "Values moved by 1 ms, because their series has a value at that time.", func(c Counts) uint64 { return c.Moved }},
		{"refused_total", "doubled", "Values that the series store refused.", func(c Counts) uint64 { return c.Doubled }},
		{"refused_total", "late", "Values that the series store refused.", func(c Counts) uint64 { return c.Late }},
		{"refused_total", "dense", "Values that the series store refused.", func(c Counts) uint64 { return c.Dense }},
		{"refused_total", "series", "Values that the series store refused.", func(c Counts) uint64 { return c.Unbounded }},
		{"refused_total", "check", "Values that the series store refused.", func(c Counts) uint64 { return c.Crowded }},
		{"late_unchecked_total", "", "Late values that may share their time with another value of the series: too many came at once to look.", func(c Counts) uint64 { return c.Unchecked }},
	} {
		o := prometheus.CounterOpts{Namespace: "muster", Subsystem: "series", Name: m.name, Help: m.help}
		if m.reason != "" {
			o.ConstLabels = prometheus.Labels{"reason": m.reason}
		}
		err = errors.Join(err, r.Register(prometheus.NewCounterFunc(o, func() float64 { return float64(m.value(s.Counts())) })))
	}
	return err
}

// Options has the settings of a store, such as how long values are kept.
type Options struct {
	FS             disk.FS       // of the head; default disk.OS{}
	Range          time.Duration // of a block of the head; default 2h
	Retention      time.Duration // blocks that are older are deleted; zero: none is
	MaxBytes       int64         // the oldest blocks are deleted beyond this size; zero: none is
	TrendRetention time.Duration // of hourly trends of deleted blocks; zero: none are kept
	LateWindow     time.Duration // how much older than the newest value of its partition a value may be
	// MaxSeries returns the limit of series of a namespace in the head; zero and a nil function: no limit. New series and values of
	// bounds ask for it. Bounds of numbers get the part that values leave.
	MaxSeries      func(namespace string) int
	MaxCheckSeries int // of numbers in results of one check on one node, in the head; zero: no limit
	Logger         *slog.Logger
	Registry       prometheus.Registerer // nil: no metrics
}

// Labels returns the labels under which the values of an item are stored as a series.
func Labels(key, node, namespace, template string) labels.Labels {
	b := labels.NewScratchBuilder(5)
	AddLabels(&b, key, node, namespace, template)
	return b.Labels()
}

// AddLabels adds the labels of Labels to a builder, in the order of their names.
func AddLabels(b *labels.ScratchBuilder, key, node, namespace, template string) {
	b.Add(LabelMetric, MetricName(key))
	b.Add(LabelItem, key)
	b.Add(LabelNamespace, namespace)
	b.Add(LabelNode, node)
	b.Add(LabelTemplate, template)
}

// BoundKinds are the kinds of bounds of a number in results of a check, in the order in which people read them.
var BoundKinds = [...]string{"warning", "critical", "unknown", "min", "max"}

// PerformanceDataKind reports whether a series has performance data of a check, as value or as threshold. A
// number has the metric name of its item. A bound has this name and its kind, one of BoundKinds. The kind of a
// number is empty. Series of recording rules may have the same labels, and are neither.
func PerformanceDataKind(l labels.Labels) (kind string, ok bool) {
	item := l.Get(LabelItem)
	if item == "" || l.Get(LabelCheck) == "" {
		return "", false
	}
	suffix, ok := strings.CutPrefix(l.Get(LabelMetric), MetricName(item))
	if !ok || suffix == "" {
		return "", ok
	}
	kind, ok = strings.CutPrefix(suffix, "_")
	return kind, ok && slices.Contains(BoundKinds[:], kind)
}

// isBound reports whether a series has a threshold or other bound from a check's performance data.
func isBound(l labels.Labels) bool {
	kind, ok := PerformanceDataKind(l)
	return ok && kind != ""
}

// MetricName converts an item key to a metric name that PromQL allows. It is the key without parameters, with `_` in
// place of each character that PromQL does not allow in names.
func MetricName(key string) string {
	name, _, _ := strings.Cut(key, "[")
	name = strings.Map(func(r rune) rune {
		if r == '_' || r == ':' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, name)
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name
}
