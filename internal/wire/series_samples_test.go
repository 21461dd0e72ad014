package wire

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// goldenSamples returns the encoded block of two test series for the golden files. The second has a staleness marker.
func goldenSamples() []byte {
	var b SampleBlock
	b.Add([]SeriesLabel{{"__name__", "up"}, {"job", "node"}, {"namespace", "default"}}, []Sample{{1764007200500, 1}, {1764007215500, 0}})
	b.Add([]SeriesLabel{{"__name__", "go_goroutines"}, {"job", "node"}, {"namespace", "default"}}, []Sample{{1764007200500, math.Float64frombits(0x7ff0000000000002)}})
	return b.Append(nil)
}

// seriesSamples is a series of a test with its labels and samples.
type seriesSamples struct {
	labels  []SeriesLabel
	samples []Sample
}

// readSamples returns all series of a block of samples.
func readSamples(block []byte) (list []seriesSamples, err error) {
	var r SampleReader
	if err := r.Reset(block); err != nil {
		return nil, err
	}
	for r.Next() {
		list = append(list, seriesSamples{slices.Clone(r.Labels), slices.Clone(r.Samples)})
	}
	return list, r.Err()
}

// equalSamples reports whether two lists of series have equal labels and samples. Values are equal if their
// bits are.
func equalSamples(a, b []seriesSamples) bool {
	return slices.EqualFunc(a, b, func(x, y seriesSamples) bool {
		return slices.Equal(x.labels, y.labels) && slices.EqualFunc(x.samples, y.samples, func(x, y Sample) bool {
			return x.Ms == y.Ms && math.Float64bits(x.Value) == math.Float64bits(y.Value)
		})
	})
}

// TestSamplesKeepEachValue encodes random series, and expects the same series from the reader.
func TestSamplesKeepEachValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b SampleBlock
		var want []seriesSamples
		for range rapid.IntRange(0, 5).Draw(t, "series") {
			var x seriesSamples
			for range rapid.IntRange(0, 4).Draw(t, "labels") {
				x.labels = append(x.labels, SeriesLabel{randomText(t), randomText(t)})
			}
			for range rapid.IntRange(0, 4).Draw(t, "samples") {
				x.samples = append(x.samples, Sample{rapid.Int64().Draw(t, "ms"), math.Float64frombits(randomUint64(t))})
			}
			b.Add(x.labels, x.samples)
			want = append(want, x)
		}
		block := b.Append(nil)
		if len(block) > b.Size() {
			t.Fatalf("block has %d bytes, Size said %d", len(block), b.Size())
		}
		if got, err := readSamples(block); err != nil || !equalSamples(got, want) {
			t.Fatalf("%v, want %v: %v", got, want, err)
		}
	})
}

// FuzzSamples decodes random bytes as a block of samples, and expects an error or usable samples. Decoded samples are
// the same after encoding and decoding again.
func FuzzSamples(f *testing.F) {
	f.Add(goldenSamples())
	f.Add([]byte{1, 0})
	f.Add([]byte{1, 1, 200})
	f.Fuzz(func(t *testing.T, block []byte) {
		list, err := readSamples(block)
		if err != nil {
			return
		}
		var b SampleBlock
		for _, x := range list {
			b.Add(x.labels, x.samples)
		}
		if again, err := readSamples(b.Append(nil)); err != nil || !equalSamples(again, list) {
			t.Fatalf("%v, want %v: %v", again, list, err)
		}
	})
}
