package prep

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/filter"
	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

const second = int64(1e9)

// textSample returns a sample (a value with its time) with a given text
func textSample(at int64, text string) item.Sample {
	return item.Sample{At: at, Value: item.FromText(text)}
}

// TestStatefulSteps runs steps that remember the last value over sequences of values, and expects the right
// outputs.
func TestStatefulSteps(t *testing.T) {
	for _, c := range []struct {
		typ  item.Type
		step model.Step
		in   string
		want string
	}{
		{item.Unsigned, sampleStep("simpleChange"), "1=5 2=15 3=15 4=9 5=10", "- 10 0 - 1"},
		{item.Float, sampleStep("simpleChange"), "1=-4.5 2=5.5 3=x 4=6 5=7", "- 10 error - 1"},
		{item.Float, sampleStep("changePerSecond"), "0=200 10.000000001=260 11=261 11=262 10=263 20=1 21=2", "- 5.9999999994 1.000000001 - - - 1"},
		{item.Unsigned, sampleStep("changePerSecond"), "0=2 10=3 11=4", "- 0 1"},
		{item.Float, sampleStep("changePerSecond"), "0=2 10=3", "- 0.1"},
		{item.Unsigned, sampleStep("changePerSecond"), "0=18446744073709551613 1=18446744073709551615", "- 2"},
		{item.Unsigned, sampleStep("changePerSecond"), "0=18446744073709551615 1=3 2=5", "- - 2"},
		{item.Unsigned, sampleStep("simpleChange"), "0=18446744073709551615 1=3 2=5", "- - 2"},
		{item.Text, sampleStep("discardUnchanged"), "1=a 2=a 3=b 4=1 5=1.0 6=1 7=a", "a - b 1 - - a"},
		{item.Text, sampleStep("discardUnchangedHeartbeat", "1m"), "0=a 30=a 59=a 60=a 61=b 119=b 121=b", "a - - a b - b"},
		{item.Text, sampleStep("discardUnchangedHeartbeat", "90"), "0=7 89=7.0 90=7", "7 - 7"},
		{item.Text, sampleStep("discardUnchangedHeartbeat", "1m"), "0.9=a 59.99=a 60.1=a", "a - a"},
	} {
		chain := compileChain(t, c.typ, c.step)
		if !chain.HasState() {
			t.Errorf("%v: not stateful", c.step)
		}
		var s State
		var got []string
		for word := range strings.FieldsSeq(c.in) {
			at, text, _ := strings.Cut(word, "=")
			f, _ := parseFloat(at)
			v, err := chain.Run(&s, textSample(int64(f*1e9+0.5), text))
			one := outcome(v, err)
			switch {
			case err != nil:
				one = "error"
			case one == discarded:
				one = "-"
			}
			got = append(got, one)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s of %s: got %s, expected %s", c.step.Name, c.in, strings.Join(got, " "), c.want)
		}
	}
}

// TestLongTextsAreRemembered repeats a very long text, and expects the step discardUnchanged to discard the
// repetition. Its state has only a digest of the text.
func TestLongTextsAreRemembered(t *testing.T) {
	chain := compileChain(t, item.Text, sampleStep("discardUnchanged"))
	var s State
	long := strings.Repeat("x", 10_000)
	want := []string{long, discarded, long + "y", discarded}
	for i, in := range []string{long, long, long + "y", long + "y"} {
		if got := outcome(chain.Run(&s, textSample(int64(i), in))); got != want[i] {
			t.Errorf("value %d: got %.20s…", i, got)
		}
	}
	if s.Size() > 100 {
		t.Errorf("the state has %d bytes", s.Size())
	}
}

// TestOnFail fails preprocessing steps with each setting of onFail, and expects the declared outcome. onFail
// discards the error, or replaces it by a value or another error.
func TestOnFail(t *testing.T) {
	value := "7"
	for _, c := range []struct {
		onFail *model.OnFail
		want   string
	}{
		{nil, "Preprocessing failed for: broken\n1. Result: broken\n2. Failed: cannot apply multiplier \"2\" to value of type \"string\": cannot convert value to numeric type"},
		{&model.OnFail{}, discarded},
		{&model.OnFail{Value: &value}, "14"},
		{&model.OnFail{Error: "the device is off"}, "the device is off"},
	} {
		failing := sampleStep("multiplier", "2")
		failing.OnFail = c.onFail
		chain := compileChain(t, item.Float, sampleStep("trim", " "), failing, sampleStep("multiplier", "2"))
		v, results, err := chain.RunDependentWithResults(nil, NewParsedValue(textSample(1, "broken")))
		got := outcome(v, nil)
		if err != nil {
			got = err.Error()
			var f *Failure
			if !errors.As(err, &f) || f.Step != 2 {
				t.Errorf("%v: got %#v", c.onFail, err)
			}
		}
		if got != c.want {
			t.Errorf("%v: got %q, expected %q", c.onFail, got, c.want)
		}
		if len(results) < 2 || results[1].Err == nil || results[1].OnFail != (c.onFail != nil) {
			t.Errorf("%v: results %v", c.onFail, results)
		}
	}
}

