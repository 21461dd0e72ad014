package metric

import (
	"context"
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
	"github.com/muster-fleet/muster/internal/wire"
)

// newSeriesView returns an empty metric view whose numbers go to a series store. With live it is a second view beside
// the view live, and stores nothing.
func newSeriesView(s series.Store, live *View) *testView {
	definitions := func(id model.DefinitionID) *model.Definition { return testDefinition(id) }
	of := shard.New(shard.Options{Workers: 1, Definitions: definitions})
	o := SeriesOptions{Store: s, Live: live, Names: func(model.NodeID) (string, string) { return "web-1", "default" }}
	return &testView{View: New(of, Options{Definitions: definitions, Series: o}), shard: of}
}

// openSeries opens a series store.
func openSeries(t testing.TB, dir string) series.Store {
	t.Helper()
	s, err := series.Open(dir, series.Options{LateWindow: time.Hour})
	testenv.NoError(t, err)
	return s
}

// storedValues reads the values of the item "load" from the series store.
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

// wantStored fails the test unless the series store has exactly the expected values of the item "load".
func wantStored(t *testing.T, s series.Store, want ...float64) {
	t.Helper()
	if got := storedValues(t, s); !slices.Equal(got, want) {
		t.Fatalf("stored %v, want %v", got, want)
	}
}

// TestValuesAreStoredOnce restarts from snapshots and journal, and expects each number once in the series store. It
// expects no texts. A restart from a snapshot and the commits since stores each value once, also from a snapshot of a
// second view that is behind the live one.
func TestValuesAreStoredOnce(t *testing.T) {
	for second := range 2 {
		dir := t.TempDir()
		s := openSeries(t, dir)
		v := newSeriesView(s, nil)
		commits := []*testCommit{
			{1, [][]byte{v.values(5, item.FromFloat(1), item.FromUnsigned(10))}},
			{2, [][]byte{v.values(5, item.FromUnsigned(2))}},
			{3, nil},
			{4, [][]byte{v.values(5, item.FromFloat(4))}},
			{5, [][]byte{v.values(5, item.FromFloat(5))}},
		}
		for _, c := range commits[:4] {
			testenv.NoError(t, v.shard.Apply(c))
		}
		wantStored(t, s, 1, 2, 4)
		saved := v
		if second == 1 {
			saved = newSeriesView(nil, v.View)
			testenv.NoError(t, saved.shard.Apply(commits[0]))
		}
		var bodies [model.Partitions][]byte
		var at [model.Partitions]journal.Position
		for p := range model.Partitions {
			bodies[p], at[p] = saved.shard.Snapshot(model.Partition(p), nil)
			testenv.NoError(t, s.Sync(model.Partition(p)))
		}
		testenv.NoError(t, s.Close())

		s = openSeries(t, dir)
		v = newSeriesView(s, nil)
		for p := range model.Partitions {
			testenv.NoError(t, v.shard.Restore(model.Partition(p), at[p], bodies[p]))
		}
		for _, c := range commits {
			testenv.NoError(t, v.shard.Apply(c))
		}
		wantStored(t, s, 1, 2, 4, 5)
		if c := s.Counts(); c.Values != 1 {
			t.Errorf("counts after the replay %+v", c)
		}
		testenv.NoError(t, s.Close())
	}
}

// TestEditedTemplateKeepsSeries edits a Template and expects its new values in the existing series.
func TestEditedTemplateKeepsSeries(t *testing.T) {
	was := compile(testDefinition(1).AsTemplate(), "")
	old := newTemplateState(was, 0)
	s := openSeries(t, t.TempDir())
	defer s.Close()
	k, _ := old.ItemIndex("load")
	s.Append(0, &old.slots[k].series, func() labels.Labels { return series.Labels("load", "web-1", "default", "t") }, 1, 1)
	if u := transferState(was, old, 0); u.slots[k].series != old.slots[k].series || u.slots[k].series == (series.Series{}) {
		t.Error("the series is looked up again")
	}
}

// TestPrometheusSamplesAreStored applies records of samples repeatedly, and expects each sample once in the store. The
// first record comes twice, as if a sender repeated it, and all come again as if the server had restarted. Each sample
// is stored once.
func TestPrometheusSamplesAreStored(t *testing.T) {
	s := openSeries(t, t.TempDir())
	defer s.Close()
	v := newSeriesView(s, nil)
	record := func(values ...float64) []byte {
		var b wire.SampleBlock
		of := []wire.SeriesLabel{{Name: series.LabelMetric, Value: "load"}, {Name: series.LabelItem, Value: "load"}, {Name: series.LabelNode, Value: "web-1"}}
		for i, value := range values {
			b.Add(of, []wire.Sample{{Ms: 1_000_000 + int64(i), Value: value}})
		}
		return wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordSamples, Samples: &wire.Samples{Block: b.Append(nil)}})
	}
	commits := []*testCommit{{1, [][]byte{record(1, 2)}}, {2, [][]byte{record(1, 2, 3)}}}
	for range 2 {
		for _, c := range commits {
			testenv.NoError(t, v.shard.Apply(c))
		}
		wantStored(t, s, 1, 2, 3)
	}
}
