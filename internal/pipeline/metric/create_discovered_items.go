package metric

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/discovery"
	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
)

// ruleValue is one list of discovered entities, received as a value for a discovery rule. The list is the value
// of the rule's item, in JSON.
type ruleValue struct {
	key  string
	at   int64
	list string
}

// queueEntityList queues a new list of discovered entities until the end of the agent's message. A later list
// for the same rule replaces an earlier one.
func (w *metricApplier) queueEntityList(v ruleValue) {
	for i := range w.lists {
		if w.lists[i].key == v.key {
			w.lists[i] = v
			return
		}
	}
	w.lists = append(w.lists, v)
}

// applyQueuedLists passes the queued lists of entities to the discovery rules. It runs after all values of the
// signal, because the signal has no values of items that the lists create.
func (w *metricApplier) applyQueuedLists(n uint32, u *templateState) {
	for i := range w.lists {
		w.applyEntityList(u, &w.lists[i])
	}
	if len(w.lists) > 0 && u.limit.isDiscoveryPaused() {
		w.view.discoveries.Add(1) // the waiting entities may fit now
		removeLostItems(w, n, u)
	}
	clear(w.lists)
	w.lists = w.lists[:0]
	w.createDiscoveredItems(n, u)
}

// applyEntityList updates a discovery rule with the new list of entities of its item.
func (w *metricApplier) applyEntityList(u *templateState, v *ruleValue) {
	position, ok := u.ItemIndex(v.key)
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
	state, fault, err := rule.Update(u.discovered[i], v.list, v.at)
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
	s.value, s.reason = item.FromText(text), fault
	switch {
	case state.Equal(u.materialized[i]):
		u.discovered[i] = u.materialized[i]
	case !state.Equal(u.discovered[i]):
		u.discovered[i] = state
	}
}

// createDiscoveredItems creates the items and triggers of a node's discovered entities, and returns the new
// state. If the Template changes too often, they wait for a later signal. If it is held, they wait for its
// release.
func (w *metricApplier) createDiscoveredItems(n uint32, u *templateState) *templateState {
	if u.limit.isDiscoveryPaused() || slices.Equal(u.discovered, u.materialized) || !u.limit.allows(w.Received) {
		return u
	}
	return w.replaceTemplateState(n, u, u.base, u.discovered)
}

// missingItemsReason explains why the discovered entities of a rule have no items yet. The text is empty if
// they have items.
func (u *templateState) missingItemsReason(rule int) string {
	if u.discovered[rule] == u.materialized[rule] {
		return u.rules[rule].fault
	}
	if u.limit.isDiscoveryPaused() {
		return fmt.Sprintf("%s without items: the namespace has its limit of discovered items (spec.limits.discoveredItems)",
			model.CountNoun(max(1, len(u.discovered[rule].Entities)-len(u.materialized[rule].Entities)), "entity"))
	}
	return fmt.Sprintf("the list of entities changes too often: its items follow after %s (at most %d changes at once, then one each %s)",
		time.Unix(0, u.limit.next()).UTC().Format(time.RFC3339), changesAtOnce, model.Duration(changeEvery))
}

// itemIndexOf converts an item's index in an agent's block of values to its index in the Template's state. In a
// block, discovered items (by their keys) follow the items of the Template.
func (u *templateState) itemIndexOf(of *model.TemplateDefinition, position int, keys []string) (int, bool) {
	switch {
	case position >= len(of.Items)+len(keys):
		return 0, false // of a definition that does not match: only a faulty agent sends this
	case position >= len(of.Items):
		return u.ItemIndex(keys[position-len(of.Items)]) // none: the server does not know the entity, or forgot it
	case u.ID != of.ID: // late values of an older definition
		return u.ItemIndex(of.Items[position].Key)
	case u.moved != nil:
		return u.moved[position], true
	}
	return position, true
}

// emptyRuleStates returns a state without discovered entities for each discovery rule of a Template.
func emptyRuleStates(t *template) []*discovery.State {
	list := make([]*discovery.State, len(t.rules))
	for i := range t.rules {
		list[i] = &discovery.State{}
		if t.rules[i].Rule != nil {
			list[i] = t.rules[i].ConvertState(nil)
		}
	}
	return list
}

// copyRuleStates copies the discovered entities of an old Template version to the rules of the new version.
// They keep the entities that the old rules with the same keys have found.
func copyRuleStates(t *template, old *templateState) []*discovery.State {
	list, found := emptyRuleStates(t), old.discovered
	if old.limit.isDiscoveryPaused() { // the others wait for the next list
		found = old.materialized
	}
	for i := range t.rules {
		for k := range old.rules {
			if old.Rules[k].Key == t.Rules[i].Key && t.rules[i].Rule != nil {
				list[i] = t.rules[i].ConvertState(found[k])
			}
		}
	}
	return list
}

// compiledFormKey returns the cache key of a Template compiled with a node's discovered entities. Nodes with equal
// keys share the compiled form.
func compiledFormKey(t *template, found []*discovery.State) templateKey {
	key := templateKey{definition: t.ID, macros: t.macros}
	var b []byte
	some := false
	for _, s := range found {
		b = appendRuleState(b, s)
		some = some || len(s.Entities) > 0
	}
	if some {
		key.entities = sha256.Sum256(b)
	}
	return key
}

// appendRuleState appends the state of a discovery rule to a snapshot.
func appendRuleState(b []byte, s *discovery.State) []byte {
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
		b = binary.AppendVarint(b, e.LostAt)
		b = shard.AppendBool(b, e.Disabled)
	}
	return b
}

// decodeRuleState reads the state of a discovery rule from a snapshot.
func decodeRuleState(d *shard.Decoder) *discovery.State {
	s := &discovery.State{}
	for range d.Count() {
		s.Macros = append(s.Macros, string(d.Bytes()))
	}
	for range d.Count() {
		e := discovery.Entity{}
		for range s.Macros {
			e.Values = append(e.Values, string(d.Bytes()))
		}
		e.LostAt, e.Disabled = d.Int(), d.Byte() != 0
		if d.Err() != nil {
			break
		}
		s.Entities = append(s.Entities, e)
	}
	return s
}