// TestFailureIsShort fails a step after 40 successful steps, and expects an error text of at most 2,048
// characters. The text cuts each value to 100 characters, and has the last results and the failure.
func TestFailureIsShort(t *testing.T) {
	steps := make([]model.Step, 40)
	for i := range steps {
		steps[i] = sampleStep("trim", " ")
	}
	chain := compileChain(t, item.Float, append(steps, sampleStep("multiplier", "2"))...)
	_, err := chain.Run(nil, textSample(1, strings.Repeat("ü", 200)))
	if text := []rune(err.Error()); len(text) > maxFailure || len(text) < maxFailure-200 || !strings.Contains(err.Error(), "for: "+strings.Repeat("ü", 97)+"...\n...\n") || !strings.Contains(err.Error(), "\n40. Result: ü") || !strings.Contains(err.Error(), "\n41. Failed: cannot apply multiplier") {
		t.Errorf("%d characters: %v", len(text), err)
	}
}

// TestErrorForgetsState fails one preprocessing step, and expects every step to forget the last value.
func TestErrorForgetsState(t *testing.T) {
	chain := compileChain(t, item.Float, sampleStep("simpleChange"), sampleStep("inRange", "", "100"), sampleStep("discardUnchanged"))
	var s State
	var got []string
	for i, in := range []string{"1", "5", "9", "500", "600", "601"} {
		v, err := chain.Run(&s, textSample(int64(i), in))
		if err != nil && (s.first.value.Kind() != item.None || s.more != nil) {
			t.Errorf("%s: the state remembers %v", in, s)
		}
		got = append(got, outcome(v, err))
	}
	want := []string{discarded, "4", discarded, "error: 2. Failed: value is greater than 100", discarded, "1"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, expected %v", got, want)
	}
}

// TestRunFailed runs checkNotSupported steps on the errors of failed collections, and expects the right outcomes. An
// outcome is a value or an error.
func TestRunFailed(t *testing.T) {
	zero := "0"
	timeout := model.Step{Name: "checkNotSupported", Parameters: []string{"0", "timed? out"}, OnFail: &model.OnFail{}}
	refused := model.Step{Name: "checkNotSupported", Parameters: []string{"1", "permission"}, OnFail: &model.OnFail{Value: &zero}}
	others := model.Step{Name: "checkNotSupported", Parameters: []string{"-1"}, OnFail: &model.OnFail{Error: "not allowed"}}
	chain := compileChain(t, item.Float, timeout, refused, others, sampleStep("multiplier", "2"), sampleStep("simpleChange"))
	var s State
	for _, c := range []struct{ reason, want string }{
		{"it timed out", discarded},
		{"connection refused", discarded}, // 0, the first value of simpleChange
		{"connection refused", "0"},
		{"no permission", "error: not allowed"},
	} {
		if got := outcome(chain.RunFailed(&s, 1, c.reason)); got != c.want {
			t.Errorf("%s: got %s, expected %s", c.reason, got, c.want)
		}
	}
	if got := outcome(chain.Run(&s, textSample(2, "4"))); got != discarded {
		t.Errorf("a value after a failure: %s", got)
	}
	if got := outcome(compileChain(t, item.Float).RunFailed(nil, 1, "no such file")); got != "error: no such file" {
		t.Errorf("without steps: %s", got)
	}
}

