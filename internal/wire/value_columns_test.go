package wire

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/item"
)

// decodeColumns decodes all values of a value block for tests.
func decodeColumns(b *ValueBlock) (times []int64, values []BlockValue, err error) {
	var r ColumnReader
	if err := r.Reset(b); err != nil {
		return nil, nil, err
	}
	var v BlockValue
	for r.Next(&v) {
		values = append(values, v)
	}
	return r.Times(), values, r.Err()
}

// goldenValues returns the test values of the golden files. They have each encoding mode, at one or several of three
// times.
func goldenValues() (times []int64, values []BlockValue) {
	return []int64{0, 1e9, 2e9}, []BlockValue{
		{Position: 0, Row: 0, Value: item.FromFloat(0.25)}, {Position: 0, Row: 1, Value: item.FromFloat(0.3)}, {Position: 0, Row: 2, Value: item.FromFloat(-1)},
		{Position: 1, Row: 1, Value: item.FromUnsigned(math.MaxUint64)}, {Position: 1, Row: 2, Value: item.FromUnsigned(3)},
		{Position: 4, Row: 0, Value: item.FromFloat(math.Pi)}, {Position: 4, Row: 1, Value: item.FromFloat(math.Inf(1))}, {Position: 4, Row: 2, Value: item.FromFloat(math.Copysign(0, -1))},
		{Position: 9, Row: 2, Value: item.FromText("up \xff")},
		{Position: 10, Row: 0, Value: item.FromText("up")}, {Position: 10, Row: 1, Unsupported: true, Value: item.FromText("no such device")},
	}
}

// TestColumnsKeepEachValue encodes and decodes random values, and expects exactly the same values.
func TestColumnsKeepEachValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Int64(), 1, 20).Draw(t, "times")
		var values []BlockValue
		position := uint32(0)
		for range rapid.IntRange(1, 12).Draw(t, "columns") {
			position += rapid.Uint32Range(1, 300).Draw(t, "step")
			kind := rapid.IntRange(0, 5).Draw(t, "kind")
			exponent := rapid.IntRange(0, 12).Draw(t, "exponent")
			for row := range times {
				if rapid.IntRange(0, 3).Draw(t, "absent") == 0 {
					continue
				}
				v := BlockValue{Position: position, Row: uint32(row)}
				switch kind {
				case 0:
					v.Value = item.FromUnsigned(randomUint64(t))
				case 1:
					v.Value = item.FromFloat(rapid.Float64().Draw(t, "float"))
				case 2:
					v.Value = item.FromFloat(math.Float64frombits(randomUint64(t)))
				case 3:
					v.Value = item.FromFloat(float64(rapid.Int64Range(-1e9, 1e9).Draw(t, "mantissa")) / math.Pow10(exponent))
				case 4:
					v.Value = item.FromText(randomText(t))
				case 5:
					v.Value, v.Unsupported = item.FromText(randomText(t)), true
				}
				values = append(values, v)
			}
		}
		if len(values) < len(times) {
			return
		}
		columns := AppendColumns(nil, times, values)
		gotTimes, got, err := decodeColumns(&ValueBlock{Rows: uint32(len(values)), Columns: columns})
		if err != nil || !reflect.DeepEqual(gotTimes, times) || !reflect.DeepEqual(got, values) {
			t.Fatalf("%v\ngot  %v %v\nwant %v %v", err, gotTimes, got, times, values)
		}
	})
}

// TestColumnsAreSmall encodes typical series in columns, and expects few bytes per value.
func TestColumnsAreSmall(t *testing.T) {
	var values []BlockValue
	for p := range uint32(100) {
		for row := range uint32(5) {
			values = append(values, BlockValue{Position: p, Row: row, Value: item.FromFloat(float64(1000+p*7+row) / 100)})
		}
	}
	if got := len(AppendColumns(nil, []int64{0, 1, 2, 3, 4}, values)); got > 3*len(values) {
		t.Errorf("500 values with two decimals take %d bytes", got)
	}
}

// TestColumnsAllocateNothingPerValue encodes and decodes columns, and expects no memory allocation per value.
func TestColumnsAllocateNothingPerValue(t *testing.T) {
	times, values := goldenValues()
	dst := AppendColumns(nil, times, values)
	var r ColumnReader
	block := ValueBlock{Rows: uint32(len(values)), Columns: dst}
	_ = r.Reset(&block)
	if n := testing.AllocsPerRun(100, func() {
		dst = AppendColumns(dst[:0], times, values)
		_ = r.Reset(&block)
		var v BlockValue
		for r.Next(&v) {
		}
	}); n > 0 || r.Err() != nil {
		t.Errorf("%v allocations, error %v", n, r.Err())
	}
}

// FuzzColumns decodes random bytes as columns, and expects equality after encoding and decoding again.
func FuzzColumns(f *testing.F) {
	times, values := goldenValues()
	f.Add(uint32(len(values)), AppendColumns(nil, times, values))
	f.Add(uint32(1), []byte{1, 1, 0, 0, 1, 2, 50})
	f.Fuzz(func(t *testing.T, rows uint32, columns []byte) {
		times, values, err := decodeColumns(&ValueBlock{Rows: min(rows, uint32(len(columns))), Columns: columns})
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error of no class: %v", err)
			}
			return
		}
		if len(values) == 0 {
			return
		}
		gotTimes, got, err := decodeColumns(&ValueBlock{Rows: uint32(len(values)), Columns: AppendColumns(nil, times, values)})
		if err != nil || !reflect.DeepEqual(times, gotTimes) || !reflect.DeepEqual(got, values) {
			t.Fatalf("%v\ngot  %v %v\nwant %v %v", err, gotTimes, got, times, values)
		}
	})
}
