package items

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/muster-fleet/muster/internal/api/op"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/store/series"
	"github.com/muster-fleet/muster/internal/testenv"
)

// countingStore wraps a time-series store in a test, and counts the reads.
type countingStore struct {
	series.Store
	reads int
}

// Querier counts one read, and returns a querier of the wrapped time-series store.
func (s *countingStore) Querier(from, to int64) (storage.Querier, error) {
	s.reads++
	return s.Store.Querier(from, to)
}

// TestCheckItemsAreFiltered lists a check's metric values with several filters, and expects only the matching
// items. It compares the items and bounds for each filter, and expects no read of the store for filters that
// select no numbers.
func TestCheckItemsAreFiltered(t *testing.T) {
	s := &countingStore{Store: testenv.Value(series.Open(t.TempDir(), series.Options{LateWindow: time.Hour}))(t)}
	defer s.Close()
	now := time.Unix(1_790_000_000, 0)
	for _, metric := range []string{"waiting", "waiting_max", "waiting_max_1h", "queue:waiting:avg5m", "running"} {
		item := "waiting"
		if metric == "running" {
			item = metric
		}
		l := labels.FromStrings(series.LabelMetric, metric, series.LabelItem, item, series.LabelCheck, "queue", series.LabelNode, "web-1", series.LabelNamespace, "default")
		if got := s.Insert(0, &series.Series{}, l, now.UnixMilli(), 1); got != series.Stored {
			t.Fatalf("%s: outcome %d", l, got)
		}
	}
	q := &itemRequest{op.Request{View: &view.View{Stores: view.Stores{Series: s, Now: func() time.Time { return now }}}}, &operations{}}
	for _, c := range []struct {
		filter itemFilter
		want   []string
		reads  int
	}{
		{itemFilter{}, []string{"running", "waiting max"}, 1},
		{itemFilter{key: "waiting", state: "ok"}, []string{"waiting max"}, 1},
		{itemFilter{template: "linux"}, nil, 0},
		{itemFilter{state: "unsupported"}, nil, 0},
	} {
		s.reads = 0
		rows := testenv.Value(q.checkItemsOf(t.Context(), 7, "default", "web-1", &c.filter))(t)
		var got []string
		for _, row := range rows {
			text := row.Key
			for _, b := range row.Bounds {
				text += " " + b.Kind
			}
			got = append(got, text)
		}
		if slices.Sort(got); !slices.Equal(got, c.want) || s.reads != c.reads {
			t.Errorf("%+v: items %q after %d reads, want %q after %d", c.filter, got, s.reads, c.want, c.reads)
		}
	}
}
