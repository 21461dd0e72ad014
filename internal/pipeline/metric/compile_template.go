package metric

import (
	"slices"

	"github.com/muster-fleet/muster/internal/discovery"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/prep"
	"github.com/muster-fleet/muster/internal/prep/javascript"
	"github.com/muster-fleet/muster/internal/trigger"
	"github.com/muster-fleet/muster/internal/wire"
)

// template is a compiled TemplateDefinition with one set of macro values. It is immutable; all nodes with this set
// share it.
type template struct {
	*model.TemplateDefinition
	base     *template // without discovered items; of one that has none: itself
	macros   string    // those that Properties set, as in wire.ValueBlock
	values   *model.MacroValues
	rules    []compiledRule    // by index in TemplateDefinition.Rules
	moved    []int             // position here by position in base; nil: the same
	items    []compiledItem    // by position
	triggers []compiledTrigger // by index in TemplateDefinition.Triggers
	timed    bool              // a trigger has time functions, or an item a formula
	formulas []compiledFormula // of calculated items over items of the node, those that others read first
}

// compiledItem has an item's compiled preprocessing, and the items and triggers that use its values
type compiledItem struct {
	chain          *prep.Chain    // nil: fault says why
	valueMap       *prep.ValueMap // nil: none
	fault          string
	scripts        int   // number of its steps of JavaScript
	rule           int   // index of the discovery rule whose item this is; -1: none
	dependents     []int // positions of the items that are made from its values
	triggers       []int // triggers that read it
	listedTriggers []int // the same with the triggers that do not compile, for pages
	formulas       []int // indexes of the formulas that read it
}

// compiledTrigger has the compiled problem and recovery expressions of one trigger
type compiledTrigger struct {
	problem  *trigger.Program // nil: fault says why the trigger stays unknown
	fault    string
	recovery *trigger.Program // nil: the problem closes when its expression is false
}

// compiledRule is a discovery rule in compiled form, or the reason why the rule does not compile.
type compiledRule struct {
	*discovery.Rule        // nil: fault says why
	fault           string // also why entities have no items
}

// compileRules compiles the discovery rules of a Template. A rule that does not compile is nil.
func (t *template) compileRules() []*discovery.Rule {
	list := make([]*discovery.Rule, len(t.rules))
	for i := range t.rules {
		list[i] = t.rules[i].Rule
	}
	return list
}

// withEntities returns the Template compiled together with the items and triggers of a node's discovered entities.
func (t *template) withEntities(states []*discovery.State) *template {
	definition, faults := discovery.Instantiate(t.TemplateDefinition, t.compileRules(), states, trigger.ReplaceEntityMacros)
	out := compile(definition, t.macros)
	out.base, out.moved = t, make([]int, len(t.items))
	for i := range t.Items {
		out.moved[i], _ = definition.ItemIndex(t.Items[i].Key)
	}
	for i := range out.rules {
		if out.rules[i].fault == "" {
			out.rules[i].fault = faults[i]
		}
	}
	return out
}

// compile compiles the items, triggers and rules of a Template's definition. An item, trigger or value map that does not
// compile, which apply refuses, is left without a chain, program or texts.
func compile(definition *model.TemplateDefinition, macros string) *template {
	set, _ := wire.DecodeMacros(macros) // only a faulty agent sends others; then the Template's own values count
	values := definition.MacroValues(set)
	if items := values.WithMacros(definition.Items); len(items) > 0 && &items[0] != &definition.Items[0] {
		definition = new(*definition)
		definition.Items = items
	}
	t := &template{TemplateDefinition: definition, macros: macros, values: values, items: make([]compiledItem, len(definition.Items)), triggers: make([]compiledTrigger, len(definition.Triggers))}
	t.base = t
	maps := map[string]*prep.ValueMap{}
	for i := range definition.ValueMaps {
		maps[definition.ValueMaps[i].Name], _ = prep.CompileValueMap(&definition.ValueMaps[i])
	}
	for i := range definition.Items {
		of := &definition.Items[i]
		t.items[i].valueMap, t.items[i].rule = maps[of.ValueMap], -1
		typ, _ := of.ValueType()
		steps, err := t.values.ExpandSteps(of.Steps)
		if err == nil {
			t.items[i].chain, err = prep.Compile(steps, typ, javascript.Compile)
			t.items[i].scripts = countScripts(steps)
		}
		if err == nil {
			_, err = t.values.Expand(of.Unit)
		}
		if err == nil {
			err = t.compileInterval(i)
		}
		if err != nil {
			t.items[i].chain, t.items[i].fault = nil, err.Error()
		}
		if master, ok := definition.ItemIndex(of.From); ok && of.From != "" && of.NotCollected == "" { // a lost one keeps its last value
			t.items[master].dependents = append(t.items[master].dependents, i)
		}
	}
	t.orderFormulas()
	for i := range definition.Rules {
		rule, err := discovery.Compile(&definition.Rules[i], t.values)
		one := compiledRule{Rule: rule}
		if err != nil {
			one.fault = err.Error()
		}
		t.rules = append(t.rules, one)
		if position, ok := definition.ItemIndex(definition.Rules[i].Key); ok {
			t.items[position].rule = i
		}
	}
	for i := range definition.Triggers {
		of, out := &definition.Triggers[i], &t.triggers[i]
		problem, err := trigger.CompileForItems(definition.Items, of.Expression, t.values.Value)
		if err == nil && of.Recovery != "" {
			out.recovery, err = trigger.CompileForItems(definition.Items, of.Recovery, t.values.Value)
		}
		if err != nil {
			out.fault, out.recovery = err.Error(), nil
			for _, key := range trigger.Keys(of.Expression) {
				if position, ok := definition.ItemIndex(key); ok && !slices.Contains(t.items[position].listedTriggers, i) {
					t.items[position].listedTriggers = append(t.items[position].listedTriggers, i)
				}
			}
			continue
		}
		out.problem = problem
		for _, position := range out.itemIndexes() {
			t.items[position].triggers = append(t.items[position].triggers, i)
			t.items[position].listedTriggers = append(t.items[position].listedTriggers, i)
		}
		t.timed = t.timed || out.isTimed()
	}
	return t
}

// countScripts returns the number of preprocessing steps that are JavaScript.
func countScripts(steps []model.Step) (n int) {
	for i := range steps {
		if steps[i].Name == "javascript" {
			n++
		}
	}
	return n
}

// itemIndexes returns the positions, in the Template's item list, of all items that the trigger reads.
func (t *compiledTrigger) itemIndexes() []int {
	list := t.problem.ItemIndexes()
	if t.recovery != nil {
		for _, p := range t.recovery.ItemIndexes() {
			if !slices.Contains(list, p) {
				list = append(list, p)
			}
		}
	}
	return list
}

// isTimed reports whether the trigger's state may change with time, without new values
func (t *compiledTrigger) isTimed() bool {
	return t.problem.HasTimeFunctions() || t.recovery != nil && t.recovery.HasTimeFunctions()
}
