package metric

import (
	"testing"

	"github.com/muster-fleet/muster/internal/item"
)

// TestFormatValue formats numbers with units, and expects the prefixes and forms that Zabbix has for the units.
func TestFormatValue(t *testing.T) {
	for _, c := range []struct {
		number     float64
		unit, want string
	}{
		{1536, "B", "1.5 KiB"}, {1 << 50, "B", "1024 TiB"}, {1023, "B", "1023 B"}, {-2048, "Bps", "-2 KiBps"}, {2.5e9, "bps", "2.5 Gbps"}, {999, "bps", "999 bps"}, {3.2e9, "Hz", "3.2 GHz"},
		{12345, "%", "12345 %"}, {12345, "!B", "12345 B"}, {12345, "", "12345"}, {12345, "requests", "12345 requests"}, {0.25, "s", "0.25 s"}, {90, "s", "1m30s"},
		{1707134400, "unixtime", "2024-02-05T12:00:00Z"}, {93784, "uptime", "1 day, 02:03:04"}, {59, "uptime", "00:00:59"},
	} {
		if got := FormatValue(item.FromFloat(c.number), c.unit); got != c.want {
			t.Errorf("%g %s: %s, expected %s", c.number, c.unit, got, c.want)
		}
	}
}
