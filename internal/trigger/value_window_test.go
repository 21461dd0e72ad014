package trigger

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// scan has functions over all values of a period, as the plain reference for tests.
var scan = map[string]func(v []float64) (float64, bool){
	"first": func(v []float64) (float64, bool) { return v[0], true },
	"min":   func(v []float64) (float64, bool) { return slices.Min(v), true },
	"max":   func(v []float64) (float64, bool) { return slices.Max(v), true },
	"sum":   func(v []float64) (float64, bool) { return simpleSum(v), true },
	"avg":   func(v []float64) (float64, bool) { return simpleSum(v) / float64(len(v)), true },
	"count": func(v []float64) (float64, bool) { return float64(len(v)), true },
	"countunique": func(v []float64) (float64, bool) {
		slices.Sort(v)
		return float64(len(slices.Compact(v))), true
	},
	"changecount": func(v []float64) (float64, bool) {
		n := 0.0
		for i := 1; i < len(v); i++ {
			if v[i] != v[i-1] {
				n++
			}
		}
		return n, true
	},
	"last": func(v []float64) (float64, bool) { return v[0], true }, // of #n
}

// simpleSum adds up floats in a simple way, for comparison in tests.
func simpleSum(v []float64) (sum float64) {
	for _, x := range v {
		sum += x
	}
	return sum
}

// testPeriods has the periods from which tests choose.
var testPeriods = []string{"#1", "#2", "#5", "#3:now-1m", "#1:now-2m", "30s", "1m", "5m", "1h", "2m:now-1m", "3m:now-150s", "10m:now/h", "1m:now/h+5m-5m"}

// simpleResult computes a function over all values in a simple way, for comparison in tests. The values may arrive in any
// order.
func simpleResult(function, periodText string, all []item.Sample, now int64) (float64, bool) {
	p, problem := parsePeriod(periodText, time.UTC)
	if problem != "" {
		panic(problem)
	}
	end := p.end(now)
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b item.Sample) int { return int(a.At - b.At) })
	var in []float64
	for _, s := range sorted {
		if s.At <= end && (p.count > 0 || s.At > p.startOf(end)) {
			in = append(in, s.Value.Float())
		}
	}
	if n := int(p.count); n > 0 && len(in) > n {
		in = in[len(in)-n:]
	}
	switch {
	case function == "last" && len(in) < int(p.count):
		return 0, false
	case len(in) == 0:
		return 0, function == "count" || function == "countunique" || function == "sum"
	case function == "changecount" && len(in) < 2:
		return 0, false
	}
	return scan[function](in)
}

// randomSamples returns random test values, some of which arrive late or have equal times. All are multiples of
// a quarter, so that sums are exact.
func randomSamples(t *rapid.T) []item.Sample {
	clock := start + rapid.Int64Range(0, int64(2*time.Hour)).Draw(t, "begin")
	var out []item.Sample
	for range rapid.IntRange(1, 80).Draw(t, "values") {
		at := clock
		switch rapid.IntRange(0, 9).Draw(t, "order") {
		case 0:
			at -= rapid.Int64Range(0, int64(10*time.Minute)).Draw(t, "late")
		case 1:
			if len(out) > 0 {
				at = out[len(out)-1].At
			}
		default:
			clock += rapid.Int64Range(0, int64(90*time.Second)).Draw(t, "step")
			at = clock
		}
		out = append(out, item.Sample{At: at, Value: item.FromFloat(float64(rapid.IntRange(-8, 8).Draw(t, "value")) / 4)})
	}
	return out
}

