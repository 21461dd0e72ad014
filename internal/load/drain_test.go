package load

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/scenario"
)

// TestStatesThatCannotBeRead lets the view of a server fail or hang at the end of a run, and expects a report from the
// ledger alone that says so.
func TestStatesThatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		look func(ctx context.Context) error
		says string
	}{
		"refused": {func(context.Context) error { return errors.New("connection refused") }, "connection refused"},
		"hangs":   {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, "that was not over after "},
	} {
		t.Run(name, func(t *testing.T) {
			rep := playUniform(t, scenario.Uniform{Agents: 20, Interval: time.Second, Steady: 5 * time.Second}, &ideal{look: c.look})
			said := strings.Join(rep.Verdict, "; ")
			if rep.OK() || rep.Lost() || !rep.Valid || len(rep.Failed()) != 1 || !strings.HasPrefix(said, "what the server holds could not be read, and is not compared: "+c.says) {
				t.Errorf("%q; %q", rep.Failed(), said)
			}
			if b := rep.Balance; b.Sent == 0 || b.Sent != b.Acknowledged || b.WasCompared() {
				t.Errorf("%+v", b)
			}
		})
	}
}
