package pipes

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/filter"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestFilterAndMutatorUseScriptsOfAssets expects filters and mutators to run the newest JavaScript of their Assets.
// While an asset is missing, the filter is skipped with a message and the delivery with the mutator waits.
func TestFilterAndMutatorUseScriptsOfAssets(t *testing.T) {
	var source, key string
	read := 0
	table := NewTable()
	table.Libraries = func(assets []string, known string) ([]filter.Library, string, error) {
		if fmt.Sprint(assets) != "[team/scripts shared/more]" {
			t.Errorf("asked for %v", assets)
		}
		switch key {
		case "":
			return nil, "", model.Errorf(model.Unavailable, "this server has no archive of asset team/scripts: its download is in progress")
		case known:
			return nil, key, nil
		}
		read++
		return []filter.Library{{Name: "a.js", Source: source}}, key, nil
	}
	name := func(n string) route.Name { return route.Name{Namespace: "team", Name: n} }
	assets := []string{"scripts", "shared/more"}
	for n, spec := range map[string]model.Spec{
		"f":     &model.FilterSpec{Action: "allow", Expressions: []string{"good(event)"}, Assets: assets},
		"never": &model.FilterSpec{Action: "allow", Expressions: []string{"good(event)"}, Assets: assets, When: &model.FilterWhen{Spans: []model.WindowSpan{{From: "2001-01-01 00:00", To: "2001-01-02 00:00"}}}},
		"m":     &model.MutatorSpec{Javascript: "return '' + good(event)", Assets: assets},
		"c":     &model.MutatorSpec{Command: &model.Command{Shell: "cat"}, Assets: assets},
		"p":     &model.PipelineSpec{Workflows: []model.Workflow{{Name: "a", Filters: []string{"f"}, Handler: "h"}, {Name: "b", Filters: []string{"never"}, Handler: "h"}}},
	} {
		testenv.NoError(t, table.Apply([]route.Declaration{{Name: name(n), Spec: spec}}))
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	event := func() (map[string]any, error) { return map[string]any{"n": 1}, nil }
	shape := func() map[string]any { e, _ := event(); return e }
	judge := func() []Decision { return table.Decide(t.Context(), "team", []string{"p"}, &Event{Shape: shape}, now) }
	if v := judge(); !v[0].Pass || len(v[0].Failed) != 1 || !strings.Contains(v[0].Failed[0], "filter f: this server has no archive of asset team/scripts") || v[1].Pass || v[1].Failed != nil {
		t.Errorf("%+v", v)
	}
	if _, _, err := table.Mutate(t.Context(), "team/m", event, now); model.ClassOf(err) != model.Unavailable {
		t.Errorf("%v", err)
	}
	for i, one := range []struct {
		source string
		pass   bool
		made   string
	}{{"function good(e) { return e.n == 1 }", true, "true"}, {"function good(e) { return e.n == 2 }", false, "false"}} {
		source, key = one.source, fmt.Sprint(i)
		for range 3 {
			if v := judge(); v[0].Pass != one.pass || v[0].Failed != nil || v[1].Pass {
				t.Errorf("%s: %+v", source, v)
			}
			if body, _, err := table.Mutate(t.Context(), "team/m", event, now); err != nil || string(body) != one.made {
				t.Errorf("%s: %s %v", source, body, err)
			}
		}
	}
	if read != 4 {
		t.Errorf("read %d times", read)
	}
	source, key = "class A {}", "wrong"
	if v := judge(); !v[0].Pass || len(v[0].Failed) != 1 || !strings.Contains(v[0].Failed[0], "library a.js") {
		t.Errorf("%+v", v)
	}
	_, command, err := table.Mutate(t.Context(), "team/c", event, now)
	if said, _ := json.Marshal(command.Assets); err != nil || string(said) != `["team/scripts","shared/more"]` {
		t.Errorf("%s %v", said, err)
	}
}
