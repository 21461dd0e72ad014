package series

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/testenv"
)

// storeOpeners returns one function per implementation of Store, which opens a store in a folder. The function
// finds the values of an earlier store.
func storeOpeners() map[string]func(t *testing.T, dir string, o Options) Store {
	disks := map[string]*memoryStoreValues{}
	return map[string]func(*testing.T, string, Options) Store{
		"head": func(t *testing.T, dir string, o Options) Store {
			t.Helper()
			s, err := Open(dir, o)
			testenv.NoError(t, err)
			return s
		},
		"memory": func(_ *testing.T, dir string, o Options) Store {
			if disks[dir] == nil {
				disks[dir] = &memoryStoreValues{}
			}
			return openMemoryStore(disks[dir], o)
		},
	}
}

// runOnEachStore runs a test on the real store and on the simple store in memory.
func runOnEachStore(t *testing.T, test func(t *testing.T, open func(Options) Store)) {
	for name, open := range storeOpeners() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			test(t, func(o Options) Store { return open(t, dir, o) })
		})
	}
}

// TestConformKeepsValues stores ordered, late and extreme values, and expects each value, also after Close and Open.
func TestConformKeepsValues(t *testing.T) {
	runOnEachStore(t, func(t *testing.T, open func(Options) Store) {
		s := open(Options{LateWindow: time.Hour})
		var ref Series
		values := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.SmallestNonzeroFloat64, math.MaxFloat64, 1.0 / 3}
		var points []point
		for i, v := range values {
			add(t, s, &ref, load, int64(i)*1e9, v)
			points = append(points, point{int64(i) * 1000, v})
		}
		add(t, s, &ref, load, 1500e6, 7) // late
		points = append(points[:2], append([]point{{1500, 7}}, points[2:]...)...)
		expectValues(t, s, points...)
		s = restart(t, s, func() Store { return open(Options{LateWindow: time.Hour}) })
		defer s.Close()
		expectValues(t, s, points...)
		got := read(t, s)[load.String()]
		if !math.Signbit(got[1].value) {
			t.Error("minus zero became zero")
		}
	})
}

// TestConformInsertKeepsOneValuePerTime inserts values at times that already have a value, and expects the first value
// to stay. Some values are late. Staleness markers count as values.
func TestConformInsertKeepsOneValuePerTime(t *testing.T) {
	runOnEachStore(t, func(t *testing.T, open func(Options) Store) {
		s := open(Options{LateWindow: time.Hour})
		marker := math.Float64frombits(value.StaleNaN)
		buffer := labels.NewScratchBuilder(1)
		for _, x := range []point{{1000, 1}, {2000, 2}, {1500, 7}, {3000, marker}, {1500, 8}, {3000, 9}} {
			buffer.Reset()
			load.Range(func(l labels.Label) { buffer.Add(l.Name, l.Value) })
			var l labels.Labels
			buffer.Overwrite(&l)
			if before, ok := s.Counts().Values, s.Insert(0, &Series{}, l, start+x.ms, x.value) == Stored; ok != (s.Counts().Values > before) {
				t.Errorf("insert of %+v: %t", x, ok)
			}
		}
		if c := s.Counts(); c.Values != 4 || c.Doubled != 2 {
			t.Errorf("%+v, want 4 values and 2 doubled", c)
		}
		s = restart(t, s, func() Store { return open(Options{LateWindow: time.Hour}) })
		defer s.Close()
		got := read(t, s)[load.String()]
		if len(got) != 4 || fmt.Sprint(got[:3]) != fmt.Sprint([]point{{1000, 1}, {1500, 7}, {2000, 2}}) || math.Float64bits(got[3].value) != value.StaleNaN {
			t.Errorf("%v", got)
		}
	})
}

