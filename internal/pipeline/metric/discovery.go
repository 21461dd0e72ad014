package metric

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/muster-fleet/muster/internal/discovery"
	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
)

// ruleValue is a value of the item of a discovery rule: a list of entities.
type ruleValue struct {
	key  string
	at   int64
	list string
}

// noteList keeps the list of entities of a rule until all values of the signal are applied; the last one counts.
func (w *metricApplier) noteList(v ruleValue) {
	for i := range w.lists {
		if w.lists[i].key == v.key {
			w.lists[i] = v
			return
		}
	}
	w.lists = append(w.lists, v)
}

// discover applies the values of rules in a signal, when all its values are applied: new items have no values in the same signal.
func (w *metricApplier) discover(n uint32, unit model.UnitID) {
	for i := range w.lists {
		if _, u := w.p.nodes[n].unit(unit); u != nil {
			w.applyList(n, u, &w.lists[i])
		}
	}
	clear(w.lists)
	w.lists = w.lists[:0]
}

// applyList applies a list of entities: the state of the Template gets the items and triggers of new entities, and loses the triggers of lost ones.
func (w *metricApplier) applyList(n uint32, u *unitState, v *ruleValue) {
	position, ok := u.Item(v.key)
	if !ok || u.items[position].rule < 0 || v.at < u.slots[position].at {
		return // a late list
	}
	i := u.items[position].rule
	rule, s := &u.base.rules[i], &u.slots[position]
	s.at = v.at
	if rule.Rule == nil {
		s.reason = copyText(rule.fault, maxReason)
		return
	}
	state, fault, err := rule.Update(u.found[i], v.list, v.at)
	if err != nil {
		s.reason = copyText("no list of entities: "+err.Error(), maxReason)
		w.view.unsupported.Add(1)
		return
	}
	found, lost := state.Counts()
	text := model.CountNoun(found, "entity")
	if lost > 0 {
		text += fmt.Sprintf(", %d lost", lost)
	}
	if !state.Equal(u.found[i]) {
		states := append([]*discovery.State(nil), u.found...)
		states[i] = state
		u = w.replaceUnit(n, u, u.base, states)
		position, _ = u.Item(v.key)
		s = &u.slots[position]
	}
	if fault == "" {
		fault = u.rules[i].fault
	}
	s.value, s.reason = item.FromText(text), fault
}

// positionOf returns the position of an item in the state by its position in a value block of template of, where the keys of
// discovered items follow the items of the template.
func (u *unitState) positionOf(of *template, position int, keys []string) (int, bool) {
	switch {
	case position >= len(of.items)+len(keys):
		return 0, false // of a definition that does not match: only a faulty agent sends this
	case position >= len(of.items):
		return u.Item(keys[position-len(of.items)]) // none: the server does not know the entity, or forgot it
	case u.base != of: // late values of an older definition
		return u.Item(of.Items[position].Key)
	case u.moved != nil:
		return u.moved[position], true
	}
	return position, true
}

// noneFound returns the states of a template's rules before their first values.
func noneFound(t *template) []*discovery.State {
	list := make([]*discovery.State, len(t.rules))
	for i := range t.rules {
		list[i] = &discovery.State{}
		if t.rules[i].Rule != nil {
			list[i] = t.rules[i].Adopt(nil)
		}
	}
	return list
}

// adoptFound returns the states of an edited template's rules, with the entities that the rules of the same keys have found.
func adoptFound(t *template, old *unitState) []*discovery.State {
	list := noneFound(t)
	for i := range t.rules {
		for k := range old.rules {
			if old.Rules[k].Key == t.Rules[i].Key && t.rules[i].Rule != nil {
				list[i] = t.rules[i].Adopt(old.found[k])
			}
		}
	}
	return list
}

// keyOf returns the key of a template with discovered items.
func keyOf(t *template, found []*discovery.State) templateKey {
	key := templateKey{definition: t.ID, macros: t.macros}
	var b []byte
	some := false
	for _, s := range found {
		b = appendFound(b, s)
		some = some || len(s.Entities) > 0
	}
	if some {
		key.entities = sha256.Sum256(b)
	}
	return key
}

// withEntities returns the compiled form of a template with the items and triggers of discovered entities. Nodes with equal entities
// share it.
func (v *View) withEntities(t *template, found []*discovery.State) *template {
	key := keyOf(t, found)
	if key.entities == [32]byte{} {
		return t
	}
	if known, ok := v.templates.Load(key); ok {
		return known.(*template)
	}
	known, _ := v.templates.LoadOrStore(key, t.withEntities(found))
	return known.(*template)
}

// appendFound appends the state of a rule to a snapshot.
func appendFound(b []byte, s *discovery.State) []byte {
	if len(s.Entities) == 0 {
		return append(b, 0, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(s.Macros)))
	for _, macro := range s.Macros {
		b = shard.AppendText(b, macro)
	}
	b = binary.AppendUvarint(b, uint64(len(s.Entities)))
	for i := range s.Entities {
		e := &s.Entities[i]
		for _, value := range e.Values {
			b = shard.AppendText(b, value)
		}
		b = binary.AppendVarint(b, e.Lost)
		b = shard.AppendBool(b, e.Disabled)
	}
	return b
}

// decodeFound reads the state of a rule from a snapshot.
func decodeFound(d *shard.Decoder) *discovery.State {
	s := &discovery.State{}
	for range d.Count() {
		s.Macros = append(s.Macros, string(d.Bytes()))
	}
	for range d.Count() {
		e := discovery.Entity{}
		for range s.Macros {
			e.Values = append(e.Values, string(d.Bytes()))
		}
		e.Lost, e.Disabled = d.Int(), d.Byte() != 0
		if d.Err() != nil {
			break
		}
		s.Entities = append(s.Entities, e)
	}
	return s
}
