package page

import (
	"strings"
	"testing"
)

func TestNumbersAreToldAsPeopleReadThem(t *testing.T) {
	for _, c := range []struct {
		how  func(float64) string
		v    float64
		want string
	}{
		{count, 1_234_567, "1,234,567"}, {count, -1234, "−1,234"}, {count, 999.6, "1,000"}, {count, 12, "12"},
		{figures, 0.19, "0.190"}, {figures, 0.0042, "0.00420"}, {figures, 9.999, "10.0"}, {figures, 24.44, "24.4"}, {figures, 99.96, "100"}, {figures, 16000, "16,000"}, {figures, 0, "0"}, {figures, 0.0000123, "1.2e-05"},
		{bare(figures), 0.5, "0.5"}, {bare(figures), 100, "100"}, {bare(millis), 20, "20 ms"}, {bare(size), 5e8, "500 MB"},
		{short, 16_000, "16k"}, {short, 5000, "5,000"}, {short, 1.5e6, "1.5M"}, {short, 0.25, "0.25"},
		{millis, 0, "0 ms"}, {millis, 0.0523, "52.3 µs"}, {millis, 3.8, "3.80 ms"}, {millis, 527.359, "527 ms"}, {millis, 14417.9, "14.4 s"}, {millis, 600_000, "10.0 min"},
		{seconds, 2.6, "2.60 s"}, {seconds, 0.7465, "747 ms"}, {seconds, 7200, "2.00 h"},
		{clock, 30.0027, "30 s"}, {clock, -15, "−15 s"}, {clock, 61.25, "61.2 s"}, {clock, 600, "10:00"}, {minutes, 90, "1:30"}, {minutes, -5, "−0:05"}, {clock, 3725, "1:02:05"},
		{size, 25163.9, "25.2 kB"}, {size, 493.86, "494 B"}, {size, 1.0163e9, "1.02 GB"}, {size, 0, "0 B"},
		{percent, 0.05, "5 %"}, {little, 0.05, "5 %"}, {little, 0, "0 %"}, {little, 8.4e-7, "less than 0.01 %"}, {ofCores, 0.003, "less than 1 % of a core"}, {ofCores, 0.04, "4 % of a core"}, {percent, 1.2, "120 %"}, {nines, 99.9, "99.9 %"}, {nines, 50, "50 %"},
	} {
		if got := strings.ReplaceAll(c.how(c.v), nb, " "); got != c.want {
			t.Errorf("%g: %q, want %q", c.v, got, c.want)
		}
	}
}
