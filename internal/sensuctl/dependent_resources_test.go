package sensuctl

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestEarlyHandlersGetLaterReferences creates handlers before their filters, mutators and assets, and expects
// complete references at the end. Checks, handlers, mutators and filters come before filters, mutators and
// assets, in the order of published files.
func TestEarlyHandlersGetLaterReferences(t *testing.T) {
	w := newTestServer(t)
	for _, put := range []string{
		`pipelines/alerts {"workflows":[{"name":"one","filters":[{"name":"night","type":"EventFilter","api_version":"core/v2"}],"mutator":{"name":"enrich","type":"Mutator","api_version":"core/v2"},"handler":{"name":"ticket","type":"Handler","api_version":"core/v2"}}]}`,
		`checks/disk {"command":"true","interval":10,"publish":true,"subscriptions":["web"],"runtime_assets":["more"],"handlers":["ticket"]}`,
		`handlers/ticket {"type":"pipe","command":"ticket","filters":["night"],"mutator":"short","runtime_assets":["Tools","more"]}`,
		`filters/night {"action":"allow","expressions":["late(event)"],"runtime_assets":["Tools"]}`,
		`hooks/look {"command":"look","timeout":10,"runtime_assets":["Tools"]}`,
		`mutators/short {"type":"pipe","command":"short","runtime_assets":["Tools"]}`,
		`mutators/enrich {"type":"javascript","eval":"return 1"}`,
		`assets/Tools {"url":"https://example.com/tools.tar.gz","sha512":"` + strings.Repeat("a", 128) + `","filters":null}`,
		`assets/more {"url":"https://example.com/more.tar.gz","sha512":"` + strings.Repeat("b", 128) + `","filters":null}`,
	} {
		path, body, _ := strings.Cut(put, " ")
		w.expectStatus(201, "PUT", core+"/"+path, body)
	}
	get := func(kind, name string) *model.Resource {
		t.Helper()
		m := testenv.Value(w.Intent.Get(t.Context(), resourceKeyOf(kind, name)))(t)
		if len(m.Metadata.Annotations) > 0 {
			t.Errorf("%s %s: %v", kind, name, m.Metadata.Annotations)
		}
		return m
	}
	alerts := get("Pipeline", "alerts").Spec.(*model.PipelineSpec).Workflows[0]
	flow := get("Pipeline", "sensu-ticket").Spec.(*model.PipelineSpec).Workflows[0]
	for what, lists := range map[string][2][]string{
		"handler":  {get("Handler", "ticket").Spec.(*model.HandlerSpec).Assets, {"tools", "more"}},
		"filter":   {get("Filter", "night").Spec.(*model.FilterSpec).Assets, {"tools"}},
		"mutator":  {get("Mutator", "short").Spec.(*model.MutatorSpec).Assets, {"tools"}},
		"hook":     {get("Hook", "look").Spec.(*model.HookSpec).Assets, {"tools"}},
		"check":    {get("Check", "disk").Spec.(*model.CheckSpec).Assets, {"more"}},
		"pipeline": {append(alerts.Filters, alerts.Mutator, alerts.Handler), {"night", "enrich", "ticket"}},
		"workflow": {append(flow.Filters, flow.Mutator), {"night", "short"}},
		"filter's": {get("Filter", "night").Spec.(*model.FilterSpec).Expressions, {"late(event)"}},
	} {
		if got, want := strings.Join(lists[0], " "), strings.Join(lists[1], " "); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
}
