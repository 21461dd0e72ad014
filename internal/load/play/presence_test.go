package play

import (
	"context"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/clock"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/streamed"
	"github.com/muster-fleet/muster/internal/model"
)

// TestStays records the sessions and network of a machine, and expects the times with both.
func TestStays(t *testing.T) {
	r := &Fleet{Clock: &clock.Clock{Epoch: time.Now().Add(-time.Hour)}}
	a := &agent{fleet: r}
	a.count()
	if s := a.ledger.Stays; len(s) != 1 || s[0].From < int64(time.Hour) || s[0].To != observe.Lasts {
		t.Errorf("in its session: %v", s)
	}
	a.vanish(true)
	a.count() // a session that was being opened
	if s := a.ledger.Stays; len(s) != 1 || s[0].To == observe.Lasts {
		t.Errorf("off the network: %v", s)
	}
	a.appear()
	a.left(t.Context(), nil)
	a.count()
	if s := a.ledger.Stays; len(s) != 2 || s[0].To > s[1].From || s[1].To != observe.Lasts {
		t.Errorf("back: %v", s)
	}
}

// TestWhichResultsAreLines expects a stream line for each acknowledged result, under the proxy node's name if it is
// about one, and none for keepalives and refused results.
func TestWhichResultsAreLines(t *testing.T) {
	r := &Fleet{Clock: clock.New()}
	k, err := streamed.Listen(streamed.Run{Address: "127.0.0.1", Clock: r.Clock})
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{fleet: r, name: "web-00007-renamed", class: &class{checks: []playing{{full: "http"}, {full: "ping", about: &about{names: []string{"switch-0000", "switch-0001"}, pairs: make([]pair, 2)}}}}}
	a.ledger.States = make(observe.Entries, 1)
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
	a.ledger.Sent, a.ledger.shown, a.ledger.Acked, a.ledger.Refused = 9, 8, 3, 1
	if got := a.numbers(); got != (streamed.Numbers{Settled: 4, Sent: 8, Given: 9}) {
		t.Errorf("%+v", got)
	}
}
