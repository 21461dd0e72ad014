package react

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
)

// The end of a problem whose opening was lost leaves a trace for whom it was meant; that of a problem
// of which nobody was to hear does not.
func TestAnOpeningThatNeverCameLeavesATrace(t *testing.T) {
	spec, got := hook(t, nil)
	s, n := sqlite(t), someNames(map[string]*model.HandlerSpec{"pager": spec})
	r := run(t, Options{Store: s, Names: n})
	r.Emit([]event.Transition{closing("lost", 3), opening("both", 4), closing("both", 5)})
	r.recorded(pos(5))
	if m := receive(t, "message", got); m.key != "both/opened/default/pager" {
		t.Errorf("%+v", m)
	}
	handlers := n.chunk.Handlers
	n.chunk.Handlers = nil
	r.Emit([]event.Transition{opening("nobody", 6)})
	r.recorded(pos(6))
	n.chunk.Handlers = handlers
	r.Emit([]event.Transition{closing("nobody", 7)})
	r.recorded(pos(7))
	list, err := s.Deliveries(t.Context(), "lost")
	if err != nil || len(list) != 1 || list[0].State != history.Withheld || list[0].Handler.Name != "pager" || list[0].LastError != "its opening was not recorded" {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := s.Deliveries(t.Context(), "nobody"); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if n := testutil.ToFloat64(r.metrics.unopened); n != 1 {
		t.Errorf("%v problems are counted", n)
	}
}
