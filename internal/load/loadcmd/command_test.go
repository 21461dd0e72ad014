package loadcmd

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/load/simulated"
)

// `muster load prepare` needs no running server.
func TestPrepareFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	fill := func(ctx context.Context, s *intent.Service) error {
		return simulated.Prepare(ctx, s, simulated.Preparation{Agents: 10, Checks: 3, Interval: time.Second})
	}
	for range 2 {
		if err := prepareFolder(t.Context(), dir, "", fill); err != nil {
			t.Fatal(err)
		}
	}
}
