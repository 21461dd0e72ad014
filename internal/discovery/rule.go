// Package discovery makes items and triggers of the entities that a discovery rule finds on a node (Zabbix's low-level discovery).
// Agent and server run it on the same values of the rule's item, so that both know the same items without a message about them:
// docs/decisions/0018-discovery.md says why.
//
// Pure: no clock (a value brings its time), no input or output, no goroutines, no locks. A Rule and a State are immutable.
// Start reading at Rule.Update, then Rule.Items.
package discovery

import (
	"fmt"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/prep"
)

// Limits of a rule and its entities.
const (
	MaxEntities = 1000     // of a rule on a node
	MaxItems    = 10_000   // discovered for a Template on a node
	maxTriggers = 50_000   // discovered for a Template on a node
	maxTexts    = 32 << 20 // bytes of the texts of these items and triggers
	maxMacro    = 1024     // bytes of a macro's value
)

// Rule is a compiled discovery rule. Its filters contain the values of user macros.
type Rule struct {
	*model.DefinitionRule
	reader    *prep.EntityReader
	macros    []string // that prototypes and overrides have, ascending
	keys      []int    // those in keys of items, as indexes of macros: equal values are one entity
	filter    *filter
	overrides []*filter // of each override
}

// Compile compiles a discovery rule. Its filter and its times of lost entities contain the
// given values of user macros.
func Compile(d *model.DefinitionRule, values *model.MacroValues) (r *Rule, err error) {
	if d, err = d.WithMacros(values); err != nil {
		return nil, err
	}
	r = &Rule{DefinitionRule: d, macros: macrosOf(d)}
	for i := range d.Items {
		for _, macro := range model.EntityMacros(d.Items[i].Key) {
			at, _ := slices.BinarySearch(r.macros, macro)
			if !slices.Contains(r.keys, at) {
				r.keys = append(r.keys, at)
			}
		}
	}
	if r.reader, err = prep.NewEntityReader(d.Paths); err != nil {
		return nil, err
	}
	if r.filter, err = compileFilter(d.Filter, values); err != nil {
		return nil, fmt.Errorf("filter of the discovery rule: %w", err)
	}
	for i := range d.Overrides {
		f, err := compileFilter(d.Overrides[i].Filter, values)
		if err != nil {
			return nil, fmt.Errorf("override %s of the discovery rule: filter: %w", d.Overrides[i].Name, err)
		}
		r.overrides = append(r.overrides, f)
	}
	return r, nil
}

