package api

import (
	"testing"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// Everybody who names a handler, a pipeline, a secret or an asset is counted.
func TestUsedBy(t *testing.T) {
	handler, every := &model.HandlerSpec{}, &model.HandlerSpec{Stream: &model.Stream{Results: model.AllResults}}
	for want, of := range map[string]struct {
		spec model.Spec
		l    intent.Landing
	}{
		"used by nobody yet":                                 {handler, intent.Landing{Nodes: 3}},
		"used by 1 node":                                     {handler, intent.Landing{Hear: 1}},
		"used by 2 routes":                                   {handler, intent.Landing{Routes: 2}},
		"used by 2 checks and 3 nodes":                       {handler, intent.Landing{Nodes: 9, Checks: 2, Hear: 3}},
		"used by 2 checks and 1 namespace":                   {handler, intent.Landing{Checks: 2, Spaces: 1}},
		"used by 1 check, 1 route, 1 pipeline and 2 nodes":   {handler, intent.Landing{Checks: 1, Routes: 1, Flows: 1, Hear: 2}},
		"told of every result":                               {every, intent.Landing{}},
		"told of every result; used by 1 route":              {every, intent.Landing{Routes: 1}},
		"used by 1 node; kept from Sensu":                    {&model.PipelineSpec{}, intent.Landing{Hear: 1}},
		"used by nobody yet; kept from Sensu":                {&model.HookSpec{}, intent.Landing{}},
		"used by 1 check on 3 nodes and 1 handler":           {&model.SecretSpec{}, intent.Landing{Nodes: 3, Checks: 1, Handlers: 1}},
		"used by 1 mutator":                                  {&model.SecretSpec{}, intent.Landing{Mutators: 1}},
		"used by 2 checks on 1 node, 1 handler and 1 filter": {&model.AssetSpec{}, intent.Landing{Nodes: 1, Checks: 2, Handlers: 1, Filters: 1}},
	} {
		r := &model.Resource{Kind: of.spec.Kind(), Spec: of.spec}
		if got, _ := landingNote(r, intent.Outcome{Key: intent.KeyOf(r), Landing: of.l}); got != want {
			t.Errorf("%+v: %q, want %q", of, got, want)
		}
	}
}
