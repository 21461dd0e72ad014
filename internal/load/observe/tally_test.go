package observe

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
)

// TestTalliesMergeToTheWhole merges the encoded tallies of several loaders, and expects the tally of one loader with
// all results.
func TestTalliesMergeToTheWhole(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 7} {
		whole, parts := &Tally{}, make([]Tally, n)
		for range 20_000 {
			ns, p := int64(random.ExpFloat64()*5e7), &parts[random.IntN(n)]
			for _, t := range []*Tally{whole, p} {
				t.Results++
				t.Acked += 2
				t.InTime += 3
				t.Current += 4
				t.Frames++
				t.Class(2).Meant++
				t.Whole.Record(ns, 1)
				t.Beyond.Record(ns/3, 2)
				t.Lag.Record(ns/1000, 1)
				t.Batches.Record(1000+ns%900_000, 1)
				t.Wait("list-p99", ns, 1)
			}
		}
		sum := &Tally{}
		for i := range parts {
			text, err := json.Marshal(&parts[i])
			if err != nil {
				t.Fatal(err)
			}
			var again Tally
			if err := json.Unmarshal(text, &again); err != nil {
				t.Fatal(err)
			}
			sum.Merge(&again)
		}
		got, err := json.Marshal(sum)
		if want, _ := json.Marshal(whole); err != nil || !bytes.Equal(got, want) || sum.Results != 20_000 || sum.Beyond.Count() != 40_000 {
			t.Errorf("%d parts: %+v, whole %+v, %v", n, sum, whole, err)
		}
	}
}

// TestSecondsOfSeveralLoaders adds the seconds of several loaders, and expects that a second ends when all have told
// it, and that later offers still count.
func TestSecondsOfSeveralLoaders(t *testing.T) {
	c := &Checks{Start: &Checked{Report: &report.Report{Cost: report.Cost{Loaders: []report.Loader{{}, {Here: true}}}}}}
	var seen []report.Sample
	c.OnSecond = func(s *report.Sample) {
		seen = append(seen, *s)
		if n := c.Loader(0).Part(0).Whole.Count() + c.Loader(1).Part(0).Whole.Count(); n != 2 {
			t.Errorf("%d latencies", n)
		}
	}
	line := func(loader, number int, sample *report.Sample) {
		tally := &Tally{Results: 4, Acked: 3, Refused: 1}
		tally.Whole.Record(5e6, 1)
		c.apply(&Line{Loader: loader, Check: &CheckSecond{Number: number, Sample: sample, Parts: map[int]*Tally{0: tally, -1: nil}, Offered: map[int]uint64{number: 3, number + 1: 1}}})
	}
	line(1, 0, &report.Sample{LoaderCPU: 0.25, Connected: 3})
	if len(seen) > 0 {
		t.Fatal("a loader is missing")
	}
	line(0, 0, &report.Sample{Second: 1, Phase: "steady", LoaderCPU: 0.5, OthersCPU: 1, Connected: 4})
	want := report.Sample{Second: 1, Phase: "steady", Sent: 8, Acked: 6, LoaderCPU: 0.75, OthersCPU: 0.75, Connected: 7, Offered: 6, Refused: 2}
	if len(seen) != 1 || seen[0].Latency == nil || seen[0].Latency.Max < 4.9 {
		t.Fatalf("%+v", seen)
	}
	seen[0].Latency, seen[0].Beyond, seen[0].Lag = nil, 0, 0
	if !reflect.DeepEqual(seen[0], want) {
		t.Errorf("%+v, want %+v", seen[0], want)
	}
	line(0, 1, &report.Sample{Second: 2})
	line(0, 2, nil) // not over
	c.apply(&Line{Check: &CheckSecond{Number: 2, Offered: map[int]uint64{0: 10}}})
	if c.Samples[0].Offered != 16 || len(c.Samples) != 1 {
		t.Errorf("%+v", c.Samples)
	}
	c.OnSecond = nil
	c.Finish()
	if len(c.Samples) != 2 || c.Samples[1].Offered != 5 {
		t.Errorf("a second that one loader never told: %+v", c.Samples)
	}
	if p := c.Loaders[0].Part(0); p.Refused != 3 || c.Loaders[1].Part(0).Refused != 1 || c.Loaders[1].Part(7).Refused != 0 {
		t.Errorf("%+v", p)
	}
}

// FuzzTally decodes random tallies, and expects consistent counts or an error.
func FuzzTally(f *testing.F) {
	var t Tally
	t.Whole.Record(5e6, 3)
	text, _ := json.Marshal(&t)
	f.Add(text)
	f.Add([]byte(`{"whole":"//////////8BAQ=="}`))
	f.Add([]byte(`{"waits":{"x":null},"lag":"AAE="}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var one, sum, again Tally
		if json.Unmarshal(text, &one) != nil {
			return
		}
		sum.Merge(&one)
		if sum.Whole.Count() != one.Whole.Count() || sum.Lag.Latency() != one.Lag.Latency() {
			t.Error("a sum of one differs from it")
		}
		text, err := json.Marshal(&one)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &again); err != nil || again.Beyond.Latency() != one.Beyond.Latency() {
			t.Errorf("written and read it is another one: %v", err)
		}
	})
}