// TestWindowsMatchFullScan adds random values to windows, and expects the same results as a search through all values. It
// also encodes and decodes windows in between.
func TestWindowsMatchFullScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		function := rapid.SampledFrom([]string{"first", "min", "max", "sum", "avg", "count", "countunique", "changecount", "last"}).Draw(t, "function")
		periods := testPeriods
		switch function {
		case "last":
			periods = periods[:5]
		case "first":
			periods = periods[5:]
		}
		periodText := rapid.SampledFrom(periods).Draw(t, "period")
		key := rapid.SampledFrom([]string{"float", "unsigned"}).Draw(t, "type")
		e, err := Parse(fmt.Sprintf("%s(//%s,%s)", function, key, periodText))
		testenv.NoError(t, err)
		p, err := Compile(e, testScope)
		testenv.NoError(t, err)
		position := p.ItemIndexes()[0]
		one, restarted := p.NewWindows(0), p.NewWindows(0)
		now := int64(0)
		series := randomSamples(t)
		for i := range series {
			if key == "unsigned" {
				series[i].Value = item.FromUnsigned(uint64(4*series[i].Value.Float() + 8))
			}
			p.Add(one, position, series[i])
			p.Add(restarted, position, series[i])
			now = max(now, series[i].At) + rapid.Int64Range(0, int64(time.Second)).Draw(t, "pause")
			if i%3 == 0 {
				continue // several values between two evaluations
			}
			got, err := p.Value(one, now)
			again, _ := p.Value(restarted, now)
			want, ok := simpleResult(function, periodText, series[:i+1], now)
			if (err == nil) != ok || ok && got.Float() != want {
				t.Fatalf("%s after value %d: %v %v, a scan gives %v %t", p, i, got, err, want, ok)
			}
			if got != again {
				t.Fatalf("%s after value %d: %v, restarted %v", p, i, got, again)
			}
			if rapid.IntRange(0, 3).Draw(t, "restart") == 0 {
				var rest []byte
				if restarted, rest, err = p.Decode(append(restarted.Append(nil), 9)); err != nil || len(rest) != 1 {
					t.Fatalf("the state does not decode: %v", err)
				}
			}
			if !bytes.Equal(one.Append(nil), restarted.Append(nil)) {
				t.Fatalf("%s after value %d: the restarted state differs", p, i)
			}
		}
	})
}

// TestCombinedValuesStayAccurate compares results over combined entries with results over all single values,
// and expects small differences. The period may differ by at most one time slot at either end, also for late
// values.
func TestCombinedValuesStayAccurate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		function := rapid.SampledFrom([]string{"min", "max", "sum", "count", "first", "last"}).Draw(t, "function")
		periodText := rapid.SampledFrom([]string{"2h", "90m", "1h:now-3h", "3h:now/h-2h"}).Draw(t, "period")
		key := "float"
		if function == "first" || function == "last" {
			key = rapid.SampledFrom([]string{"float", "text"}).Draw(t, "type")
		}
		e, _ := Parse(fmt.Sprintf("%s(//%s,%s)", function, key, periodText))
		p, err := Compile(e, testScope)
		testenv.NoError(t, err)
		position := p.ItemIndexes()[0]
		one, restarted := p.NewWindows(0), p.NewWindows(0)
		grain := int64(5 * time.Minute)
		spec, _ := parsePeriod(periodText, time.UTC)
		clock := start
		var series []item.Sample
		for i := range rapid.IntRange(1, 150).Draw(t, "values") {
			at := clock
			if rapid.IntRange(0, 4).Draw(t, "order") == 0 {
				at -= rapid.Int64Range(0, int64(2*time.Hour)).Draw(t, "late")
			} else {
				clock += rapid.Int64Range(0, int64(4*time.Minute)).Draw(t, "step")
				at = clock
			}
			s := item.Sample{At: at, Value: item.FromFloat(float64(rapid.IntRange(0, 16).Draw(t, "value")) / 4)}
			series = append(series, s)
			if key == "text" {
				s.Value = item.FromText(s.Value.String())
			}
			p.Add(one, position, s)
			p.Add(restarted, position, s)
			got, err := p.Value(one, clock)
			again, _ := p.Value(restarted, clock)
			if got != again || !bytes.Equal(one.Append(nil), restarted.Append(nil)) {
				t.Fatalf("%s after value %d: %v, restarted %v", p, i, got, again)
			}
			if i%5 == 0 {
				restarted, _, err = p.Decode(restarted.Append(nil))
				testenv.NoError(t, err)
				continue
			}
			end := spec.end(clock)
			scan := func(from, to int64) []float64 {
				var in []float64
				for _, s := range series {
					if s.At > from && s.At <= to {
						in = append(in, s.Value.Float())
					}
				}
				return in
			}
			begin := end - int64(spec.span)
			least, most := scan(begin+grain, end-grain), scan(begin-grain, end)
			v := got.Float()
			ok := true
			switch {
			case err != nil:
				ok = len(least) == 0
			case function == "sum":
				ok = v >= simpleSum(least) && v <= simpleSum(most)
			case function == "count":
				ok = v >= float64(len(least)) && v <= float64(len(most))
			case function == "max":
				ok = slices.Contains(most, v) && (len(least) == 0 || v >= slices.Max(least))
			case function == "min":
				ok = slices.Contains(most, v) && (len(least) == 0 || v <= slices.Min(least))
			}
			if !ok {
				t.Fatalf("%s after value %d: %v %v, a scan gives %v to %v", p, i, got, err, least, most)
			}
		}
	})
}