// macrosOf returns the discovery macros ({#NAME}) that a rule uses, sorted. They are in its prototypes and overrides.
func macrosOf(d *model.DefinitionRule) (list []string) {
	add := func(texts ...string) {
		for _, text := range texts {
			list = append(list, model.EntityMacros(text)...)
		}
	}
	for i := range d.Items {
		of := &d.Items[i]
		add(of.Key, of.From, of.Unit, string(of.Interval))
		for name := range of.Tags {
			add(of.Tags[name])
		}
		for k := range of.Steps {
			add(of.Steps[k].Texts()...)
		}
	}
	for i := range d.Triggers {
		add(d.Triggers[i].Name, d.Triggers[i].Expression, d.Triggers[i].Recovery, d.Triggers[i].Runbook)
		add(d.Triggers[i].ShownTexts()...)
	}
	for i := range d.Overrides {
		if f := d.Overrides[i].Filter; f != nil {
			for k := range f.Conditions {
				add(f.Conditions[k].Macro)
			}
		}
		for k := range d.Overrides[i].Items {
			add(string(d.Overrides[i].Items[k].Interval))
			for _, value := range d.Overrides[i].Items[k].Tags {
				add(value)
			}
		}
		for k := range d.Overrides[i].Triggers {
			for _, value := range d.Overrides[i].Triggers[k].Tags {
				add(value)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// State has the entities that one discovery rule has found on one node.
type State struct {
	Macros   []string // names of the values of each entity, ascending
	Entities []Entity // present ones in the order of the list, then lost ones
}

// Entity is one discovered object, such as a file system, with its macro values.
type Entity struct {
	Values   []string // by State.Macros; a macro that the entity does not have is its own value
	LostAt   int64    // time of the first list without it, Unix ns; zero: the last list has it
	Disabled bool     // it was lost for so long that nobody collects its items
}

// identity returns the text that identifies an entity in later lists, its macro values in item keys. It
// consists of the values of the macros in item keys.
func (r *Rule) identity(e *Entity) string {
	var b strings.Builder
	for _, i := range r.keys {
		b.WriteString(e.Values[i])
		b.WriteByte(0)
	}
	return b.String()
}

// ConvertState converts the saved list of a discovery rule's entities to the macros of the edited rule.
// Entities without a macro in the keys of its items are left out: the next value finds them again.
func (r *Rule) ConvertState(old *State) *State {
	s := &State{Macros: r.macros}
	if old == nil {
		return s
	}
	if slices.Equal(old.Macros, r.macros) {
		return old
	}
	for i := range old.Entities {
		e := old.Entities[i]
		values := make([]string, len(r.macros))
		for k, macro := range r.macros {
			values[k] = macro
			if at, ok := slices.BinarySearch(old.Macros, macro); ok {
				values[k] = e.Values[at]
			}
		}
		e.Values = values
		if !slices.ContainsFunc(r.keys, func(k int) bool { return values[k] == r.macros[k] }) {
			s.Entities = append(s.Entities, e)
		}
	}
	return s
}

// Update merges a newly received list of entities into the rule's old state, and returns the new state. The
// list is a value of the rule's item; the time is in Unix ns. The fault is the reason why entities were left
// out, or "" if none was. With an error (the value is no list of entities) the old state stays.
func (r *Rule) Update(old *State, value string, at int64) (s *State, fault string, err error) {
	s = &State{Macros: r.macros}
	seen := map[string]bool{}
	over, long, missing, slow := 0, 0, "", error(nil)
	err = r.reader.Read(value, func(macro func(string) (string, bool)) bool {
		ok, lacks, err := r.filter.match(macro)
		if err != nil {
			slow = err
		}
		if lacks != "" && !ok {
			missing = lacks
		}
		if !ok {
			return true
		}
		e := Entity{Values: make([]string, len(r.macros))}
		for i, name := range r.macros {
			v, ok := macro(name)
			if !ok {
				v = name
			}
			if len(v) > maxMacro {
				long++
				return true
			}
			e.Values[i] = strings.Clone(v)
		}
		if id := r.identity(&e); !seen[id] || len(r.keys) == 0 { // a rule without items only counts entities
			if len(s.Entities) == MaxEntities {
				over++
				return true
			}
			seen[id] = true
			s.Entities = append(s.Entities, e)
		}
		return true
	})
	if err != nil {
		return old, "", err
	}
	if len(r.keys) > 0 {
		r.addLostEntities(s, old, seen, at)
	}
	switch {
	case over > 0:
		fault = fmt.Sprintf("%d entities were found, at most %d have items: write a filter", MaxEntities+over, MaxEntities)
	case long > 0:
		fault = fmt.Sprintf("%s left out: a macro has more than %d bytes", model.CountNoun(long, "entity"), maxMacro)
	case slow != nil:
		fault = fmt.Sprintf("entities left out: filter: %v", slow)
	case missing != "":
		fault = fmt.Sprintf("entities left out: they do not have the macro %s of the filter", missing)
	}
	return s, fault, nil
}

// TracedEntity is one entity in the trial run of a discovery rule, with the filter's decision. It has the macros of
// the entity and the decision of the filter.
type TracedEntity struct {
	Macros, Values []string // those that the filter, the prototypes and the overrides read; absent ones are left out
	Accepted       bool
}

// Trace returns all entities in a list, each with the filter's decision to keep or drop the entity.
func (r *Rule) Trace(list string) (entities []TracedEntity, err error) {
	macros := slices.Clone(r.macros)
	if r.Filter != nil {
		for i := range r.Filter.Conditions {
			macros = append(macros, r.Filter.Conditions[i].Macro)
		}
	}
	slices.Sort(macros)
	macros = slices.Compact(macros)
	err = r.reader.Read(list, func(macro func(string) (string, bool)) bool {
		e := TracedEntity{}
		e.Accepted, _, _ = r.filter.match(macro)
		for _, name := range macros {
			if v, ok := macro(name); ok {
				e.Macros, e.Values = append(e.Macros, name), append(e.Values, strings.Clone(v))
			}
		}
		entities = append(entities, e)
		return true
	})
	return entities, err
}

// addLostEntities adds to the new state the earlier entities that the latest list no longer contains. Entities
// that have been lost for longer than the rule allows are left out. Where found and lost ones exceed the limit,
// the ones that were lost last stay.
func (r *Rule) addLostEntities(s, old *State, seen map[string]bool, at int64) {
	found := len(s.Entities)
	for _, e := range r.ConvertState(old).Entities {
		if seen[r.identity(&e)] {
			continue
		}
		if e.LostAt == 0 {
			e.LostAt = at
		}
		if at-e.LostAt < int64(r.DeleteAfter) {
			e.Disabled = at-e.LostAt >= int64(r.DisableAfter)
			s.Entities = append(s.Entities, e)
		}
	}
	lost := s.Entities[found:]
	slices.SortStableFunc(lost, func(a, b Entity) int { return int(min(max(b.LostAt-a.LostAt, -1), 1)) })
	s.Entities = s.Entities[:min(len(s.Entities), MaxEntities)]
}

// RetainKnown returns the new state without the entities that the old state does not have.
func (r *Rule) RetainKnown(s, old *State) *State {
	known := map[string]bool{}
	for i := range old.Entities {
		known[r.identity(&old.Entities[i])] = true
	}
	out := &State{Macros: s.Macros}
	for i := range s.Entities {
		if known[r.identity(&s.Entities[i])] {
			out.Entities = append(out.Entities, s.Entities[i])
		}
	}
	return out
}

// Equal reports whether two states of a discovery rule have the same entities in the same order.
func (s *State) Equal(other *State) bool {
	if len(s.Entities) == 0 && len(other.Entities) == 0 {
		return true
	}
	if !slices.Equal(s.Macros, other.Macros) || len(s.Entities) != len(other.Entities) {
		return false
	}
	return slices.EqualFunc(s.Entities, other.Entities, func(a, b Entity) bool {
		return a.LostAt == b.LostAt && a.Disabled == b.Disabled && slices.Equal(a.Values, b.Values)
	})
}

// Counts returns how many entities the last list contained and how many disappeared from the list.
func (s *State) Counts() (found, lost int) {
	for i := range s.Entities {
		if s.Entities[i].LostAt != 0 {
			lost++
		}
	}
	return len(s.Entities) - lost, lost
}