// TestDependentsShareParsedMaster expects a master item's value to be parsed only once for all its dependent items.
// After Reset it is parsed again.
func TestDependentsShareParsedMaster(t *testing.T) {
	name := compileChain(t, item.Text, sampleStep("jsonPath", "$.name"))
	size := compileChain(t, item.Unsigned, sampleStep("jsonPath", "$.size"), sampleStep("multiplier", "2"))
	up := compileChain(t, item.Unsigned, sampleStep("prometheusPattern", "up"))
	master := NewParsedValue(textSample(1, `{"name":"a","size":4}`))
	for round, want := range []string{"a 8", "b 10"} {
		v, err := name.RunDependent(nil, master)
		testenv.NoError(t, err)
		nodes := &master.json.nodes[0]
		w, err := size.RunDependent(nil, master)
		testenv.NoError(t, err)
		if got := v.String() + " " + w.String(); got != want || nodes != &master.json.nodes[0] {
			t.Errorf("round %d: got %s, expected %s", round, got, want)
		}
		if _, err := up.RunDependent(nil, master); err == nil {
			t.Error("JSON was taken for Prometheus's format")
		}
		master.Reset(textSample(2, `{"name":"b","size":5}`))
	}
	master.Reset(textSample(3, "up 1"))
	v, err := up.RunDependent(nil, master)
	testenv.NoError(t, err)
	if _, err := name.RunDependent(nil, master); err == nil || v != item.FromUnsigned(1) {
		t.Errorf("got %v and %v", v, err)
	}
}

// TestChainIsShared runs one chain of preprocessing steps in several goroutines at once, and expects right
// results.
func TestChainIsShared(t *testing.T) {
	for _, c := range []struct {
		step     model.Step
		in, want string
	}{
		{sampleStep("xmlPath", "count(//b[@x='1']) + 0"), "<a><b x='1'/><b x='1'/><b/></a>", "2"},
		{sampleStep("xmlPath", "//b[last()]/text()"), "<a><b>1</b><b>2</b></a>", "2"},
		{sampleStep("javascript", "n = value.length; return n"), "four", "4"},
		{sampleStep("regex", `(?<=a)b`, `\0`), "ab", "b"},
		{sampleStep("jsonPath", `$[?(@.a =~ "x")].a.first()`), `[{"a":"y"},{"a":"xx"}]`, "xx"},
		{sampleStep("prometheusPattern", `up{a=~"b"}`), `up{a="b"} 1`, "1"},
	} {
		chain := compileChain(t, item.Text, c.step)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 50 {
					v, err := chain.Run(nil, textSample(1, c.in))
					if got := outcome(v, err); got != c.want && !errors.Is(err, filter.ErrSlow) && !errors.Is(err, errSlowMatch) { // the machine may have stood still
						t.Errorf("%v: got %s, expected %s", c.step, got, c.want)
						return
					}
				}
			})
		}
		all.Wait()
	}
}

// TestSlowPatternIsSkipped matches an extremely slow regular expression repeatedly, and expects later matches to
// fail at once. After a while matches work again.
func TestSlowPatternIsSkipped(t *testing.T) {
	p, err := compilePattern(`^(?=(a+)+$)a`, matchText)
	testenv.NoError(t, err)
	bad := strings.Repeat("a", 40) + "b"
	for range maxSlowMatches/2 + skippedMatches {
		if _, err := p.match(bad); !errors.Is(err, errSlowMatch) {
			t.Fatalf("got %v", err)
		}
	}
	if skipped := p.skipped.Load(); skipped != 0 {
		t.Errorf("%d matches are left to skip", skipped)
	}
	ok, err := p.match("aa")
	if errors.Is(err, errSlowMatch) { // the machine stood still
		return
	}
	testenv.NoError(t, err)
	if !ok || p.slow.Load() != 0 {
		t.Errorf("after a match: %v, %d slow ones", ok, p.slow.Load())
	}
}

// TestStateEncodingIsStable encodes the state of preprocessing steps, and expects the same bytes as before
// (golden bytes).
func TestStateEncodingIsStable(t *testing.T) {
	s := State{first: rememberedValue{at: -1, value: item.FromText("ab")}, more: []rememberedValue{{at: 3, value: item.FromUnsigned(5)}, {at: 64, value: item.FromFloat(-0.5)}, {}}}
	const golden = "04" + "03" + "026162" + "01" + "02" + "0500000000000000" + "06" + "01" + "000000000000e0bf" + "8001" + "00"
	if got := hex.EncodeToString(s.Append(nil)); got != golden {
		t.Errorf("got %s, expected %s", got, golden)
	}
	if got := (&State{}).Append(nil); len(got) != 1 {
		t.Errorf("the empty state has %d bytes", len(got))
	}
	for n := range len(golden) / 2 {
		data, err := hex.DecodeString(golden[:2*n])
		testenv.NoError(t, err)
		if _, _, err := DecodeState(data); err == nil {
			t.Errorf("the first %d bytes were accepted", n)
		}
	}
}

