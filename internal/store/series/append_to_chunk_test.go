package series

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestOpenChunk appends random values to a chunk, and expects the bytes of Prometheus' XORChunk. The values are of the
// usual kinds, at regular and irregular times, and reading returns the same values.
func TestOpenChunk(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	kinds := []func(i int) float64{
		func(int) float64 { return 4 },
		func(i int) float64 { return float64(1_000_000 + i*977) },
		func(int) float64 { return float64(r.IntN(100)) },
		func(int) float64 { return float64(r.IntN(10_000)) / 100 },
		func(int) float64 { return math.Float64frombits(r.Uint64()) },
		func(i int) float64 { return float64(i % 2) },
	}
	steps := []func() int64{
		func() int64 { return 1000 },
		func() int64 { return 990 + r.Int64N(20) },
		func() int64 { return 1 + r.Int64N(200_000) },
		func() int64 { return 1 + r.Int64N(maxDelta) },
	}
	for _, value := range kinds {
		for _, step := range steps {
			for range 50 {
				want := chunkenc.NewXORChunk()
				to, err := want.Appender()
				testenv.NoError(t, err)
				var got openChunk
				var points []point
				for i, ms := 0, start; i < maxSamples; i++ {
					v := value(i)
					got.append(ms, v)
					to.Append(0, ms, v)
					points = append(points, point{ms, v})
					ms += step()
				}
				if !bytes.Equal(got.bytes(), want.Bytes()) {
					t.Fatalf("%x, want %x", got.bytes(), want.Bytes())
				}
				if list, err := appendPoints(nil, got.bytes(), points[7].ms, points[100].ms); err != nil || !slices.EqualFunc(list, points[7:101], samePoint) {
					t.Fatalf("decoded %v, %v, want %v", list, err, points[7:101])
				}
			}
		}
	}
}

// FuzzOpenChunk appends random values to a chunk, and expects the same bytes as from Prometheus' XORChunk. A snapshot
// comes in between.
func FuzzOpenChunk(f *testing.F) {
	seed := func(list ...uint64) {
		var b []byte
		for _, n := range list {
			b = binary.LittleEndian.AppendUint64(b, n)
		}
		f.Add(b)
	}
	seed(1000, math.Float64bits(1), 1000, math.Float64bits(1), 1000, math.Float64bits(2), 1001, math.Float64bits(1.37), 999, math.Float64bits(1.36))
	seed(1, 0, 1<<31, 1, 1, math.MaxUint64, 9000, 0, 70_000, 5, 600_000, math.Float64bits(math.Inf(-1)), 1, math.Float64bits(math.NaN()))
	seed(slices.Repeat([]uint64{1000, math.Float64bits(0.1), 1000, math.Float64bits(12.34)}, maxSamples/2)...)
	f.Fuzz(func(t *testing.T, data []byte) {
		want := chunkenc.NewXORChunk()
		to, err := want.Appender()
		if err != nil {
			t.Fatal(err)
		}
		var got openChunk
		ms := int64(0)
		for got.count < maxSamples && len(data) >= 16 {
			ms += 1 + int64(uint32(binary.LittleEndian.Uint64(data)-1)) // at most maxDelta, but for the first
			if got.count > 0 && ms-got.last > maxDelta {
				break
			}
			v := math.Float64frombits(binary.LittleEndian.Uint64(data[8:]))
			data = data[16:]
			got.append(ms, v)
			to.Append(0, ms, v)
			if !bytes.Equal(got.bytes(), want.Bytes()) {
				t.Fatalf("value %d: %x, want %x", got.count, got.bytes(), want.Bytes())
			}
			d := shard.NewDecoder(got.encode(nil))
			again := decodeOpenChunk(d)
			if d.Err() != nil || len(d.Rest()) > 0 || !bytes.Equal(again.bytes(), got.bytes()) {
				t.Fatalf("decoded %+v, %v, want %+v", again, d.Err(), got)
			}
			got = again
		}
	})
}

// FuzzAppendPoints decodes random bytes as a chunk, and expects the values of Prometheus' XORChunk. It may also return
// an error after the values before the damage.
func FuzzAppendPoints(f *testing.F) {
	for _, step := range [...]int64{1000, 1, 9000, 70_000, 600_000, 1 << 31} {
		var c openChunk
		for i := range int64(20) {
			c.append(start+i*step+i%3*step/2, [...]float64{1, 1, 12.34, math.Inf(-1), 1e9}[i%5])
		}
		f.Add(c.bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < chunkHeader {
			return
		}
		var want []point
		c, err := chunkenc.FromData(chunkenc.EncXOR, data)
		testenv.NoError(t, err)
		it := c.Iterator(nil)
		for it.Next() == chunkenc.ValFloat {
			ms, v := it.At()
			want = append(want, point{ms, v})
		}
		got, err := appendPoints(nil, data, math.MinInt64, math.MaxInt64)
		if err != nil {
			want = want[:min(len(got), len(want))]
		}
		if err == nil && it.Err() != nil || !slices.EqualFunc(got, want, samePoint) {
			t.Fatalf("%v, %v, want %v, %v", got, err, want, it.Err())
		}
	})
}

// samePoint reports whether two values have equal times and equal bits.
func samePoint(a, b point) bool {
	return a.ms == b.ms && math.Float64bits(a.value) == math.Float64bits(b.value)
}
