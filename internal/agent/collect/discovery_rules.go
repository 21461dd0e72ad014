package collect

import (
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/discovery"
	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/prep"
)

// ruleState is an agent's discovery rule with the entities found so far, such as file systems.
type ruleState struct {
	*discovery.Rule
	unit   model.UnitID
	root   int           // position of the collected item that the rule's list is made of, or of the rule itself
	chains []*prep.Chain // preprocessing steps of the items from the root to the rule
	memory []*prep.State // of each chain
	state  *discovery.State
}

// newRules returns a Template's discovery rules that make at least one item for the agent to collect. A rule
// keeps its entities when the Template is edited. A rule that does not compile here, for example because of
// JavaScript, has none: the server shows its items as waiting.
func newRules(c *model.TemplateDefinition, values *model.MacroValues, before []*ruleState) (list []*ruleState) {
	for i := range c.Rules {
		d := &c.Rules[i]
		if !slices.ContainsFunc(d.Items, func(one model.Item) bool { return one.IsCollected() }) {
			continue
		}
		rule, err := discovery.Compile(d, values)
		if err != nil {
			continue
		}
		r := &ruleState{Rule: rule, unit: c.Unit}
		position, ok := c.ItemIndex(d.Key)
		for range c.Items { // masters that name each other end the loop
			if !ok {
				break
			}
			of := &c.Items[position]
			typ, _ := of.ValueType()
			var chain *prep.Chain
			steps, err := values.ExpandSteps(of.Steps)
			if err == nil {
				chain, err = prep.Compile(steps, typ, nil)
			}
			if ok = err == nil; !ok {
				break
			}
			r.chains, r.memory = slices.Insert(r.chains, 0, chain), append(r.memory, &prep.State{})
			if r.root = position; of.From == "" {
				break
			}
			position, ok = c.ItemIndex(of.From)
		}
		if !ok || !c.Items[r.root].IsCollected() {
			continue
		}
		r.state = rule.ConvertState(nil)
		for _, old := range before {
			if old.unit == c.Unit && old.Key == d.Key {
				r.state = rule.ConvertState(old.state)
			}
		}
		list = append(list, r)
	}
	return list
}

// updateEntities passes a new value to a discovery rule, and reports whether the set of entities has changed.
func (r *ruleState) updateEntities(value item.Value, at int64) bool {
	for i, chain := range r.chains {
		var err error
		if value, err = chain.Run(r.memory[i], item.Sample{At: at, Value: value}); err != nil || value.Kind() == item.None {
			return false
		}
	}
	state, _, err := r.Update(r.state, value.String(), at)
	if err != nil || state.Equal(r.state) {
		return false
	}
	r.state = state
	return true
}

// entityItem is an item that a discovery rule made for one found thing, such as a file system. Its key may be part of
// a command of the shell only if plain is true.
type entityItem struct {
	model.Item
	plain bool
}

// items returns the items for all things, such as file systems, that a discovery rule has found. Items that the server
// computes are left out.
func (r *ruleState) items() (list []entityItem) {
	for i := range r.state.Entities {
		e := &r.state.Entities[i]
		plain := true
		for k, value := range e.Values { // a macro without a value stands for itself
			plain = plain && (value == r.state.Macros[k] || isShellSafe(value))
		}
		for _, one := range r.Items(r.state, e) {
			if one.IsCollected() && len(list) < discovery.MaxItems {
				list = append(list, entityItem{one, plain})
			}
		}
	}
	return list
}

// isShellSafe reports whether a text has only characters without a meaning for the shell. Such a text can stand in a
// command line.
func isShellSafe(text string) bool {
	return strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/@%+=,-") == "" && !strings.HasPrefix(text, "-")
}

// updateRules passes newly collected values to the discovery rules that use the values as input. If a rule has
// found other entities, the wheel gets their items.
func (w *Scheduler) updateRules(g *itemGroup, answers []collectorResult, at int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := false
	for _, r := range w.rules {
		for i := range g.items {
			if one := &g.items[i]; r.unit == g.unit && g.rule == "" && int(one.position) == r.root && one.fault == "" && answers[i].err == nil && answers[i].value.Kind() != item.None {
				changed = r.updateEntities(cutText(answers[i].value, one.most), at) || changed
			}
		}
	}
	if changed {
		w.setGroups(w.definitions, w.properties)
	}
}
