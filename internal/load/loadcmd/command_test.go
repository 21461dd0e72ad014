package loadcmd

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load"
)

// `muster load prepare` needs no running server.
func TestPrepareFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for range 2 {
		if err := prepareFolder(t.Context(), dir, "", load.Preparation{Agents: 10, Checks: 3, Interval: time.Second}); err != nil {
			t.Fatal(err)
		}
	}
}