// TestConformKeepsNaN stores NaN and expects to read NaN.
func TestConformKeepsNaN(t *testing.T) {
	runOnEachStore(t, func(t *testing.T, open func(Options) Store) {
		s := open(Options{})
		defer s.Close()
		add(t, s, &Series{}, load, 0, math.NaN())
		if got := read(t, s)[load.String()]; len(got) != 1 || !math.IsNaN(got[0].value) {
			t.Errorf("values %v", got)
		}
	})
}

// TestConformRoundsLargeIntegers stores integers above 2^53, and expects each to be rounded to the nearest float64.
// Triggers see the whole number.
func TestConformRoundsLargeIntegers(t *testing.T) {
	runOnEachStore(t, func(t *testing.T, open func(Options) Store) {
		s := open(Options{})
		defer s.Close()
		var ref Series
		for i, n := range []uint64{1 << 53, 1<<53 + 1, 1<<53 + 2, math.MaxUint64} {
			add(t, s, &ref, load, int64(i)*1e9, float64(n))
		}
		expectValues(t, s, point{0, 1 << 53}, point{1000, 1 << 53}, point{2000, 1<<53 + 2}, point{3000, 1 << 64})
	})
}

// TestConformMovesWithinMillisecond stores several values in one millisecond, and expects all but the first to get
// later times. Each moves by 1 ms and is counted, also across commits.
func TestConformMovesWithinMillisecond(t *testing.T) {
	runOnEachStore(t, func(t *testing.T, open func(Options) Store) {
		s := open(Options{LateWindow: time.Hour})
		defer s.Close()
		var ref Series
		add(t, s, &ref, load, 100, 1)
		add(t, s, &ref, load, 200, 2)
		add(t, s, &ref, load, 200, 2) // equal in time and value: a value of its own
		add(t, s, &ref, load, 300, 4)
		add(t, s, &ref, load, 2e6, 5) // its millisecond is taken by a moved value
		add(t, s, &ref, load, 9e6, 6)
		expectValues(t, s, point{0, 1}, point{1, 2}, point{2, 2}, point{3, 4}, point{4, 5}, point{9, 6})
		if c := s.Counts(); c != (Counts{Values: 6, Moved: 4}) {
			t.Errorf("counts %+v", c)
		}
	})
}

// TestConformMovesLateValues stores late values at the times of existing values, and expects slightly later times for
// each. The existing values are in open and full chunks.
func TestConformMovesLateValues(t *testing.T) {
	runOnEachStore(t, func(t *testing.T, open func(Options) Store) {
		s := open(Options{LateWindow: time.Hour})
		defer s.Close()
		var ref Series
		var points []point
		for i := range 2 * maxSamples {
			add(t, s, &ref, load, int64(i)*1e9, 0)
			points = append(points, point{int64(i) * 1000, 0})
			if late := i - 5; i == maxSamples/2 || i == 2*maxSamples-1 {
				add(t, s, &ref, load, int64(late)*1e9, 7)
				add(t, s, &ref, load, int64(late)*1e9, 8)
				add(t, s, &ref, load, 3e9, 9) // in a full chunk, the second time
			}
		}
		points = slices.Concat(points[:4], []point{{3001, 9}, {3002, 9}}, points[4:maxSamples/2-4], []point{{points[maxSamples/2-5].ms + 1, 7}, {points[maxSamples/2-5].ms + 2, 8}},
			points[maxSamples/2-4:2*maxSamples-5], []point{{points[2*maxSamples-6].ms + 1, 7}, {points[2*maxSamples-6].ms + 2, 8}}, points[2*maxSamples-5:])
		expectValues(t, s, points...)
	})
}

