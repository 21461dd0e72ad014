package metric

import (
	"slices"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/prep"
	"github.com/muster-fleet/muster/internal/trigger"
	"github.com/muster-fleet/muster/internal/wire"
)

// template is the compiled form of a TemplateChunk with one set of values of its macros. It is immutable; all nodes with
// this set share it.
type template struct {
	*model.TemplateChunk
	macros   string // those that Properties set, as in wire.ValueBlock
	values   *model.MacroValues
	items    []compiledItem    // by position
	triggers []compiledTrigger // by index in TemplateChunk.Triggers
	timed    bool              // a trigger has time functions
}

// compiledItem has an item's compiled preprocessing, and the items and triggers that use its values
type compiledItem struct {
	chain      *prep.Chain    // nil: fault says why
	valueMap   *prep.ValueMap // nil: none
	fault      string
	dependents []int // positions of the items that are made from its values
	triggers   []int // triggers that read it
	shown      []int // likewise, with those that do not compile
}

// compiledTrigger has the compiled problem and recovery expressions of one trigger
type compiledTrigger struct {
	problem  *trigger.Program // nil: fault says why the trigger stays unknown
	fault    string
	recovery *trigger.Program // nil: the problem closes when its expression is false
}

// compile compiles a chunk. An item, trigger or value map that does not compile, which apply refuses, is left without a
// chain, program or texts.
func compile(chunk *model.TemplateChunk, macros string) *template {
	set, _ := wire.DecodeMacros(macros) // only a faulty agent sends others; then the Template's own values count
	t := &template{TemplateChunk: chunk, macros: macros, values: chunk.MacroValues(set), items: make([]compiledItem, len(chunk.Items)), triggers: make([]compiledTrigger, len(chunk.Triggers))}
	maps := map[string]*prep.ValueMap{}
	for i := range chunk.ValueMaps {
		maps[chunk.ValueMaps[i].Name], _ = prep.CompileValueMap(&chunk.ValueMaps[i])
	}
	for i := range chunk.Items {
		of := &chunk.Items[i]
		t.items[i].valueMap = maps[of.ValueMap]
		typ, _ := of.ValueType()
		steps, err := t.values.ExpandSteps(of.Steps)
		if err == nil {
			t.items[i].chain, err = prep.Compile(steps, typ)
		}
		if err != nil {
			t.items[i].chain, t.items[i].fault = nil, err.Error()
		}
		if master, ok := chunk.Item(of.From); ok && of.From != "" {
			t.items[master].dependents = append(t.items[master].dependents, i)
		}
	}
	for i := range chunk.Triggers {
		of, out := &chunk.Triggers[i], &t.triggers[i]
		problem, err := trigger.CompileForItems(chunk.Items, of.Expression, t.values.Value)
		if err == nil && of.Recovery != "" {
			out.recovery, err = trigger.CompileForItems(chunk.Items, of.Recovery, t.values.Value)
		}
		if err != nil {
			out.fault, out.recovery = err.Error(), nil
			keys, _ := trigger.Keys(of.Expression)
			for _, key := range keys {
				if position, ok := chunk.Item(key); ok {
					t.items[position].shown = append(t.items[position].shown, i)
				}
			}
			continue
		}
		out.problem = problem
		for _, position := range out.positions() {
			t.items[position].triggers = append(t.items[position].triggers, i)
			t.items[position].shown = append(t.items[position].shown, i)
		}
		t.timed = t.timed || out.isTimed()
	}
	return t
}

// positions returns the positions in the template of the items that the trigger reads
func (t *compiledTrigger) positions() []int {
	list := t.problem.Positions()
	if t.recovery != nil {
		for _, p := range t.recovery.Positions() {
			if !slices.Contains(list, p) {
				list = append(list, p)
			}
		}
	}
	return list
}

// isTimed reports whether the trigger's state may change with time, without new values
func (t *compiledTrigger) isTimed() bool {
	return t.problem.Timed() || t.recovery != nil && t.recovery.Timed()
}
