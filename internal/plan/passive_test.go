package plan

import (
	"testing"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
)

// Passive checks are found by name, and counted by what they were made for.
func TestPassives(t *testing.T) {
	h := newHouse(t)
	h.put("Check", "default", "declared", nil, &model.CheckSpec{Passive: true})
	h.put("Check", "default", "made", map[string]string{model.SourceLabel: model.SourceSensu}, &model.CheckSpec{Passive: true, Disabled: true})
	h.put("Check", "default", "run", map[string]string{model.SourceLabel: model.SourceSensu}, shell("true", &model.Targets{Groups: []string{"all"}}))
	for name, want := range map[string]directory.PassiveCheck{"declared": {}, "made": {Disabled: true, Source: "sensu-agent"}, "run": {Source: "sensu-agent"}} {
		got, ok := h.p.directory.PassiveCheck("default", name)
		if passive := name != "run"; !ok || passive != (got.Chunk != nil) || got.Disabled != want.Disabled || got.Source != want.Source {
			t.Errorf("%s: %v %+v", name, ok, got)
		}
	}
	if _, ok := h.p.directory.PassiveCheck("other", "made"); ok {
		t.Error("found elsewhere")
	}
	for source, want := range map[string]int{"": 2, model.SourceSensu: 1, model.SourceAlerts: 0} {
		if got := h.p.directory.PassiveChecks("default", source); len(got) != want {
			t.Errorf("made for %q: %v", source, got)
		}
	}
	if got := h.p.directory.PassiveChecks("other", ""); len(got) != 0 {
		t.Errorf("elsewhere: %v", got)
	}
}
