package series

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/muster-fleet/muster/internal/testenv"
)

// aggregate returns one kind of hourly values of a series, such as the averages.
func aggregate(t *testing.T, s storage.Queryable, of string) (points []point) {
	t.Helper()
	q, err := s.Querier(math.MinInt64, math.MaxInt64)
	testenv.NoError(t, err)
	defer q.Close()
	set := q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchEqual, LabelMetric, "system_cpu_load"), labels.MustNewMatcher(labels.MatchEqual, LabelAggregate, of))
	for set.Next() {
		for it := set.At().Iterator(nil); it.Next() == chunkenc.ValFloat; {
			ms, v := it.At()
			points = append(points, point{ms - start, v})
		}
	}
	testenv.NoError(t, set.Err())
	return points
}

// TestHourlyTrends stores values for two days with a short retention, and expects hourly aggregates of deleted values.
// The retention is 12 hours, and one value is late. The average has the labels of the series. A restart, or a crash
// during a deletion, changes nothing.
func TestHourlyTrends(t *testing.T) {
	dir := t.TempDir()
	o := Options{Retention: 12 * time.Hour, TrendRetention: 30 * 24 * time.Hour, LateWindow: 3 * time.Hour}
	s := open(t, dir, o)
	var ref, other Series
	prefix := labels.FromStrings(LabelMetric, "system_cpu_load", "abc", "1", LabelNode, "web-1") // labels that sort around those of load
	for minute := range 48 * 60 {
		add(t, s, &ref, load, int64(minute)*60e9, float64(minute%60))
		s.Append(1, &other, func() labels.Labels { return prefix }, start*1e6+int64(minute)*60e9, float64(minute/60))
		if minute == 121 {
			add(t, s, &ref, load, 90*60e9+30e9, 1000)
		}
	}
	testenv.NoError(t, s.Sync(0))
	maintain(t, s)
	check := func() {
		t.Helper()
		list := read(t, s)[load.String()]
		raw := slices.IndexFunc(list, func(p point) bool { return p.ms%3_600_000 != 0 })
		if raw < 24 || len(list) < raw+12*60 {
			t.Fatalf("%d averages before %d values", raw, len(list)-raw)
		}
		raw-- // the first value is at a full hour, too
		for hour, p := range list[:raw] {
			want := 29.5
			if hour == 1 {
				want = (29.5*60 + 1000) / 61
			}
			if p != (point{int64(hour) * 3_600_000, want}) {
				t.Errorf("hour %d: average %v, want %v", hour, p, want)
			}
		}
		if got := read(t, s)[prefix.String()]; len(got) < raw || got[5] != (point{5 * 3_600_000, 5}) {
			t.Errorf("the other series: %d values", len(got))
		}
		for of, want := range map[string][2]float64{"count": {60, 61}, "max": {59, 1000}, "min": {0, 0}} {
			both := aggregate(t, s, of)
			points := slices.DeleteFunc(both, func(p point) bool { return p.ms >= 2*3_600_000 })
			if !slices.ContainsFunc(points, func(p point) bool { return p == point{0, want[0]} }) || !slices.ContainsFunc(points, func(p point) bool { return p == point{3_600_000, want[1]} }) || len(points) != 4 {
				t.Errorf("%s: %v", of, points)
			}
		}
		q, err := s.Querier(math.MinInt64, math.MaxInt64)
		testenv.NoError(t, err)
		defer q.Close()
		names, _, err := q.LabelNames(context.Background(), nil)
		if err != nil || slices.Contains(names, LabelAggregate) {
			t.Errorf("label names %v, %v", names, err)
		}
	}
	check()
	s = restart(t, s, func() Store { return open(t, dir, o) }).(*db)
	check()
	// A crash between the write of trends and the deletion leaves the block, and the next start writes the trends again.
	b := s.view.blocks[0]
	newest := s.view.blocks[len(s.view.blocks)-1].Meta().MaxTime
	testenv.NoError(t, s.writeTrends(s.view.blocks[:1], newest))
	before := aggregate(t, s, "max")
	testenv.NoError(t, s.writeTrends(s.view.blocks[:1], newest))
	if after := aggregate(t, s, "max"); !slices.Equal(before, after) {
		t.Errorf("trends of %s twice: %v, before %v", b.Meta().ULID, after, before)
	}
	testenv.NoError(t, s.Close())
}

// TestTrendsRetention expects hourly trends to be deleted after their retention, and no trends with retention zero.
func TestTrendsRetention(t *testing.T) {
	for _, retention := range []time.Duration{0, 36 * time.Hour} {
		dir := t.TempDir()
		s := open(t, dir, Options{Retention: 12 * time.Hour, TrendRetention: retention, LateWindow: time.Hour})
		var ref Series
		for hour := range 96 {
			add(t, s, &ref, load, int64(hour)*int64(time.Hour), float64(hour))
			if hour%6 == 5 {
				testenv.NoError(t, s.Sync(0))
				maintain(t, s)
			}
		}
		first := read(t, s)[load.String()][0].value
		if retention == 0 && first < 70 || retention > 0 && (first < 42 || first > 62) {
			t.Errorf("retention %s: the oldest value is of hour %v", retention, first)
		}
		_, err := os.Stat(filepath.Join(dir, trendsFolder))
		if os.IsNotExist(err) != (retention == 0) {
			t.Errorf("retention %s: %v", retention, err)
		}
		testenv.NoError(t, s.Close())
	}
}
