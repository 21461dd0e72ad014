package metric

import (
	"reflect"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/discovery"
	"github.com/muster-fleet/muster/internal/expect"
	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/prep"
	"github.com/muster-fleet/muster/internal/store/series"
	"github.com/muster-fleet/muster/internal/trigger"
	"github.com/muster-fleet/muster/internal/wire"
)

// metricPartition has the states of all items and triggers of one partition's nodes. The mutex of the shard's
// partition guards it.
type metricPartition struct {
	*shard.Partition
	nodes     []nodeState                     // by the shard's index of the node
	deadlines *expect.Engine                  // by the shard's index of the node: the next change of a time function
	pending   []Verdict                       // in order of computation
	sequence  uint64                          // of the last pending verdict; not in snapshots
	refusals  map[checkOnNode]RejectedNumbers // of numbers in results of checks; not in snapshots
	stored    journal.Position                // the series store has the values up to this commit
	deferred  deferredPartition
}

// Verdict is the changed state of a trigger, queued to be written to the journal
type Verdict struct {
	Node model.NodeID
	wire.Verdict
	sequence uint64 // numbers the verdicts of a partition in this process, from 1
}

// nodeState has one node's item and trigger states by Template, and the clocks of the values' senders. The
// Templates are sorted by id.
type nodeState struct {
	units      []*templateState
	clocks     []senderClock      // by age
	logs       []wire.LogPosition // of a Zabbix agent, by last use
	timeOffset int64              // send time less listening time of the last live batch with a sender's clock, ns; zero: none came yet
}

// templateState is the state of one Template on one node, with its items and triggers
type templateState struct {
	*template
	discovered   []*discovery.State // by index of the rule
	materialized []*discovery.State // those whose entities have items; the same pointers, unless changes wait
	limit        changeLimit
	grew         int64          // receive time of its last additional items, Unix ns; not in snapshots
	slots        []itemSlot     // by position
	triggers     []triggerState // by index
	// Of templates with formulas: their windows, by index, and the time until which they are computed.
	windows  []*trigger.Windows
	computed int64
}

// itemSlot is the state of one item, with its last value and error. It also has the values that preprocessing remembers.
type itemSlot struct {
	at     int64         // time of the last value or failure, Unix ns; zero: none came yet
	value  item.Value    // the last one
	reason string        // the item is unsupported; empty: it is not
	prep   *prep.State   // nil: the chain remembers nothing
	series series.Series // not in snapshots: found by its labels
}

// triggerState is the state of one trigger, with the values for its expressions and the last result
type triggerState struct {
	problem, recovery *trigger.Windows // nil: the trigger does not compile, or has no such expression
	judged            bool             // a verdict was made
	unknown           string           // why the last evaluation has no result; empty: it has one
}

// findTemplate finds a Template's item and trigger states on the node, with their index in the node's list. For
// a missing Template it returns nil and the index at which to insert the state.
func (n *nodeState) findTemplate(id model.UnitID) (at int, u *templateState) {
	at, ok := slices.BinarySearchFunc(n.units, id, func(u *templateState, id model.UnitID) int { return int(int64(u.Unit) - int64(id)) })
	if ok {
		u = n.units[at]
	}
	return at, u
}

// newTemplateState returns the initial item and trigger states of a Template on a node.
func newTemplateState(t *template, now int64) *templateState {
	u := &templateState{template: t, slots: make([]itemSlot, len(t.items)), triggers: make([]triggerState, len(t.triggers))}
	u.setEntities(emptyRuleStates(t))
	for i := range t.items {
		if c := t.items[i].chain; c != nil && c.HasState() {
			u.slots[i].prep = &prep.State{}
		}
	}
	for i := range t.formulas {
		u.windows = append(u.windows, t.formulas[i].program.NewWindows(now))
	}
	u.computed = now
	for i := range t.triggers {
		if c := &t.triggers[i]; c.problem != nil {
			u.triggers[i].problem = c.problem.NewWindows(now)
			if c.recovery != nil {
				u.triggers[i].recovery = c.recovery.NewWindows(now)
			}
		}
	}
	return u
}

// setEntities stores the entities that the discovery rules have found on the node. The template already has their
// items.
func (u *templateState) setEntities(list []*discovery.State) {
	u.materialized, u.discovered = list, slices.Clone(list)
}

// sameSteps reports whether an item's preprocessing steps are equal in two versions of a template. The values of
// macros count.
func sameSteps(old *templateState, k int, t *template, i int) bool {
	was, err := old.values.ExpandSteps(old.Items[k].Steps)
	is, again := t.values.ExpandSteps(t.Items[i].Steps)
	return err == nil && again == nil && reflect.DeepEqual(was, is)
}

// transferState copies the values of unchanged items and triggers when a new version of their Template takes
// over. It takes over items by key and triggers by name. The change is an edit or other discovered items. The
// memory of steps survives only where the steps stay, windows of functions where type and function stay.
func transferState(t *template, old *templateState, now int64) *templateState {
	u := newTemplateState(t, now)
	for i := range t.Items {
		k, ok := old.ItemIndex(t.Items[i].Key)
		if !ok {
			continue
		}
		was, is := &old.slots[k], &u.slots[i]
		is.at, is.value, is.series = was.at, was.value, was.series
		if t.Items[i].NotCollected == "" { // else that is the reason
			is.reason = was.reason
		}
		if is.prep != nil && was.prep != nil && old.Items[k].Type == t.Items[i].Type && sameSteps(old, k, t, i) {
			is.prep = was.prep
		}
	}
	u.copyFormulaInputs(old)
	for i := range t.Triggers {
		k, ok := slices.BinarySearchFunc(old.Triggers, t.Triggers[i].Name, compareTrigger)
		if !ok {
			continue
		}
		was, is, from, to := &old.triggers[k], &u.triggers[i], &old.template.triggers[k], &t.triggers[i]
		is.judged, is.unknown = was.judged, was.unknown
		if was.problem != nil && is.problem != nil {
			is.problem = to.problem.MigrateWindows(from.problem, was.problem)
		}
		if was.recovery != nil && is.recovery != nil {
			is.recovery = to.recovery.MigrateWindows(from.recovery, was.recovery)
		}
	}
	return u
}

// compareTrigger compares the name of a trigger with a given name, for a binary search.
func compareTrigger(t model.DefinitionTrigger, name string) int { return strings.Compare(t.Name, name) }
