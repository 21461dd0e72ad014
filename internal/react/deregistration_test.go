package react

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/wire"
)

// Whom a forgotten node names hears of it once, also when the journal is played again.
func TestWhoHearsOfAForgottenNode(t *testing.T) {
	spec, got := hook(t, nil)
	n := someNames(map[string]*model.HandlerSpec{"cmdb": spec, "pager": {PagerDuty: &model.PagerDuty{RoutingKey: model.Secret{Text: "key"}}}})
	n.gone = true
	store := sqlite(t)
	left := event.Transition{
		At: pos(1), Partition: 1, Kind: event.Deregistered, Node: 10, Source: model.CheckSource(model.KeepaliveCheck), Received: noon.UnixNano(), Executed: noon.UnixNano(), Output: "no session for 1h",
		Deregistered: &wire.ForgetMark{Deleted: true, Deregistered: "default/web01", Handlers: "default/cmdb,default/pager", Reason: "no session for 1h"},
	}
	for range 2 {
		r := run(t, Options{Store: store, Names: n})
		r.Emit([]event.Transition{left})
		r.recorded(pos(1))
		r.stop()
	}
	r := run(t, Options{Store: store, Names: n})
	if m := receive(t, "message", got); !strings.Contains(m.body, `"kind":"deregistered"`) || !strings.Contains(m.body, "DEREGISTERED: node web01 was forgotten: no session for 1h") || m.key != "left-10/default/cmdb" {
		t.Errorf("%+v", m)
	}
	for dead := false; !dead; {
		receive(t, "attempt", store.tried)
		list, err := store.Deliveries(t.Context(), "left-10")
		if err != nil || len(list) != 2 {
			t.Fatalf("%+v, %v", list, err)
		}
		for _, d := range list {
			if d.Handler.Name == "pager" && d.State == history.Dead {
				dead = strings.Contains(d.LastError, "no incident") && d.Kind == handler.Deregistered
			}
		}
	}
	r.stop()
	for len(got) > 0 { // a stop in the middle of an attempt has it made again, under the same key
		if m := <-got; m.key != "left-10/default/cmdb" {
			t.Errorf("told more than once: %+v", m)
		}
	}
}