// TestLongWindows fills windows with very many values, and expects bounded memory. Such windows cover at most one time
// slot too much.
func TestLongWindows(t *testing.T) {
	for _, c := range []struct {
		function, period string
		step             time.Duration // between two values
		grain            time.Duration // the most that the start of the period may lie too early
		entries          int           // the most that the window keeps
	}{
		{"sum", "2h", time.Second, time.Minute, 130},
		{"count", "1d", 10 * time.Second, 15 * time.Minute, 100},
		{"max", "7d", time.Minute, 6 * time.Hour, 40},
		{"min", "1h:now-1d", 20 * time.Second, time.Minute, 2000},
		{"sum", "5m", time.Millisecond, 600 * time.Millisecond, maxAggregates},
		{"max", "1h", 100 * time.Millisecond, 7 * time.Second, maxAggregates},
		{"first", "30m", 100 * time.Millisecond, 4 * time.Second, maxAggregates},
		{"first", "30m", time.Second, 30 * time.Second, maxTexts},
	} {
		key, position := "float", 0
		if c.entries == maxTexts {
			key, position = "text", 2
		}
		p := compileText(t, fmt.Sprintf("%s(//%s,%s)", c.function, key, c.period))
		w := p.NewWindows(0)
		spec, _ := parsePeriod(c.period, time.UTC)
		reach := spec.span + spec.shift.Delay()
		now := start
		var series []item.Sample
		for i := 0; time.Duration(now-start) < 2*reach; i++ {
			now += int64(c.step)
			v := float64(i % 1000)
			switch c.function {
			case "max":
				v = -float64(i) // a falling series fills a deque
			case "first":
				v = float64(i)
			}
			s := item.Sample{At: now, Value: item.FromFloat(v)}
			series = append(series, s)
			if key == "text" {
				s.Value = item.FromText(s.Value.String())
			}
			p.Add(w, position, s)
		}
		got, err := p.Value(w, now)
		testenv.NoError(t, err)
		end := spec.end(now)
		low, high := math.Inf(1), math.Inf(-1) // over all periods that begin up to a grain earlier
		for _, begin := range []int64{end - int64(spec.span), end - int64(spec.span+c.grain)} {
			var in []float64
			for _, s := range series {
				if s.At > begin && s.At <= end {
					in = append(in, s.Value.Float())
				}
			}
			v, _ := scan[c.function](in)
			low, high = min(low, v), max(high, v)
		}
		if v := ofValue(got).number(); v.Float() < low || v.Float() > high {
			t.Errorf("%s: %v, expected from %v to %v", p, v.Float(), low, high)
		}
		if n := w.list[0].size; n > c.entries {
			t.Errorf("%s keeps %d entries, expected at most %d", p, n, c.entries)
		}
		decoded, _, err := p.Decode(w.Append(nil))
		testenv.NoError(t, err)
		again, _ := p.Value(decoded, now)
		if again != got {
			t.Errorf("%s: %v, restarted %v", p, got, again)
		}
	}
}

