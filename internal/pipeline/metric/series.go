package metric

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
	"github.com/muster-fleet/muster/internal/store/series"
)

// SeriesOptions is the connection of a View with the series store.
type SeriesOptions struct {
	Store  series.Store                                // nil: values are not stored
	Names  func(model.NodeID) (node, namespace string) // for the labels of a new series
	Common func(journal.Position) journal.Position     // journal.Log.CommonPosition
	held   int                                         // most values that wait for the store per worker; default maxHeldSamples
}

const (
	// maxHeldSamples bounds the values of a worker that wait while the store refuses. Beyond it only the journal has them.
	maxHeldSamples = 1 << 20
	// seriesPause is the pause between two syncs, and before a refused commit is tried again.
	seriesPause = time.Second
)

// sample is a value on its way to the series store.
type sample struct {
	series   *series.Series
	unit     *unitState
	position int
	node     model.NodeID
	at       int64
	value    float64
}

// seriesWriter appends the values of one worker to the series store.
type seriesWriter struct {
	series.Appender
	stored  []uint64 // by partition: commits up to this number are in the store. nil: not asked yet
	samples []sample // of this commit, behind the samples of refused commits
	retryAt int64    // receive time of the commit that tries again; zero: the store refused nothing
	left    bool     // too many values waited: the next start appends them
}

// enter asks how far the partitions are stored, at the first commit.
func (w *seriesWriter) enter(o *SeriesOptions) {
	if w.Appender != nil && w.stored == nil {
		w.stored = make([]uint64, model.Partitions)
		for p := range w.stored {
			w.stored[p] = o.Store.Stored(p, o.Common)
		}
	}
}

// keepSample adds a value to the samples of the commit. A commit that is stored already, which a replay applies again, adds
// none; nor does text.
func (w *metricApplier) keepSample(n uint32, u *unitState, position int, at int64, value item.Value) {
	if w.series.Appender == nil || w.series.left || value.Kind() == item.TextValue || w.Position.Number <= w.series.stored[w.p.ID] {
		return
	}
	f := value.Float()
	if math.IsNaN(f) {
		f = math.NaN() // PromQL takes one of the NaNs for the end of a series
	}
	w.series.samples = append(w.series.samples, sample{&u.slots[position].series, u, position, w.p.Node(n).ID, at, f})
}

// storeSamples commits the samples to the series store. A commit that the store refuses waits, and is tried again with a
// later one; results do not wait.
func (w *metricApplier) storeSamples() {
	s := &w.series
	if s.Appender == nil || s.left || w.Position.Number <= s.Written(w.Position.Log).Number || w.Received < s.retryAt && len(s.samples) <= w.view.opts.Series.held {
		return
	}
	err := w.appendSamples()
	if err == nil {
		s.samples, s.retryAt = s.samples[:0], 0
		w.view.seriesFaults.Delete(w.Number())
		return
	}
	s.Restart()
	s.retryAt = w.Received + int64(seriesPause)
	if len(s.samples) > w.view.opts.Series.held {
		s.left, s.samples = true, nil
		err = fmt.Errorf("the values since commit %d are only in the journal: free disk space, then restart the server: %w", s.Written(w.Position.Log).Number+1, err)
	}
	w.view.seriesFaults.Store(w.Number(), fmt.Errorf("series store takes no values, and the journal keeps them: %w", err))
}

// appendSamples appends all samples in one transaction.
func (w *metricApplier) appendSamples() error {
	o := &w.view.opts.Series
	for i := range w.series.samples {
		s := &w.series.samples[i]
		name := func() labels.Labels {
			node, namespace := o.Names(s.node)
			return series.Labels(s.unit.Items[s.position].Key, node, namespace, s.unit.Name)
		}
		if err := w.series.Append(s.series, name, s.at, s.value); err != nil {
			return err
		}
	}
	return w.series.Commit(w.Position, w.Received/1e6)
}

// SyncSeries syncs the series store each second until ctx ends, and once more then.
func (v *View) SyncSeries(ctx context.Context, log *slog.Logger) error {
	for failed := false; ; {
		ended := pause.For(ctx, seriesPause) != nil
		if err := v.opts.Series.Store.Sync(); err != nil {
			if v.seriesFaults.Store("sync", err); !failed {
				log.Error("series store cannot be synced; the journal keeps its values", "err", err)
			}
			failed = true
		}
		if ended {
			return nil
		}
	}
}

// SeriesFault returns why the series store lacks values that only the journal has; nil: it lacks none.
func (v *View) SeriesFault() (err error) {
	v.seriesFaults.Range(func(_, e any) bool {
		err = errors.Join(err, e.(error))
		return true
	})
	return err
}

// SeriesFloor returns the last commit of a log up to which all values are in the series store and on the disk.
func (v *View) SeriesFloor(log uint64) journal.Position {
	lowest, workers := journal.Position{Log: log, Number: math.MaxUint64}, v.shard.Workers()
	for worker := range workers {
		lowest.Number = min(lowest.Number, v.opts.Series.Store.Floor(worker, workers, log).Number)
	}
	return lowest
}

// WaitSeries returns when all values up to a commit, which is applied, are in the series store and on the disk; an error if they
// cannot get there now.
func (v *View) WaitSeries(at journal.Position) error {
	if v.opts.Series.Store == nil || v.SeriesFloor(at.Log).Number >= at.Number {
		return nil
	}
	if err := errors.Join(v.opts.Series.Store.Sync(), v.SeriesFault()); err != nil {
		return err
	}
	if floor := v.SeriesFloor(at.Log); floor.Number < at.Number {
		return fmt.Errorf("series store is at commit %d, not at %d", floor.Number, at.Number)
	}
	return nil
}
