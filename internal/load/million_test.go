package load_test

import (
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// One result that is lost of a million is found, and nothing else is said.
func TestOneLostOfAMillion(t *testing.T) {
	if testing.Short() || testenv.Race {
		t.Skip("short or with the race detector: a million results")
	}
	const agents, checks, rate, seconds = 100, 40, 200_000, 5
	dropped := replaced(false, func(_ uint32, b *wire.Batch) []*wire.Batch {
		if b.First < rate*seconds/agents/2 {
			return nil
		}
		for i := range b.Signals {
			if b.Signals[i].Kind == wire.SignalResult {
				b.Signals[i] = wire.Signal{Kind: wire.SignalKeepalive, AtMs: b.NowMs}
				return []*wire.Batch{b}
			}
		}
		return nil
	})
	sc := scenario.Uniform{Agents: agents, Checks: checks, Rate: rate, PerFrame: 100, Linger: 100 * time.Millisecond, Changes: 0.02,
		Steady: seconds * time.Second, Warmup: time.Second, Drain: time.Minute}.Scenario()
	m := newMachine(t, pathOptions{scenario: sc}, dropped)
	rep, err := load.Run(t.Context(), load.Config{Server: m.addr, Scenario: sc, MaxLag: time.Hour, Spool: 16 << 20, Before: m})
	if err != nil {
		t.Fatal(err)
	}
	b := rep.Balance
	t.Logf("%s, %q", b, rep.Verdict)
	if b.Sent < 1_000_000 || b.Acknowledged != b.Sent || b.Compared != agents*checks || b.Differ != 1 || b.Imbalances != 1 || !rep.Lost() {
		t.Errorf("%+v", b)
	}
	if len(rep.Verdict) != 1 || !strings.Contains(rep.Verdict[0], "1 of 4000 event states differ from the ledger: 1 acknowledged and lost; node load-000") {
		t.Errorf("verdict %q", rep.Verdict)
	}
}
