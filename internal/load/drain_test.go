package load

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/wire"
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

// TestAServerThatFell expects in the report how the server's process ended, and the results that it did not answer.
func TestAServerThatFell(t *testing.T) {
	rep := playOn(t, Config{Scenario: scenario.Uniform{Agents: 5, Checks: 4, Interval: time.Second, Steady: 5 * time.Second}.Scenario(), Fell: func() string { return "signal: killed" }},
		&ideal{checks: 4, fault: func(number uint64, _ *wire.Signal) fault {
			if number > 3 {
				return mute
			}
			return right
		}})
	if failed := rep.Failed(); !rep.Lost() || len(failed) == 0 || failed[0] != "the server under test ended by itself: signal: killed" {
		t.Errorf("%q; %q", failed, rep.Verdict)
	}
}
