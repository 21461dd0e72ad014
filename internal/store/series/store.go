package series

import (
	"errors"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/muster-fleet/muster/internal/journal"
)

// Names of labels of a series.
const (
	LabelMetric    = "__name__" // the name of the metric
	LabelItem      = "item"     // the whole key
	LabelNode      = "node"
	LabelNamespace = "namespace"
	LabelTemplate  = "template"
)

// Store keeps series of numeric values.
type Store interface {
	storage.Queryable

	// Appender returns the appender of one of several workers. Partition p belongs to worker p modulo their number. Call it
	// once for each worker.
	Appender(worker, workers int) Appender
	// Floor returns the last commit of a log whose values and those before it are on the disk; zero: none is.
	Floor(worker, workers int, log uint64) journal.Position
	// Stored returns the number of the last commit up to which all values of a partition are in the store, whichever workers
	// it had; common converts a position to the present log.
	Stored(partition int, common func(journal.Position) journal.Position) uint64
	// Sync writes all commits to the disk and raises the floors. A sync that failed fails until the store is opened again.
	Sync() error
	// Counts returns the counters since the store was opened.
	Counts() Counts
	Close() error
}

// Appender appends the values of one worker, commit by commit.
type Appender interface {
	// Append adds a value at a time in Unix ns to the transaction. Name is called if the series is not known by its
	// reference. A value that the store refuses is counted and gives no error.
	Append(s *Series, name func() labels.Labels, at int64, value float64) error
	// Commit ends the transaction with the position of its entries and a time in Unix ms. A transaction without values
	// writes nothing.
	Commit(p journal.Position, ms int64) error
	// Written returns the last commit of a log that the appender took.
	Written(log uint64) journal.Position
	// Restart ends the refusal after a failed commit. The caller replays the commits behind Written.
	Restart()
}

// Series is the reference of a series that its writer keeps. The zero value is a series that the store is asked for.
type Series struct {
	ref          storage.SeriesRef
	life         uint32 // of the appender that set the times
	given, taken int64  // time of the newest value in ms: as it came, and as it was stored
}

// Counts has the counters of a store.
type Counts struct {
	Values    uint64 // appended
	Moved     uint64 // by 1 ms, because the series has a value at that time
	Late      uint64 // refused: older than the window for late values
	Duplicate uint64 // refused: the series has another value at that time and at the next millisecond
	Unbounded uint64 // refused: the namespace has as many series as it may have
}

// ErrBehind is the error of an appender after a failed commit, until Restart.
var ErrBehind = errors.New("a commit of the series store failed; the journal keeps the values")

// errTooManySeries refuses a new series.
var errTooManySeries = errors.New("the namespace has too many series")

// place returns the time in ms for a value at a time in ns. A value in the millisecond of the one before it is moved.
func (s *Series) place(at int64) (ms int64, moved bool) {
	given := at / 1e6
	if given < s.given {
		return given, false // late
	}
	ms = given
	if s.taken != 0 && ms <= s.taken {
		ms, moved = s.taken+1, true
	}
	s.given, s.taken = given, ms
	return ms, moved
}

// Labels returns the labels of the series of an item.
func Labels(key, node, namespace, template string) labels.Labels {
	return labels.FromStrings(LabelMetric, MetricName(key), LabelItem, key, LabelNode, node, LabelNamespace, namespace, LabelTemplate, template)
}

// MetricName returns the name of the metric of an item key: the key without parameters, with `_` for each character that
// PromQL does not take in a name.
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
