package metric

import (
	"slices"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/prep"
	"github.com/muster-fleet/muster/internal/trigger"
)

// template is a compiled TemplateChunk: items and triggers ready to be evaluated. It is immutable; all nodes share
// it.
type template struct {
	*model.TemplateChunk
	items    []compiledItem    // by position
	triggers []compiledTrigger // by index in TemplateChunk.Triggers
	timed    bool              // a trigger has time functions
}

// compiledItem has an item's compiled preprocessing, and the items and triggers that use its values
type compiledItem struct {
	chain      *prep.Chain // nil: fault says why
	fault      string
	dependents []int // positions of the items that are made from its values
	triggers   []int // triggers that read it
}

// compiledTrigger has the compiled problem and recovery expressions of one trigger
type compiledTrigger struct {
	problem  *trigger.Program // nil: the expression does not compile, and the trigger stays unknown
	recovery *trigger.Program // nil: the problem closes when its expression is false
}

// compile compiles the preprocessing and the trigger expressions of a template. An item or trigger that does not
// compile, which apply refuses, is left without a chain or program.
func compile(chunk *model.TemplateChunk) *template {
	t := &template{TemplateChunk: chunk, items: make([]compiledItem, len(chunk.Items)), triggers: make([]compiledTrigger, len(chunk.Triggers))}
	for i := range chunk.Items {
		of := &chunk.Items[i]
		typ, _ := of.ValueType()
		chain, err := prep.Compile(of.Steps, typ)
		if t.items[i].chain = chain; err != nil {
			t.items[i].chain, t.items[i].fault = nil, err.Error()
		}
		if master, ok := chunk.Item(of.From); ok && of.From != "" {
			t.items[master].dependents = append(t.items[master].dependents, i)
		}
	}
	for i := range chunk.Triggers {
		of, out := &chunk.Triggers[i], &t.triggers[i]
		problem, err := trigger.CompileForItems(chunk.Items, of.Expression)
		if err != nil {
			continue
		}
		if of.Recovery != "" {
			if out.recovery, err = trigger.CompileForItems(chunk.Items, of.Recovery); err != nil {
				continue
			}
		}
		out.problem = problem
		for _, position := range out.positions() {
			t.items[position].triggers = append(t.items[position].triggers, i)
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
