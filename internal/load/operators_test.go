package load

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/streamed"
	"github.com/muster-fleet/muster/internal/model"
)

// TestLeftUndoneIsSaid plays a run without a login, and expects that its report names all parts that need one.
func TestLeftUndoneIsSaid(t *testing.T) {
	sc := &scenario.Scenario{
		Faults:    []scenario.Fault{{Stop: &scenario.Pick{Count: 1}}},
		Intent:    []scenario.Change{{Create: 1, Kind: "check"}},
		Operators: scenario.Operators{Lists: 1},
	}
	r := &run{cfg: Config{Scenario: sc}}
	want := []string{
		"whether healthy machines were called silent was not judged: there was no login",
		"intent was not changed: there was no login",
		"operators did nothing: there was no login",
		"alerts of the faults were not judged: there was no login",
	}
	if got := r.leftUndone(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	sc.Faults, sc.Operators = []scenario.Fault{{Cut: &scenario.Pick{}}}, scenario.Operators{}
	if got := r.leftUndone(); !slices.Equal(got, want[:2]) {
		t.Errorf("%q", got)
	}
	r.cfg.API = &client.Client{}
	if got := r.leftUndone(); got != nil {
		t.Errorf("%q", got)
	}
}

// TestWhichResultsAreLines expects a stream line for each acknowledged result, under the proxy node's name if it is
// about one, and none for keepalives and refused results.
func TestWhichResultsAreLines(t *testing.T) {
	r := &run{epoch: time.Now()}
	k, err := streamed.Listen(streamed.Run{Address: "127.0.0.1", Now: r.now, Since: func(int64) float64 { return 0 }, OwnName: observe.OwnName})
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{run: r, name: "web-00007-renamed", class: &class{checks: []playing{{full: "http"}, {full: "ping", about: &about{names: []string{"switch-0000", "switch-0001"}, pairs: make([]pair, 2)}}}}}
	a.ledger.states = make(observe.Entries, 1)
	a.ledger.lines = k.Machine(7, "web-00007", a.numbers)
	about := &sign{check: 1, about: 2, status: model.Critical, intended: 5}
	a.passed(1, &sign{check: 0}, true, false, 9)
	a.passed(2, about, true, false, 9)
	a.passed(3, &sign{check: -1}, true, false, 9)
	a.passed(4, &sign{check: 0}, true, true, 9)
	ctx, end := context.WithCancel(t.Context())
	end()
	if got := k.Conclude(ctx); got.Missing != 2 {
		t.Errorf("%+v", got)
	}
	if got, want := *a.line(about), (streamed.Result{Node: "switch-0001", Check: "ping", Status: "CRITICAL", At: 5}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := a.line(&sign{check: 0}); got.Node != "web-00007" || got.Check != "http" {
		t.Errorf("%+v", got)
	}
	a.ledger.sent, a.ledger.shown, a.ledger.acked, a.ledger.refused = 9, 8, 3, 1
	if got := a.numbers(); got != (streamed.Numbers{Settled: 4, Sent: 8, Given: 9}) {
		t.Errorf("%+v", got)
	}
}