// TestRestartChangesNothing runs values through random preprocessing steps with and without restarts, and expects
// equal outputs. A restart encodes and decodes the state before a value. Both give the same outcomes.
func TestRestartChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pool := []model.Step{
			sampleStep("multiplier", "2"), sampleStep("simpleChange"), sampleStep("changePerSecond"), sampleStep("discardUnchanged"),
			sampleStep("discardUnchangedHeartbeat", "3s"), sampleStep("inRange", "", "50"), sampleStep("trim", "x"),
		}
		steps := rapid.SliceOfN(rapid.SampledFrom(pool), 0, 5).Draw(t, "steps")
		typ := rapid.SampledFrom([]item.Type{item.Float, item.Unsigned, item.Text}).Draw(t, "type")
		chain, err := Compile(steps, typ, compileScript)
		testenv.NoError(t, err)
		var whole State
		encoded := whole.Append(nil)
		at := int64(0)
		for range rapid.IntRange(1, 20).Draw(t, "values") {
			at += rapid.Int64Range(-second, 4*second).Draw(t, "step")
			in := textSample(at, rapid.SampledFrom([]string{"1", "2", "2.5", "40", "x", "x7", "18446744073709551615", strings.Repeat("long", 30)}).Draw(t, "value"))
			restarted, rest, err := DecodeState(append(encoded, 0xff))
			testenv.NoError(t, err)
			if len(rest) != 1 {
				t.Fatalf("%d bytes behind the state", len(rest))
			}
			a, b := outcome(chain.Run(&whole, in)), outcome(chain.Run(&restarted, in))
			if a != b {
				t.Fatalf("%v: at once %s, restarted %s", in, a, b)
			}
			encoded = restarted.Append(nil)
		}
	})
}

// commonChains returns the most frequent combinations of preprocessing steps.
func commonChains(t testing.TB) map[string]*Chain {
	return map[string]*Chain{
		"multiplier":                compileChain(t, item.Float, sampleStep("multiplier", "8")),
		"changePerSecond":           compileChain(t, item.Float, sampleStep("changePerSecond"), sampleStep("multiplier", "8")),
		"discardUnchangedHeartbeat": compileChain(t, item.Unsigned, sampleStep("discardUnchangedHeartbeat", "1h")),
	}
}

// TestCommonStepsAllocateNothing runs common preprocessing steps on numbers, and expects no memory allocation
func TestCommonStepsAllocateNothing(t *testing.T) {
	for name, chain := range commonChains(t) {
		var s State
		in := item.Sample{Value: item.FromUnsigned(1)}
		allocs := testing.AllocsPerRun(100, func() {
			in.At += second
			in.Value = item.FromUnsigned(in.Value.Unsigned() + uint64(in.At)%3)
			if _, err := chain.Run(&s, in); err != nil {
				t.Fatal(err)
			}
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
}

// BenchmarkChain measures common combinations of preprocessing steps on numbers
func BenchmarkChain(b *testing.B) {
	for name, chain := range commonChains(b) {
		b.Run(name, func(b *testing.B) {
			var s State
			in := item.Sample{Value: item.FromUnsigned(1)}
			b.ReportAllocs()
			for b.Loop() {
				in.At += second
				in.Value = item.FromUnsigned(in.Value.Unsigned() + 7)
				if _, err := chain.Run(&s, in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	var text strings.Builder
	for i := range 20 {
		fmt.Fprintf(&text, `,"disk%d":{"read":%d,"written":%d}`, i, i*1000, i)
	}
	dependents := make([]*Chain, 20)
	for i := range dependents {
		dependents[i] = compileChain(b, item.Unsigned, sampleStep("jsonPath", fmt.Sprintf("$.disk%d.read", i)))
	}
	in := textSample(1, "{"+text.String()[1:]+"}")
	b.Run("master of 20 dependents", func(b *testing.B) {
		master := NewParsedValue(in)
		b.SetBytes(int64(len(in.Value.String())))
		b.ReportAllocs()
		for b.Loop() {
			master.Reset(in)
			for _, chain := range dependents {
				if _, err := chain.RunDependent(nil, master); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	script := compileChain(b, item.Float, sampleStep("javascript", "return value / 10;"))
	b.Run("javascript", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := script.Run(nil, textSample(1, "42")); err != nil {
				b.Fatal(err)
			}
		}
	})
}
