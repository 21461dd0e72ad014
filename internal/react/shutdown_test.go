package react

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
)

// A planned stop lets what is under way end, and records it: it does not come again. What takes
// longer than a while is cut off, and comes again.
func TestAStopLetsMessagesEnd(t *testing.T) {
	s := sqlite(t)
	taking, took := make(chan struct{}), false
	spec, got := hook(t, func(posted) int {
		if !took {
			took = true
			<-taking
		}
		return 200
	})
	n := someNames(map[string]*model.HandlerSpec{"pager": spec})
	r := run(t, Options{Store: s, Names: n, Delivery: DeliveryOptions{Retry: quick}, shutdownWait: patience})
	r.Emit([]event.Transition{opening("p1", 1)})
	receive(t, "request", got)
	time.AfterFunc(100*time.Millisecond, func() { close(taking) }) // while it stops
	r.stop()
	if a := receive(t, "attempt", s.tried); a.State != history.Delivered {
		t.Fatalf("%+v", a)
	}
	r = run(t, Options{Store: s, Names: n, Delivery: DeliveryOptions{Retry: quick}})
	r.Emit([]event.Transition{opening("p2", 2)})
	if p := receive(t, "request", got); p.key != "p2/opened/default/pager" {
		t.Errorf("%s was told again", p.key)
	}
	receive(t, "attempt", s.tried)

	hang := make(chan struct{})
	hangs, hanging := hook(t, func(posted) int { <-hang; return 200 })
	t.Cleanup(func() { close(hang) })
	n.set("pager", hangs)
	r.Emit([]event.Transition{opening("p3", 3)})
	receive(t, "request that hangs", hanging)
	r.stop()
	list, err := s.Deliveries(t.Context(), "p3")
	if err != nil || len(list) != 1 || list[0].State != history.Pending || list[0].Attempts != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}
