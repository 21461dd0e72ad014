package series

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestQueriesEqualPrometheus stores the same random values in Prometheus' own storage, and expects equal answers to
// queries. Among them are late values, staleness markers and equal series of two partitions, in memory, in files and
// in blocks.
func TestQueriesEqualPrometheus(t *testing.T) {
	engine := promqltest.NewTestEngine(t, false, 0, 1_000_000)
	answer := func(t *testing.T, of storage.Queryable, expression string, at time.Time, steps int) string {
		t.Helper()
		var q promql.Query
		var err error
		if steps == 0 {
			q, err = engine.NewInstantQuery(t.Context(), of, nil, expression, at)
		} else {
			q, err = engine.NewRangeQuery(t.Context(), of, nil, expression, at.Add(-time.Duration(steps)*13*time.Second), at, 13*time.Second)
		}
		testenv.NoError(t, err)
		defer q.Close()
		result := q.Exec(t.Context())
		testenv.NoError(t, result.Err)
		if v, ok := result.Value.(promql.Vector); ok {
			slices.SortFunc(v, func(a, b promql.Sample) int { return labels.Compare(a.Metric, b.Metric) })
		}
		return result.Value.String()
	}
	answers := 0
	for seed := range uint64(16) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := open(t, t.TempDir(), Options{Range: 5 * time.Minute, LateWindow: time.Hour})
		other := teststorage.New(t)
		for n := range 6 {
			l := labels.FromStrings(LabelMetric, "x", LabelItem, fmt.Sprint(n), LabelNode, fmt.Sprint(n/2))
			kept, twin := map[int64]float64{}, n == 5
			var refs [2]Series
			for i, at := 0, int64(0); i < 100+150*n; i++ {
				at += [...]int64{1000, 1000, 1000, 1500, 1, 20_000}[random.IntN(6)]
				ms, v := at, float64(random.IntN(1000))
				switch random.IntN(20) {
				case 0:
					v = math.Float64frombits(value.StaleNaN)
				case 1:
					if !twin { // of two values of twins at one time, either may be kept
						ms -= random.Int64N(60_000)
					}
				case 2:
					if i%7 == 0 {
						s.WriteChunks(0)
						testenv.NoError(t, s.Sync(0))
					}
				}
				p := 0
				if twin && i > 300 {
					p = 1
				}
				if ms, ok := s.Append(model.Partition(p), &refs[p], func() labels.Labels { return l }, (start+ms)*1e6, v); ok {
					kept[ms] = v
				}
			}
			to := other.Appender(context.Background())
			for _, ms := range slices.Sorted(maps.Keys(kept)) {
				_, err := to.Append(0, l, ms, kept[ms])
				testenv.NoError(t, err)
			}
			testenv.NoError(t, to.Commit())
		}
		if seed%2 == 1 {
			maintain(t, s)
		}
		for _, expression := range [...]string{
			`x`, `avg by (node) (x)`, `max by (node) (rate(x[1m]))`, `x offset 90s`, `x @ 1800000123.4`, `timestamp(x)`, `avg_over_time(x[3m:20s])`, `last_over_time(x[90s])`,
			`count_over_time(x[9m])`, `absent(x{item="9"})`, `max_over_time(rate(x[1m])[5m:30s])`, `x offset -30s`, `x{item=~"1|5"} - on (item) x{item!="1"} offset 1m`, `x[77s]`,
		} {
			for range 4 {
				at, steps := time.UnixMilli(start+random.Int64N(4_500_000)), random.IntN(3)*random.IntN(60)
				if expression == `x[77s]` {
					steps = 0
				}
				want := answer(t, other, expression, at, steps)
				if got := answer(t, s, expression, at, steps); got != want {
					t.Fatalf("seed %d, %s at %d, %d steps:\n%s\nPrometheus:\n%s", seed, expression, at.UnixMilli()-start, steps, got, want)
				}
				if want != "" {
					answers++
				}
			}
		}
		testenv.NoError(t, s.Close())
	}
	if answers < 400 {
		t.Errorf("only %d answers have values", answers)
	}
}
