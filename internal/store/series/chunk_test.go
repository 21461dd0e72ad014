package series

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/muster-fleet/muster/internal/pipeline/shard"
)

// FuzzOpenChunk appends values to an open chunk, which goes through a snapshot in between, and expects the bytes of an XORChunk.
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
			again := decodeOpen(d)
			if d.Err() != nil || len(d.Rest()) > 0 || !bytes.Equal(again.data[chunkHeader:], got.data[chunkHeader:]) {
				t.Fatalf("decoded %+v, %v, want %+v", again, d.Err(), got)
			}
			got = again
		}
	})
}
