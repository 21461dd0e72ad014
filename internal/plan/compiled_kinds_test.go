package plan

import (
	"maps"
	"slices"
	"testing"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// definitionToy is the kind of compiled resources of the test kind Toy.
const definitionToy model.DefinitionKind = 99

// exampleSpec is the specification of Toy, a kind of resource that exists only in tests. The kind exists only
// in tests; its resources are placed on nodes as checks are.
type exampleSpec struct {
	Colour  string         `json:"colour"`
	Targets *model.Targets `json:"targets"`
}

// Kind returns the name of the example kind, Toy.
func (*exampleSpec) Kind() string { return "Toy" }

// compileExample compiles a resource of the example kind Toy. The compiled resource has targets and, as the
// body for agents, a colour.
func compileExample(c *unitCompiler, d *declaredResource) (*unit, error) {
	spec := d.spec.(*exampleSpec)
	definition := &model.Definition{Unit: model.UnitID(d.id), Name: d.key.Name, Namespace: c.namespace(d.key.Namespace).ID}
	u := &unit{Unit: &directory.Unit{ID: model.UnitID(d.id), Kind: d.key.Kind, Name: d.name()}, body: &body{definition: definition.SetBody(definitionToy, []byte(spec.Colour))}}
	var err error
	if u.size, err = definitionSize(u.definition); err != nil {
		return nil, err
	}
	u.targets, err = c.targets(d.key.Namespace, spec.Targets)
	return u, err
}

// TestExampleKindIsCompiled declares a resource of the example kind Toy, and expects its compiled form on the target nodes.
func TestExampleKindIsCompiled(t *testing.T) {
	h := &testPlanner{t: t, memoryStore: newMemoryStore()}
	h.p = New(Options{Store: h.memoryStore, Kinds: kind.All().With(kind.Define(kind.Definition[*exampleSpec]{
		KindInfo: model.KindInfo{Name: "Toy", Plural: "toys", Short: "to", Namespaced: true}, Unit: definitionToy, LandsAs: "lies on",
	}))})
	h.p.compiler.units = maps.Clone(unitCompilers)
	h.p.compiler.units["Toy"] = compileExample
	h.apply("Namespace", "", "default", nil, &model.NamespaceSpec{})
	node, other := h.node("n", nil), h.node("other", nil)
	h.apply("Toy", "default", "ball", nil, &exampleSpec{Colour: "red", Targets: &model.Targets{Nodes: []string{"n"}}})
	a := h.p.directory.AssignmentOf(node)
	if a == nil || len(a.Definitions) != 1 || a.Definitions[0].Kind != definitionToy || string(a.Definitions[0].Body().([]byte)) != "red" {
		t.Errorf("assignment of the node: %+v", a)
	}
	if a := h.p.directory.AssignmentOf(other); a != nil && len(a.Definitions) > 0 {
		t.Errorf("assignment of the other node: %+v", a)
	}
	h.apply("Toy", "default", "ball", nil, nil)
	if a := h.p.directory.AssignmentOf(node); a != nil && len(a.Definitions) > 0 {
		t.Errorf("after its end: %+v", a)
	}
}

// TestKindsWithUnitsAreCompiled expects a compile function and a decoder for each kind of resource that nodes receive.
// A kind that nodes get also needs a feature of agents.
func TestKindsWithUnitsAreCompiled(t *testing.T) {
	for _, k := range kind.All().Kinds() {
		if (unitCompilers[k.Name] != nil) != (k.Unit != 0) {
			t.Errorf("%s: compile function %v, unit %d", k.Name, unitCompilers[k.Name] != nil, k.Unit)
		}
		if k.Unit == 0 {
			continue
		}
		definition, err := wire.DecodeDefinition(1, wire.AppendDefinition(nil, (&model.Definition{Unit: 1000}).SetBody(k.Unit, []byte{})))
		if err != nil {
			t.Errorf("%s: %v", k.Name, err)
		} else if _, opaque := definition.Body().([]byte); opaque {
			t.Errorf("%s: package wire does not decode definitions of kind %d", k.Name, k.Unit)
		}
		if lands := k.LandsAs != ""; slices.Contains(wire.Features(), wire.DefinitionFeature(k.Unit)) != lands {
			t.Errorf("%s: lands on nodes %v, but agents' features are %v", k.Name, lands, wire.Features())
		}
	}
}

// TestPipelineCountsAsUser expects a Pipeline among the users of its handler, filter and mutator.
func TestPipelineCountsAsUser(t *testing.T) {
	h := newTestPlanner(t)
	h.apply("Handler", "default", "pager", nil, &model.HandlerSpec{})
	h.apply("Filter", "default", "hours", nil, &model.FilterSpec{})
	h.apply("Mutator", "default", "short", nil, &model.MutatorSpec{})
	h.apply("Pipeline", "default", "flow", nil, &model.PipelineSpec{Workflows: []model.Workflow{{Filters: []string{"hours"}, Mutator: "short", Handler: "pager"}}})
	for of, name := range map[string]string{"Handler": "pager", "Filter": "hours", "Mutator": "short"} {
		if l := h.p.Inspector().Placement(intent.Key{Kind: of, Namespace: "default", Name: name}); l.Pipelines != 1 {
			t.Errorf("%s: %+v", of, l)
		}
	}
}
