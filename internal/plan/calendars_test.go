package plan

import (
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// The times in which a check does not run reach its nodes with its definition, and again when
// its Window changes, or the zone that both inherit.
func TestWindowsOfSchedulesReachTheNodes(t *testing.T) {
	h := newHouse(t)
	h.node("web01", nil, "web")
	h.put("Window", "default", "night", nil, &model.WindowSpec{Spans: []model.WindowSpan{{During: "22:00-07:00"}}})
	spec := shell("true", &model.Targets{Groups: []string{"web"}})
	spec.Schedule = &model.Schedule{Except: []model.ScheduleException{{Window: "night"}, {During: "sat,sun Europe/Paris"}}}
	h.put("Check", "default", "backup", nil, spec)
	held := func(zone, during string) {
		t.Helper()
		chunks := h.p.directory.For(h.id("web01")).Chunks
		if len(chunks) != 1 || len(chunks[0].AsCheck().Except) != 2 {
			t.Fatalf("%+v", chunks)
		}
		night, weekend := chunks[0].AsCheck().Except[0], chunks[0].AsCheck().Except[1]
		if night.Zone != zone || night.Spans[0].During != during || weekend.Zone != "Europe/Paris" || weekend.Spans[0].During != "sat,sun" {
			t.Errorf("%+v", chunks[0].AsCheck().Except)
		}
	}
	held("", "22:00-07:00")
	h.put("Window", "default", "night", nil, &model.WindowSpec{Spans: []model.WindowSpan{{During: "23:00-05:00"}}})
	held("", "23:00-05:00")
	h.put("Namespace", "", "default", nil, &model.NamespaceSpec{TimeZone: "America/New_York"})
	held("America/New_York", "23:00-05:00")
	h.put("Window", "default", "night", nil, &model.WindowSpec{TimeZone: "UTC", Spans: []model.WindowSpan{{During: "23:00-05:00"}}})
	held("UTC", "23:00-05:00")
}
