package metric

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/store/series"
	"github.com/muster-fleet/muster/internal/testenv"
)

// fullStore is a series store whose commits fail while it is full.
type fullStore struct {
	series.Store
	full bool
}

func (s *fullStore) Appender(worker, workers int) series.Appender {
	return &fullAppender{s.Store.Appender(worker, workers), s}
}

type fullAppender struct {
	series.Appender
	store *fullStore
}

func (a *fullAppender) Append(to *series.Series, name func() labels.Labels, at int64, value float64) error {
	if a.store.full {
		return errors.New("no space left on device")
	}
	return a.Appender.Append(to, name, at, value)
}

// newSeriesView returns an empty view that appends to a store.
func newSeriesView(s series.Store, held int) *testView {
	definitions := func(id model.DefinitionID) *model.Definition { return testDefinition(id) }
	of := shard.New(shard.Options{Workers: 1, Definitions: definitions})
	o := SeriesOptions{
		Store: s, held: held, Names: func(model.NodeID) (string, string) { return "web-1", "default" },
		Common: func(p journal.Position) journal.Position { return p },
	}
	return &testView{View: New(of, Options{Definitions: definitions, Series: o}), shard: of}
}

// openSeries opens a series store.
func openSeries(t *testing.T, dir string) series.Store {
	t.Helper()
	s, err := series.Open(dir, series.Options{LateWindow: time.Hour})
	testenv.NoError(t, err)
	return s
}

// storedValues returns the values of the item load.
func storedValues(t *testing.T, s series.Store) (list []float64) {
	t.Helper()
	q, err := s.Querier(math.MinInt64, math.MaxInt64)
	testenv.NoError(t, err)
	defer q.Close()
	set := q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchEqual, series.LabelItem, "load"), labels.MustNewMatcher(labels.MatchEqual, series.LabelNode, "web-1"))
	for set.Next() {
		it := set.At().Iterator(nil)
		for it.Next() == chunkenc.ValFloat {
			_, v := it.At()
			list = append(list, v)
		}
	}
	testenv.NoError(t, set.Err())
	return list
}

// wantStored compares the values of the item load.
func wantStored(t *testing.T, s series.Store, want ...float64) {
	t.Helper()
	if got := storedValues(t, s); !slices.Equal(got, want) {
		t.Fatalf("stored %v, want %v", got, want)
	}
}

// TestValuesAreStoredOnce stores numbers, not text, and a replay after a restart stores none again.
func TestValuesAreStoredOnce(t *testing.T) {
	dir := t.TempDir()
	s := openSeries(t, dir)
	v := newSeriesView(s, 0)
	commits := []*testCommit{
		{1, [][]byte{v.values(5, item.FromFloat(1), item.FromUnsigned(10))}},
		{2, [][]byte{v.values(5, item.FromUnsigned(2))}},
		{3, nil},
		{4, [][]byte{v.values(5, item.FromFloat(4))}},
	}
	for _, c := range commits[:3] {
		testenv.NoError(t, v.shard.Apply(c))
	}
	wantStored(t, s, 1, 2)
	if p := v.SeriesFloor(1); p.Number != 0 {
		t.Errorf("floor %v before a sync", p)
	}
	testenv.NoError(t, v.WaitSeries(journal.Position{Log: 1, Number: 3}))
	testenv.NoError(t, s.Close())

	s = openSeries(t, dir)
	defer s.Close()
	v = newSeriesView(s, 0)
	for _, c := range commits {
		testenv.NoError(t, v.shard.Apply(c))
	}
	wantStored(t, s, 1, 2, 4)
	if c := s.Counts(); c.Values != 1 {
		t.Errorf("counts after the replay %+v", c)
	}
}

// TestFullSeriesStore keeps the values that a full store refuses, and stores them when it takes values again.
func TestFullSeriesStore(t *testing.T) {
	dir := t.TempDir()
	s := &fullStore{Store: openSeries(t, dir)}
	v := newSeriesView(s, 2)
	var commits []*testCommit
	apply := func(value float64) {
		c := &testCommit{uint64(len(commits) + 1), [][]byte{v.values(5, item.FromFloat(value))}}
		commits = append(commits, c)
		testenv.NoError(t, v.shard.Apply(c))
	}
	apply(1)
	s.full = true
	apply(2)
	if v.SeriesFault() == nil || v.Items(7)[0].Value != item.FromFloat(2) {
		t.Errorf("fault %v, items %v", v.SeriesFault(), v.Items(7))
	}
	s.full = false
	apply(3)
	wantStored(t, s, 1, 2, 3)
	testenv.NoError(t, v.SeriesFault())

	s.full = true
	for i := range 4 {
		apply(float64(4 + i))
	}
	s.full = false
	apply(8)
	wantStored(t, s, 1, 2, 3)
	testenv.NoError(t, s.Sync())
	if err := v.WaitSeries(journal.Position{Log: 1, Number: 8}); err == nil || v.SeriesFloor(1).Number != 3 {
		t.Errorf("snapshots would pass: %v, floor %v", err, v.SeriesFloor(1))
	}
	testenv.NoError(t, s.Close())

	again := openSeries(t, dir)
	defer again.Close()
	v = newSeriesView(again, 0)
	for _, c := range commits {
		testenv.NoError(t, v.shard.Apply(c))
	}
	wantStored(t, again, 1, 2, 3, 4, 5, 6, 7, 8)
}
