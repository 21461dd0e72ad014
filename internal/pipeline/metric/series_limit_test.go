package metric

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/series"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestRefusedSeriesMakeItemsUnsupported stores two items in a namespace with one series, and expects one unsupported item.
// A higher limit ends that. The refusal changes no state: a view without a limit has the same hash. A
// restart from a snapshot refuses the next value again.
func TestRefusedSeriesMakeItemsUnsupported(t *testing.T) {
	dir, limit := t.TempDir(), 1
	open := func() series.Store {
		return testenv.Value(series.Open(dir, series.Options{LateWindow: time.Hour, MaxSeries: func(string) int { return limit }}))(t)
	}
	s, free := open(), openSeries(t, t.TempDir())
	defer free.Close()
	v, unlimited := newSeriesView(s, nil), newSeriesView(free, nil)
	number := uint64(0)
	send := func() {
		t.Helper()
		number++
		c := &testCommit{number, [][]byte{unlimited.values(8, item.FromFloat(1), item.FromFloat(float64(number)))}}
		testenv.NoError(t, v.shard.Apply(c))
		testenv.NoError(t, unlimited.shard.Apply(c))
	}
	expect := func(reason string) {
		t.Helper()
		for _, i := range v.Items(7) {
			if want := map[string]string{"load": reason}[i.Key]; i.Reason != want {
				t.Errorf("after %d values, item %s has the reason %q, want %q", number, i.Key, i.Reason, want)
			}
			if i.Key == "load" && i.Value.Float() != float64(number) {
				t.Errorf("after %d values, the last value is %s", number, i.Value)
			}
		}
		v.EachItem(7, func(of *model.Item, _ int64, unsupported bool) {
			if unsupported != (of.Key == "load" && reason != "") {
				t.Errorf("after %d values, item %s unsupported: %t", number, of.Key, unsupported)
			}
		})
	}
	const full = "its numbers are not stored: namespace default has its limit of series (spec.limits.series)"
	send()
	expect(full)
	send()
	expect(full)
	if n := s.SeriesCount("default"); n != 1 || s.Counts().Unbounded != 2 {
		t.Errorf("%d series, counts %+v", n, s.Counts())
	}
	body, at := v.shard.Snapshot(3, nil)
	testenv.NoError(t, s.Sync(3))
	testenv.NoError(t, s.Close())
	s = open()
	v = newSeriesView(s, nil)
	testenv.NoError(t, v.shard.Restore(3, at, body))
	send()
	expect(full)
	limit = 2
	expect(full)
	send()
	expect("")
	wantStored(t, s, 4)
	items := func(v *testView) (text string) {
		for _, n := range v.partitions[3].SortedNodes() {
			for _, u := range v.partitions[3].nodes[n].units {
				text += fmt.Sprintf("%x ", u.encode(nil))
			}
		}
		return text
	}
	if got, want := items(v), items(unlimited); got == "" || got != want {
		t.Errorf("state of items\n%s\nwithout a limit\n%s", got, want)
	}
	testenv.NoError(t, s.Close())
}

// TestItemsWithoutHistoryNeedNoSeries switches off the history of an item that the limit of series refused. The test
// expects a supported item.
func TestItemsWithoutHistoryNeedNoSeries(t *testing.T) {
	s := testenv.Value(series.Open(t.TempDir(), series.Options{LateWindow: time.Hour, MaxSeries: func(string) int { return 1 }}))(t)
	defer s.Close()
	v := newSeriesView(s, nil)
	for number, c := range []struct {
		definition model.DefinitionID
		refused    bool
	}{{8, true}, {14, false}} {
		testenv.NoError(t, v.shard.Apply(&testCommit{uint64(number + 1), [][]byte{v.values(c.definition, item.FromFloat(1), item.FromFloat(2))}}))
		for _, i := range v.Items(7) {
			if i.Key == "load" && (i.Reason != "") != c.refused {
				t.Errorf("with definition %d, item load has the reason %q", c.definition, i.Reason)
			}
		}
	}
}

// TestRefusedSeriesAreReported exceeds the limit of series with values and with samples of remote write. It expects one
// report of each namespace in a second, with the node of the last value.
func TestRefusedSeriesAreReported(t *testing.T) {
	s := testenv.Value(series.Open(t.TempDir(), series.Options{LateWindow: time.Hour, MaxSeries: func(string) int { return 1 }}))(t)
	defer s.Close()
	v := newSeriesView(s, nil)
	var b wire.SampleBlock
	for _, name := range []string{"a", "b"} {
		b.Add([]wire.SeriesLabel{{Name: series.LabelMetric, Value: name}, {Name: series.LabelNamespace, Value: "other"}}, []wire.Sample{{Ms: 1000, Value: 1}})
	}
	samples := wire.AppendRecord(nil, &wire.Record{Kind: wire.RecordSamples, Samples: &wire.Samples{Block: b.Append(nil)}})
	for number := uint64(1); number <= 3; number++ {
		testenv.NoError(t, v.shard.Apply(&testCommit{number, [][]byte{v.values(8, item.FromFloat(1), item.FromFloat(2)), samples}}))
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		reports := map[string]int{}
		testenv.NoError(t, v.ReportRefusedSeries(ctx, func(namespace string, node model.NodeID) {
			reports[fmt.Sprint(namespace, " ", node)]++
		}))
		if got := fmt.Sprint(reports); got != "map[default 7:1 other 0:1]" {
			t.Errorf("reports %s", got)
		}
	})
}