// TestConformMovesEqualLateValues stores late values with equal times, and expects each to get the next free time.
// Batches after a stall of the server have such times.
func TestConformMovesEqualLateValues(t *testing.T) {
	runOnEachStore(t, func(t *testing.T, open func(Options) Store) {
		s := open(Options{LateWindow: time.Hour})
		defer func() { s.Close() }()
		var ref Series
		for i, ms := range []int64{10, 9, 9, 10, 9, 10} {
			add(t, s, &ref, load, ms*1e6, float64(i))
		}
		points := []point{{9, 1}, {10, 0}, {11, 2}, {12, 3}, {13, 4}, {14, 5}}
		expectValues(t, s, points...)
		s = restart(t, s, func() Store { return open(Options{LateWindow: time.Hour}) })
		ref = Series{}
		add(t, s, &ref, load, 10e6, 6)
		expectValues(t, s, append(points, point{15, 6})...)
	})
}

// TestConformRefusesOldValues stores a too old value, and expects the store to refuse and count the value. All other
// values are stored.
func TestConformRefusesOldValues(t *testing.T) {
	runOnEachStore(t, func(t *testing.T, open func(Options) Store) {
		s := open(Options{LateWindow: 2 * time.Hour})
		defer s.Close()
		var ref Series
		add(t, s, &ref, load, 0, 1)
		add(t, s, &ref, load, -int64(3*time.Hour), 2)
		add(t, s, &ref, load, -int64(time.Hour), 3)
		add(t, s, &ref, load, 5e6, 4)
		expectValues(t, s, point{-3_600_000, 3}, point{0, 1}, point{5, 4})
		if c := s.Counts(); c != (Counts{Values: 3, Late: 1}) {
			t.Errorf("counts %+v", c)
		}
	})
}

// TestConformLimitsSeriesOfNamespace limits a namespace to two series, and expects the third series to be
// refused and counted.
func TestConformLimitsSeriesOfNamespace(t *testing.T) {
	runOnEachStore(t, func(t *testing.T, open func(Options) Store) {
		s := open(Options{MaxSeries: limitSeries(2)})
		defer s.Close()
		for i, l := range []labels.Labels{load, Labels("a", "n", "default", "t"), Labels("b", "n", "default", "t"), Labels("b", "n", "other", "t")} {
			add(t, s, &Series{}, l, int64(i), 1)
		}
		if c := s.Counts(); c != (Counts{Values: 3, Unbounded: 1}) {
			t.Errorf("counts %+v", c)
		}
	})
}

// TestConformLongLabelsCountAsMoreSeries limits a namespace to six series, and expects long labels to count as several.
// A series with 3 KiB of labels counts for four.
func TestConformLongLabelsCountAsMoreSeries(t *testing.T) {
	runOnEachStore(t, func(t *testing.T, open func(Options) Store) {
		s := open(Options{MaxSeries: limitSeries(6)})
		defer s.Close()
		long := func(node string) labels.Labels { return Labels("long", node, "default", strings.Repeat("t", 3<<10)) }
		for i, one := range []struct {
			labels labels.Labels
			want   Outcome
		}{{long("a"), Stored}, {long("b"), NamespaceFull}, {Labels("a", "n", "default", "t"), Stored}, {Labels("b", "n", "default", "t"), Stored}, {Labels("c", "n", "default", "t"), NamespaceFull}, {long("a"), Stored}} {
			if got := s.Insert(0, &Series{}, one.labels, int64(i+1), 1); got != one.want {
				t.Errorf("value %d: outcome %d, want %d", i, got, one.want)
			}
		}
		if n := s.SeriesCount("default"); n != 6 {
			t.Errorf("the series count as %d, expected 6", n)
		}
	})
}

