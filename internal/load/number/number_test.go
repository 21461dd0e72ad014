package number

import "testing"

// TestFormats compares formatted numbers, times, sizes and shares.
func TestFormats(t *testing.T) {
	for _, c := range []struct {
		format func(float64) string
		v      float64
		want   string
	}{
		{Count[float64], 1_234_567, "1,234,567"}, {Count[float64], -1234, "-1,234"}, {Count[float64], -234, "-234"}, {Count[float64], -0.2, "0"}, {Count[float64], 999.6, "1,000"},
		{Three, 0.19, "0.190"}, {Three, 0.0042, "0.00420"}, {Three, 9.999, "10.0"}, {Three, 24.44, "24.4"}, {Three, 99.96, "100"}, {Three, 16000, "16,000"}, {Three, 0, "0"}, {Three, 0.0000123, "1.2e-05"},
		{Short, 16_000, "16k"}, {Short, 5000, "5,000"}, {Short, 1.5e6, "1.5M"}, {Short, 0.25, "0.25"}, {Short, 42.996, "43"}, {Short, 250, "250"},
		{Millis, 0, "0 ms"}, {Millis, 0.0523, "52.3 µs"}, {Millis, 3.8, "3.80 ms"}, {Millis, 527.359, "527 ms"}, {Millis, 14417.9, "14.4 s"}, {Millis, 600_000, "10.0 min"},
		{Seconds, 2.6, "2.60 s"}, {Seconds, 0.7465, "747 ms"}, {Seconds, 7200, "2.00 h"},
		{Bytes, 25163.9, "25.2 kB"}, {Bytes, 493.86, "494 B"}, {Bytes, 999_700, "1.00 MB"}, {Bytes, 1.0163e9, "1.02 GB"}, {Bytes, 0, "0 B"},
		{Percent, 0.05, "5 %"}, {Percent, 1.2, "120 %"}, {Rate, 31999.7, "32,000"}, {Rate, 8.333, "8.3"}, {Rate, 0, "0"},
		{func(v float64) string { return Bare(Millis(v)) }, 20, "20 ms"}, {func(v float64) string { return Round(v, 2) }, 1.5, "1.5"},
		{func(v float64) string { return In(v, "ms") }, 20, "20.0 ms"}, {func(v float64) string { return In(v, "%") }, 99, "99 %"}, {func(v float64) string { return In(v, "µs") }, 12.34, "12.3 µs"},
	} {
		if got := c.format(c.v); got != c.want {
			t.Errorf("%g: %q, want %q", c.v, got, c.want)
		}
	}
	if Of(1, "place") != "1 place" || Of(1200, "place") != "1,200 places" {
		t.Error(Of(1, "place"), Of(1200, "place"))
	}
}
