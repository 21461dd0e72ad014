package historytest

import (
	"fmt"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/store/history"
)

// testMessages lists sent and shadow deliveries by time and page, with the names of their problems. Pending
// and withheld deliveries and beats are no messages.
func testMessages(t *testing.T, open func() history.Store) {
	s := open()
	defer s.Close()
	b := history.Batch{Opened: []history.Problem{problem("one", "web01", 0), problem("two", "web02", 0)}}
	b.Opened[1].Namespace = "beside"
	add := func(key, problem, tells string, state history.DeliveryState, minute int) {
		d := delivery(problem, "opened", pager, minute)
		d.Key, d.State, d.Route, d.Tells, d.Count = key, state, "default/on-call", tells, 3
		if state != history.Pending {
			d.Ended = at(minute)
		}
		b.Deliveries = append(b.Deliveries, d)
	}
	add("sent", "one", "opened", history.Delivered, 1)
	add("dead", "one", "reminder", history.Dead, 2)
	add("waits", "one", "opened", history.Pending, 3)
	add("withheld", "one", "opened", history.Withheld, 3)
	for i := range 4 {
		add(fmt.Sprint("shadow", i), "two", "closed", history.Shadow, 4+i/2) // two at a time
	}
	add("gone", "another", "", history.Delivered, 9)
	b.Deliveries = append(b.Deliveries, history.Delivery{Key: "beat", Problem: "watchdog", Handler: pager, Kind: "beat", Payload: []byte("{}"), Created: at(5), State: history.Delivered, Ended: at(5)})
	must(t, s.Record(t.Context(), b))

	list := func(q history.MessageQuery) (said []string) {
		t.Helper()
		for {
			page := ok(s.Messages(t.Context(), q))
			for _, m := range page {
				said = append(said, fmt.Sprintf("%s %s/%s/%s %s %s %s ×%d %d", m.State, m.Namespace, m.Node, m.SourceName, m.Route, m.Tells, m.Ended.Sub(at(0)), m.Count, len(m.Payload)))
			}
			if q.Limit == 0 || len(page) < q.Limit {
				return said
			}
			q.Until, q.BeforeID = page[len(page)-1].Ended, page[len(page)-1].ID
		}
	}
	shadow := "shadow beside/web02/disk default/on-call closed %s ×3 %d"
	shadows := func(payload int) (out []string) {
		for _, m := range []string{"5m0s", "5m0s", "4m0s", "4m0s"} {
			out = append(out, fmt.Sprintf(shadow, m, payload))
		}
		return out
	}
	sent := []string{"dead default/web01/disk default/on-call reminder 2m0s ×3 0", "delivered default/web01/disk default/on-call opened 1m0s ×3 0"}
	equal(t, "all", list(history.MessageQuery{}), append(append([]string{"delivered // default/on-call opened 9m0s ×3 0"}, shadows(0)...), sent...))
	equal(t, "shadow, in pages", list(history.MessageQuery{Shadow: true, Limit: 1}), shadows(13))
	equal(t, "of a namespace", list(history.MessageQuery{Namespace: "default"}), sent)
	equal(t, "of a time", list(history.MessageQuery{Since: at(2), Until: at(4)}), sent[:1])
}

// testMarks lists acknowledgements and starts of flapping, and no other entries.
func testMarks(t *testing.T, open func() history.Store) {
	s := open()
	defer s.Close()
	oldest := ok(s.Oldest(t.Context()))
	equal(t, "nothing is kept", oldest, time.Time{})
	var b history.Batch
	for i, kind := range []history.EntryKind{history.StatusChanged, history.FlappingStarted, history.Acknowledged, history.FlappingEnded, history.FlappingStarted} {
		e := entry(uint64(i+1), i)
		e.Kind = kind
		if i == 4 {
			e.Namespace = "other"
		}
		b.Entries = append(b.Entries, e)
	}
	must(t, s.Record(t.Context(), b))
	list := func(q history.EntryQuery) (said []string) {
		entries := ok(s.Marks(t.Context(), q))
		for _, e := range entries {
			said = append(said, fmt.Sprint(e.Kind, e.At.Sub(at(0)).Minutes()))
		}
		return said
	}
	equal(t, "all", list(history.EntryQuery{}), []string{"flapping4", "acknowledged2", "flapping1"})
	equal(t, "of a namespace and time", list(history.EntryQuery{Namespace: "default", Since: at(2), Before: at(4)}), []string{"acknowledged2"})
	oldest = ok(s.Oldest(t.Context()))
	equal(t, "the oldest", oldest, at(0))
	problems := ok(s.Problems(t.Context(), history.ProblemQuery{Since: at(1)}))
	equal(t, "problems since", len(problems), 0)
	must(t, s.Record(t.Context(), history.Batch{Opened: []history.Problem{problem("before", "web01", 0), problem("since", "web01", 1)}}))
	for _, node := range []string{"", "web01"} {
		problems = ok(s.Problems(t.Context(), history.ProblemQuery{Node: node, Since: at(1)}))
		if len(problems) != 1 || problems[0].ID != "since" {
			t.Errorf("problems of %q since: %v", node, problems)
		}
	}
}
