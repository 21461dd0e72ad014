package historytest

import (
	"testing"

	"github.com/muster-fleet/muster/internal/store/history"
)

// testDead replays dead letters of open problems, of closed ones, and of closed ones whose opening was
// delivered.
func testDead(t *testing.T, open func() history.Store) {
	s := open()
	defer s.Close()
	ended := problem("ended", "web02", 0)
	ended.Closed = at(5)
	heard := problem("heard", "web03", 0)
	heard.Closed = at(5)
	must(t, s.Record(t.Context(), history.Batch{
		Opened: []history.Problem{problem("open", "web01", 0)}, Closed: []history.Problem{ended, heard},
		Deliveries: []history.Delivery{
			delivery("open", "opened", pager, 0), delivery("ended", "opened", pager, 0), delivery("heard", "opened", pager, 0), delivery("open", "opened", mail, 0),
			delivery("ended", "closed", pager, 5), delivery("heard", "closed", pager, 5),
		},
	}))
	id := map[string]int64{}
	for _, p := range []string{"open", "ended", "heard"} {
		list := ok(s.Deliveries(t.Context(), p))
		for _, d := range list {
			id[d.Key] = d.ID
		}
	}
	end := func(key string, state history.DeliveryState) {
		must(t, s.RecordAttempts(t.Context(), history.Outcome{ID: id[key], Attempt: history.Attempt{At: at(6), State: state, Error: "no"}}))
	}
	for _, key := range []string{"open/opened/pager", "ended/opened/pager", "heard/closed/pager", "open/opened/mail"} {
		end(key, history.Dead)
	}
	end("heard/opened/pager", history.Delivered)
	end("ended/closed/pager", history.Delivered)

	dead := ok(s.DeadLetters(t.Context(), pager, 0, 2))
	equal(t, "newest first", keys(dead), []string{"heard/closed/pager", "ended/opened/pager"})
	dead = ok(s.DeadLetters(t.Context(), pager, dead[1].ID, 2))
	equal(t, "next page", keys(dead), []string{"open/opened/pager"})

	revive := func(q history.Revival) history.Revived {
		done := ok(s.Revive(t.Context(), pager, at(60), q))
		return done
	}
	equal(t, "of the limit", revive(history.Revival{Limit: 1}), history.Revived{Revived: 1, Over: 1, More: 1})
	equal(t, "of others' ids", revive(history.Revival{Limit: 10, IDs: []int64{id["open/opened/mail"], 4711}}), history.Revived{})
	equal(t, "the rest", revive(history.Revival{Limit: 10}), history.Revived{Revived: 1, Over: 1})
	due, _, err := s.Due(t.Context(), at(61), 10, nil)
	must(t, err)
	equal(t, "due again", keys(due), []string{"open/opened/pager", "heard/closed/pager"})
	if d := due[0]; !d.Replayed.Equal(at(60)) || d.Attempts != 0 || !d.Ended.IsZero() || !d.Since().Equal(at(60)) || !d.Created.Equal(at(0)) {
		t.Errorf("%+v", d)
	}
	// The closing of an ended problem goes with it, although it was delivered before: first the opening, then
	// the closing.
	equal(t, "ended too", revive(history.Revival{Limit: 10, Ended: true}), history.Revived{Revived: 2})
	end("open/opened/pager", history.Delivered)
	end("heard/closed/pager", history.Delivered)
	due, _, err = s.Due(t.Context(), at(61), 10, nil)
	must(t, err)
	equal(t, "its beginning", keys(due), []string{"ended/opened/pager"})
	end("ended/opened/pager", history.Delivered)
	due, _, err = s.Due(t.Context(), at(61), 10, nil)
	must(t, err)
	equal(t, "its end", keys(due), []string{"ended/closed/pager"})
	equal(t, "nothing is left", revive(history.Revival{Limit: 10, Ended: true}), history.Revived{})

	standing := ok(s.HandlersWithOpen(t.Context()))
	equal(t, "who was told of what is open", standing, []history.HandlerRef{pager})
	list := ok(s.OpenDeliveries(t.Context(), pager, 0, 10))
	equal(t, "of what", keys(list), []string{"open/opened/pager"})
	list = ok(s.OpenDeliveries(t.Context(), pager, list[0].ID, 10))
	equal(t, "after that", keys(list), []string(nil))
}
