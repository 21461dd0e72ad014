package loadcmd

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
)

// TestPrepareFolder prepares the data folder of a stopped server.
func TestPrepareFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	fill := func(ctx context.Context, s *intent.Service) error {
		return simulated.Prepare(ctx, s, scenario.Uniform{Agents: 10, Checks: 3}.Scenario())
	}
	for range 2 {
		if err := prepareFolder(t.Context(), dir, "", fill); err != nil {
			t.Fatal(err)
		}
	}
}