// TestConformLimitsSeriesOfCheck limits the series of a check and its namespace, and expects refusals above the
// limits. It expects a third number to be refused, thresholds to take the rest, and values to get series in
// their place: then the thresholds get no values.
func TestConformLimitsSeriesOfCheck(t *testing.T) {
	runOnEachStore(t, func(t *testing.T, open func(Options) Store) {
		s := open(Options{MaxSeries: limitSeries(4), MaxCheckSeries: 2})
		defer s.Close()
		of := func(metric, item, node string) labels.Labels {
			return labels.FromStrings(LabelMetric, metric, LabelItem, item, LabelCheck, "queue", LabelNode, node, LabelNamespace, "default")
		}
		bound := of("a_warning", "a", "n")
		for i, one := range []struct {
			labels labels.Labels
			want   Outcome
		}{
			{of("a", "a", "n"), Stored}, {bound, Stored}, {of("b", "b", "n"), Stored}, {of("c", "c", "n"), CheckFull}, {of("a_critical", "a", "n"), Stored},
			{of("b_max", "b", "n"), NamespaceFull}, {bound, Stored}, {of("c", "c", "m"), Stored}, {bound, NamespaceFull}, {of("a", "a", "n"), Stored},
			{Labels("load", "n", "default", "t"), Stored}, {Labels("mem", "n", "default", "t"), NamespaceFull}, {of("c", "c", "m"), Stored},
		} {
			if got := s.Insert(0, &Series{}, one.labels, int64(i+1), 1); got != one.want {
				t.Errorf("value %d of %s: outcome %d, want %d", i, one.labels, got, one.want)
			}
		}
		if c := s.Counts(); c != (Counts{Values: 9, Unbounded: 3, Crowded: 1}) {
			t.Errorf("counts %+v", c)
		}
	})
}

// TestConformRecordingRulesDoNotUseCheckLimit stores series of recording rules, and expects the check's series
// limit to ignore the rules. They have the labels of a number in check results. A rule's series is neither a
// number of the check nor a bound: values of others take nothing from it.
func TestConformRecordingRulesDoNotUseCheckLimit(t *testing.T) {
	runOnEachStore(t, func(t *testing.T, open func(Options) Store) {
		s := open(Options{MaxSeries: limitSeries(4), MaxCheckSeries: 1})
		defer s.Close()
		of := func(metric, item string) labels.Labels {
			return labels.FromStrings(LabelMetric, metric, LabelItem, item, LabelCheck, "queue", LabelNode, "n", LabelNamespace, "default")
		}
		recorded := []labels.Labels{of("job:waiting:avg5m", "waiting"), of("waiting_max_1h", "waiting"), of("count", "")}
		for i, l := range append(recorded, of("waiting", "waiting")) {
			if got := s.Insert(0, &Series{}, l, int64(i+1), 1); got != Stored {
				t.Errorf("%s: outcome %d", l, got)
			}
		}
		if got := s.Insert(0, &Series{}, of("waiting_max", "waiting"), 5, 1); got != NamespaceFull {
			t.Errorf("a bound in a full namespace: outcome %d", got)
		}
		if got := s.Insert(0, &Series{}, recorded[0], 6, 1); got != Stored {
			t.Errorf("next value of a rule: outcome %d", got)
		}
	})
}

// TestConformRetention expects values older than the retention to be deleted, and younger values to stay.
func TestConformRetention(t *testing.T) {
	runOnEachStore(t, func(t *testing.T, open func(Options) Store) {
		s := open(Options{Retention: 12 * time.Hour, LateWindow: time.Hour})
		defer s.Close()
		var ref Series
		for hour := range 48 {
			add(t, s, &ref, load, int64(hour)*int64(time.Hour), float64(hour))
		}
		testenv.NoError(t, s.Sync(0))
		maintain(t, s)
		got := read(t, s)[load.String()]
		if len(got) == 0 || got[0].value < 24 || got[0].value > 36 || got[len(got)-1].value != 47 {
			t.Errorf("values %v", got)
		}
	})
}

