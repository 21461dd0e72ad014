package load

import (
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

// TestAllowedToBeLate raises the allowed lag of a run, and expects a label in the report.
func TestAllowedToBeLate(t *testing.T) {
	for lag, labels := range map[time.Duration]int{0: 0, 50 * time.Millisecond: 0, 1500 * time.Millisecond: 1} {
		c, err := Config{Options: play.Options{Server: "127.0.0.1:1", Scenario: scenario.Uniform{}.Scenario()}, MaxLag: lag}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		rep := newReport(c)
		if len(rep.Label) != labels || rep.Plan.MaxLag != ms(c.MaxLag) || labels > 0 && !strings.Contains(rep.Label[0], "allowed to be 1.5s late (p99), not 50ms") {
			t.Errorf("%s: %q, %v", lag, rep.Label, rep.Plan.MaxLag)
		}
	}
}
