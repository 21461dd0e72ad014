package historytest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/store/history"
)

// testEscalations lists escalations of all problems or one, as they were written last, until they finish.
func testEscalations(t *testing.T, open func() history.Store) {
	s := open()
	key := func(problem, route string) history.EscalationKey {
		return history.EscalationKey{Problem: problem, Route: route}
	}
	first := history.Escalation{EscalationKey: key("p2", ""), NodeID: 7, Source: model.CheckSource(1001), Group: "p2", Lead: "p2", Opened: at(0), Direct: []history.HandlerRef{mail}, Next: make(route.Escalation, 1), Notified: []history.NotifiedHandler{{HandlerRef: mail, Incident: "p2.1", Acked: true}}, AckEnds: at(5)}
	held := history.Escalation{EscalationKey: key("p1", "default/b"), NodeID: 7, Source: model.CheckSource(1001), Group: "g\x00h", Lead: "p0", Opened: at(1), Next: route.Escalation{at(2), time.Time{}}, Shadow: true, Due: at(9),
		Held: &route.Hold{Kind: route.OverRate, By: route.Name{Namespace: "default", Name: "b"}, Reason: "more than 2 messages in 1h", Until: at(9)}}
	closing := history.Escalation{EscalationKey: key("p1", "default/a"), NodeID: 7, Source: model.CheckSource(1001), Group: "disk", Lead: "p1", Opened: at(1), Next: route.Escalation{at(3)}, Closing: json.RawMessage(`{"version":1}`), Due: at(4)}
	earlier := held
	earlier.Held, earlier.Due = nil, time.Time{}
	must(t, s.Record(t.Context(), history.Batch{Escalations: []history.Escalation{first, earlier, closing}}))
	must(t, s.Record(t.Context(), history.Batch{Escalations: []history.Escalation{held}}))
	must(t, s.Close())

	s = open()
	defer s.Close()
	list := ok(s.Escalations(t.Context()))
	equal(t, "all, by problem and route", list, []history.Escalation{closing, held, first})
	list = ok(s.EscalationsOf(t.Context(), "p1"))
	equal(t, "of one", list, []history.Escalation{closing, held})
	must(t, s.Record(t.Context(), history.Batch{Finished: []history.EscalationKey{held.EscalationKey, first.EscalationKey, key("p1", "")}}))
	list = ok(s.Escalations(t.Context()))
	equal(t, "left", list, []history.Escalation{closing})
	list = ok(s.EscalationsOf(t.Context(), "p2"))
	equal(t, "of one that is over", len(list), 0)
}