// TestConformRandom appends random values to the real store and to a simple one, and expects equal content. Blocks are
// written, and the stores are reopened.
func TestConformRandom(t *testing.T) {
	names := []labels.Labels{load, Labels("a", "web-1", "default", "linux"), Labels("a", "web-2", "other", "linux"), Labels("b[,x]", "web-2", "other", "linux")}
	open := storeOpeners()
	rapid.Check(t, func(r *rapid.T) {
		o := Options{LateWindow: time.Hour, MaxSeries: limitSeries(2), Range: 10 * time.Second}
		type store struct {
			Store
			refs []Series
		}
		dir := t.TempDir()
		both := [...]*store{{open["head"](t, dir, o), make([]Series, len(names))}, {open["memory"](t, dir, o), make([]Series, len(names))}}
		defer func() {
			for _, s := range both {
				testenv.NoError(t, s.Close())
			}
		}()
		used := map[string]bool{} // times of late values: two at one time are one value, and either may win
		at := make([]int64, len(names))
		for range rapid.IntRange(1, 12).Draw(r, "rounds") {
			for range rapid.IntRange(0, 6).Draw(r, "values") {
				n := rapid.IntRange(0, len(names)-1).Draw(r, "series")
				v := rapid.Float64().Draw(r, "value")
				ns := at[n]
				switch rapid.IntRange(0, 3).Draw(r, "time") {
				case 0: // within the millisecond
					ns += 1000
				case 1: // late, at a time that no value in order has
					ns = -int64(rapid.IntRange(1, 10_000).Draw(r, "late")) * 1e6
					if key := fmt.Sprint(n, ns); used[key] {
						continue
					} else {
						used[key] = true
					}
				default:
					ns += int64(rapid.IntRange(1, 5_000).Draw(r, "step")) * 1e6
				}
				at[n] = max(at[n], ns)
				for _, s := range both {
					add(t, s, &s.refs[n], names[n], ns, v)
				}
			}
			switch rapid.IntRange(0, 19).Draw(r, "event") {
			case 0, 1, 2:
				both[0].Store = restart(t, both[0].Store, func() Store { return open["head"](t, dir, o) })
				both[0].refs = make([]Series, len(names))
				both[1].Store = open["memory"](t, dir, o)
			case 4, 5: // a snapshot may follow
				both[0].WriteChunks(0)
			case 6: // from a snapshot with the full chunks since the last write
				body := both[0].Encode(0, nil)
				testenv.NoError(t, both[0].Sync(0))
				testenv.NoError(t, both[0].Close())
				both[0].Store = open["head"](t, dir, o)
				restore(t, both[0].Store, body)
				both[0].refs = make([]Series, len(names))
				both[1].Store = open["memory"](t, dir, o)
			case 3: // it syncs many files
				maintain(t, both[0].Store)
			}
			have, filledValues := read(t, both[0]), read(t, both[1])
			if !maps.EqualFunc(have, filledValues, func(a, b []point) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
				r.Fatalf("head %v\nmodel %v", have, filledValues)
			}
			if a, b := both[0].Counts(), both[1].Counts(); a != b {
				r.Fatalf("counts of the head %+v, of the model %+v", a, b)
			}
		}
	})
}

// TestCountsAreMetrics expects the counters of a store among the Prometheus metrics.
func TestCountsAreMetrics(t *testing.T) {
	r := prometheus.NewRegistry()
	s, err := Open(t.TempDir(), Options{LateWindow: time.Hour, MaxSeries: limitSeries(1), Registry: r})
	testenv.NoError(t, err)
	defer s.Close()
	var ref Series
	add(t, s, &ref, load, 0, 1)
	add(t, s, &ref, load, 1, 2)
	add(t, s, &Series{}, Labels("b", "web-1", "default", "linux"), 0, 1)
	got := map[string]float64{}
	families, err := r.Gather()
	testenv.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			key := f.GetName()
			for _, l := range m.GetLabel() {
				key += " " + l.GetValue()
			}
			got[key] = m.GetCounter().GetValue()
		}
	}
	for key, want := range map[string]float64{
		"muster_series_values_total": 2, "muster_series_moved_total": 1,
		"muster_series_refused_total late": 0, "muster_series_refused_total series": 1,
	} {
		if v, ok := got[key]; !ok || v != want {
			t.Errorf("%s is %v (%v), want %v", key, v, ok, want)
		}
	}
}
