package kind

import (
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// The note of a handler, pipeline, secret or asset counts all of its users.
func TestUsedBy(t *testing.T) {
	handler, every := &model.HandlerSpec{}, &model.HandlerSpec{Stream: &model.Stream{Results: model.AllResults}}
	for want, of := range map[string]struct {
		spec model.Spec
		l    Placement
	}{
		"used by nothing yet":                                {handler, Placement{Nodes: 3}},
		"used by 1 node":                                     {handler, Placement{Hear: 1}},
		"used by 2 routes":                                   {handler, Placement{Routes: 2}},
		"used by 2 checks and 3 nodes":                       {handler, Placement{Nodes: 9, Checks: 2, Hear: 3}},
		"used by 2 checks and 1 namespace":                   {handler, Placement{Checks: 2, Spaces: 1}},
		"used by 1 check, 1 route, 1 pipeline and 2 nodes":   {handler, Placement{Checks: 1, Routes: 1, Flows: 1, Hear: 2}},
		"receives every result":                              {every, Placement{}},
		"receives every result; used by 1 route":             {every, Placement{Routes: 1}},
		"used by 1 node; kept from Sensu":                    {&model.PipelineSpec{}, Placement{Hear: 1}},
		"used by nothing yet; kept from Sensu":               {&model.HookSpec{}, Placement{}},
		"used by 1 check on 3 nodes and 1 handler":           {&model.SecretSpec{}, Placement{Nodes: 3, Checks: 1, Handlers: 1}},
		"used by 1 mutator":                                  {&model.SecretSpec{}, Placement{Mutators: 1}},
		"used by 2 checks on 1 node, 1 handler and 1 filter": {&model.AssetSpec{}, Placement{Nodes: 1, Checks: 2, Handlers: 1, Filters: 1}},
	} {
		r := &model.Resource{Kind: of.spec.Kind(), Spec: of.spec}
		if got, _ := All().Effect(r, of.l, false); got != want {
			t.Errorf("%+v: %q, want %q", of, got, want)
		}
	}
}