// TestTooManyValues overfills a window, and expects unknown results from functions that need all values.
func TestTooManyValues(t *testing.T) {
	p := compileText(t, "percentile(//float,10m,50)")
	w := p.NewWindows(0)
	for i := range int64(maxValues + 500) {
		p.Add(w, 0, item.Sample{At: start + i*int64(10*time.Millisecond), Value: item.FromFloat(1)})
	}
	_, err := p.Value(w, w.now)
	if err == nil || err.Error() != "the period has more than 10000 values" {
		t.Errorf("too many values: %v", err)
	}
	if w.list[0].size > maxValues {
		t.Errorf("the window keeps %d values", w.list[0].size)
	}
	v, err := p.Value(w, start+int64(605*time.Second))
	if err != nil || v.Float() != 1 {
		t.Errorf("after the surplus left the period: %v %v", v, err)
	}
}

// TestSlowPattern matches a value by a slow regular expression, and expects an unknown result. count and find stay
// unknown while the period has such a value.
func TestSlowPattern(t *testing.T) {
	for _, expression := range []string{`count(//text,5m,"regexp","^(a+)+(?!b)$")`, `find(//text,#2,"regexp","^(a+)+(?!b)$")`, `countunique(//text,5m,"regexp","^(a+)+(?!b)$")`} {
		p := compileText(t, expression)
		w := p.NewWindows(0)
		addValues(p, w, "text", strings.Repeat("a", 60)+"!")
		if _, err := p.Value(w, start); err == nil || err.Error() != "a value in the period takes the regular expression longer than 100ms" {
			t.Errorf("%s: %v", expression, err)
		}
		for i := range int64(2) {
			p.Add(w, 2, item.Sample{At: start + (5+i)*int64(time.Minute), Value: valueOf("a")})
		}
		if v, err := p.Value(w, start+6*int64(time.Minute)); err != nil || v.Float() < 1 {
			t.Errorf("%s after the value left the period: %v %v", expression, v, err)
		}
	}
}

// TestEncodedWindowsMatchGolden encodes windows of stored values, and expects the golden bytes.
func TestEncodedWindowsMatchGolden(t *testing.T) {
	p := compileText(t, `last(//float,#2)+avg(//float,3m)+min(//unsigned,3m)+count(//text,2h,"like","a")+sum(//unsigned,#3:now-1m)+length(last(//text))+percentile(//float,#3,5)+nodata(//float,1m)`)
	w := p.NewWindows(start)
	w.Problem = true
	addValues(p, w, "float", 1.5, 2.25, -3.0, 4.0, 5.0)
	addValues(p, w, "unsigned", 7, 8, 9, 1, uint64(math.MaxUint64))
	addValues(p, w, "text", "a", "b", "abc")
	p.Eval(w, start+int64(time.Second))
	testenv.Golden(t, "testdata/windows.golden", w.Append(nil))
}

// TestWindowsOfTextsAreBounded adds texts of 64 KiB to windows, and expects bounded memory. Each window keeps its
// newest values. It tests each data structure for texts.
func TestWindowsOfTextsAreBounded(t *testing.T) {
	for _, expression := range []string{`last(//x,#250)="a"`, `first(//x,1h)="a"`, `last(//x)="a"`, `last(//x,#1:now-1h)="a"`, `changecount(//x,1h)>1`} {
		p, err := CompileForItems([]model.Item{{Key: "x", Type: "text"}}, expression, nil)
		testenv.NoError(t, err)
		w := p.NewWindows(0)
		for i := range int64(300) {
			at := i * int64(10*time.Second)
			p.Add(w, 0, item.Sample{At: at, Value: item.FromText(strings.Repeat(string(rune('a'+i%20)), 64<<10))})
			p.Eval(w, at)
		}
		for i := range w.list {
			if n := w.list[i].textBytes(); n > maxTextBytes {
				t.Errorf("%s keeps %d bytes of texts", expression, n)
			}
		}
	}
}
