package wire

import (
	"encoding/binary"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// newHundredSignalBatch returns a batch of a hundred results with outputs of 100 bytes.
func newHundredSignalBatch() *Batch {
	b := &Batch{StreamKey: StreamKey{Stream: 0x1122334455667788}, First: 1 << 20, NowMs: 864_000_500}
	for i := range 100 {
		out := make([]byte, 100)
		for j := range out {
			out[j] = 'a' + byte((i+j)%26)
		}
		b.Signals = append(b.Signals, ResultSignal(Signal{Definition: model.DefinitionID(1000 + i), AtMs: 864_000_000 + uint64(i)}, Result{Status: model.Status(i % 4), DurationMs: 12, Output: out}))
	}
	return b
}

// reportTimePerSignal makes a benchmark print the nanoseconds per signal (numbered message). A signal is a numbered
// message of an agent.
func reportTimePerSignal(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/signal")
}

// BenchmarkReadBatch decodes batches of results, and measures the time per result.
func BenchmarkReadBatch(b *testing.B) {
	_, body, _ := FrameKind(AppendBatch(nil, newHundredSignalBatch()))
	var r BatchReader
	var s Signal
	var result Result
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Reset(body); err != nil {
			b.Fatal(err)
		}
		n := 0
		for r.Next(&s) && result.Decode(s.Body) == nil {
			n++
		}
		if n != 100 {
			b.Fatal(n, r.Err())
		}
	}
	reportTimePerSignal(b, 100)
}

// BenchmarkAppendSignal measures the time to encode one signal (a numbered message), such as a result.
func BenchmarkAppendSignal(b *testing.B) {
	batch := newHundredSignalBatch()
	results := make([]Result, len(batch.Signals))
	for i := range batch.Signals {
		results[i], _ = batch.Signals[i].Result()
	}
	var buf, body []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = buf[:0]
		for i := range batch.Signals {
			s := batch.Signals[i]
			body = AppendResult(body[:0], &results[i])
			s.Body = body
			buf = AppendSignal(buf, &s)
		}
	}
	reportTimePerSignal(b, 100)
}

// BenchmarkAppendBatch encodes batches of results, and measures the time per result.
func BenchmarkAppendBatch(b *testing.B) {
	batch := newHundredSignalBatch()
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendBatch(buf[:0], batch)
	}
	reportTimePerSignal(b, 100)
}

// BenchmarkResendBatch measures how fast an agent puts stored, already encoded results into a batch.
func BenchmarkResendBatch(b *testing.B) {
	batch := newHundredSignalBatch()
	var signals, buf []byte
	for i := range batch.Signals {
		signals = AppendSignal(signals, &batch.Signals[i])
	}
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendBatchHeader(buf[:0], batch.StreamKey, batch.First, batch.NowMs, len(signals))
		buf = append(buf, signals...)
	}
	reportTimePerSignal(b, 100)
}

// TestUvarintEqualsStandardLibrary decodes varints fast, and expects the standard library's results. It also tests the
// end of the input.
func TestUvarintEqualsStandardLibrary(t *testing.T) {
	for bits := range 64 {
		for _, v := range []uint64{1 << bits, 1<<bits - 1, 1<<bits | 1, 0x5555555555555555 & (1<<bits - 1)} {
			for _, tail := range []string{"", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\x00\x01\x80"} {
				data := append(binary.AppendUvarint([]byte{0xee}, v), tail...)
				want := 1 + len(data) - 1 - len(tail)
				if got, n := uvarint(data, 1); got != v || n != want {
					t.Fatalf("%#x with %d bytes behind: got %#x, %d", v, len(tail), got, n)
				}
			}
		}
	}
	for _, bad := range []string{"", "\x80", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		if _, n := uvarint([]byte(bad), 0); n >= 0 {
			t.Errorf("%x: accepted", bad)
		}
	}
}
