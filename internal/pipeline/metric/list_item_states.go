package metric

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/prep"
)

// ItemState is a copy of the state of one item on one node.
type ItemState struct {
	*model.Item
	Template model.UnitID
	Value    item.Value // the last one; kind None: none came yet
	At       time.Time  // of the last value or failure; zero: none came yet
	Reason   string     // the item is unsupported; empty: it is not
	Idle     string     // why nobody collects the item, or its master; empty: its values come
	Triggers []TriggerState
	valueMap *prep.ValueMap
}

// Text formats the last value of the item for people, with its value map's text or its unit.
func (i *ItemState) Text() string { return valueText(i.Value, i.Unit, i.valueMap) }

// valueText formats a value for people, with its value map's text or its unit. An example is: up (1).
func valueText(v item.Value, unit string, texts *prep.ValueMap) string {
	if text, ok := texts.Text(v); ok {
		return text + " (" + v.String() + ")"
	}
	return FormatValue(v, unit)
}

// TriggerState is a copy of the state of one trigger on one node.
type TriggerState struct {
	Name, Expression string
	Problem          bool
	Unknown          string // why it has no result; empty: it has one
}

// Items returns the states of a node's items, sorted by Template and key
func (v *View) Items(node model.NodeID) (list []ItemState) {
	v.eachTemplateState(node, func(u *templateState) {
		for i := range u.slots {
			one := u.itemState(i)
			if one.Reason == "" && u.isSeriesRefused(i) {
				one.Reason = v.refusedSeriesReason(node)
			}
			list = append(list, one)
		}
	})
	return list
}

// EachItem calls a function with every item of a node, and the time of each item's last value. The time is in
// Unix ns. It is the time of the last failure if the failure was later. It is zero before the first value.
func (v *View) EachItem(node model.NodeID, each func(of *model.Item, at int64, unsupported bool)) {
	v.eachTemplateState(node, func(u *templateState) {
		for i := range u.slots {
			each(&u.Items[i], u.slots[i].at, u.slots[i].reason != "" || u.isSeriesRefused(i))
		}
	})
}

// CountTriggers returns the number of triggers on a node.
func (v *View) CountTriggers(node model.NodeID) (n int) {
	v.eachTemplateState(node, func(u *templateState) { n += len(u.triggers) })
	return n
}

// eachTemplateState calls a function with the state of every Template that has values on a node.
func (v *View) eachTemplateState(node model.NodeID, each func(u *templateState)) {
	of := v.shard.PartitionOf(node)
	if of == nil {
		return
	}
	p := &v.partitions[of.ID]
	p.Lock()
	defer p.Unlock()
	n, ok := p.Find(node)
	if !ok {
		return
	}
	for _, u := range p.nodes[n].units {
		each(u)
	}
}

// EachDiscoveredItem calls a function with every item that discovery rules made on a node. With a key, only for
// that item. It passes the definition that the node's value blocks name, the macros that Properties set, the
// number of the definition's own items, and the item.
func (v *View) EachDiscoveredItem(node model.NodeID, key string, each func(definition model.DefinitionID, macros string, own int, of *model.Item)) {
	v.eachTemplateState(node, func(u *templateState) {
		for i, end := u.itemsWith(key); i < end; i++ {
			if _, own := u.base.ItemIndex(u.Items[i].Key); !own {
				each(u.ID, u.macros, len(u.base.Items), &u.Items[i])
			}
		}
	})
}

// itemsWith returns the index range of items with a given key, where an empty key means all items.
func (u *templateState) itemsWith(key string) (first, end int) {
	if key == "" {
		return 0, len(u.Items)
	}
	i, ok := u.ItemIndex(key)
	if !ok {
		return 0, 0
	}
	return i, i + 1
}

// itemState returns a copy of the state of one item.
func (u *templateState) itemState(i int) ItemState {
	of, s := &u.Items[i], &u.slots[i]
	out := ItemState{Item: of, Template: u.Unit, Idle: u.NotCollected(of), Value: s.value, Reason: s.reason, valueMap: u.items[i].valueMap}
	if s.at != 0 {
		out.At = time.Unix(0, s.at).UTC()
	}
	if out.Reason == "" {
		out.Reason = u.items[i].fault
	}
	if rule := u.items[i].rule; rule >= 0 && out.Reason == "" {
		out.Reason = u.missingItemsReason(rule)
	}
	for _, k := range u.items[i].listedTriggers {
		t, state := &u.triggers[k], TriggerState{Name: u.Triggers[k].Name, Expression: u.expressionText(u.Triggers[k].Expression), Unknown: u.template.triggers[k].fault}
		if t.problem != nil {
			state.Problem, state.Unknown = t.problem.Problem, t.unknown
			if !t.judged && t.unknown == "" {
				state.Unknown = "no value came yet"
			}
		}
		out.Triggers = append(out.Triggers, state)
	}
	return out
}

// Definitions returns the ids of the compiled Templates that item states, unwritten trigger changes and deferred values use.
func (v *View) Definitions() map[model.DefinitionID]bool {
	named := map[model.DefinitionID]bool{}
	for i := range v.partitions {
		p := &v.partitions[i]
		p.Lock()
		for _, n := range p.SortedNodes() {
			for _, u := range p.nodes[n].units {
				named[u.ID] = true
			}
		}
		for k := range p.pending {
			named[p.pending[k].Definition] = true
		}
		for _, list := range p.deferred.nodes {
			for k := range list {
				named[list[k].definition] = true
			}
		}
		p.Unlock()
	}
	return named
}

// scales has the step between the prefixes of a unit, such as K and M, by unit. Other units have no prefix.
var scales = map[string]float64{"B": 1024, "Bps": 1024, "b": 1000, "bps": 1000, "Hz": 1000, "W": 1000, "Wh": 1000, "VA": 1000}

// FormatValue formats a value with its unit for people, such as 1.5 GiB. Without a unit it has at most six digits. The
// units uptime and unixtime are Zabbix's names of a duration and of a time in seconds.
func FormatValue(v item.Value, unit string) string {
	if v.Kind() == item.None {
		return "-"
	}
	if v.Kind() == item.TextValue {
		return v.String()
	}
	f := v.Float()
	switch {
	case unit == "unixtime" && math.Abs(f) < 1<<40:
		return time.Unix(int64(f), 0).UTC().Format(time.RFC3339)
	case unit == "uptime" && f >= 0 && f < 1<<40:
		seconds := int64(math.Round(f))
		clock := fmt.Sprintf("%02d:%02d:%02d", seconds/3600%24, seconds/60%60, seconds%60)
		if days := seconds / 86400; days > 0 {
			return model.CountNoun(int(days), "day") + ", " + clock
		}
		return clock
	case unit == "s" && f >= 60:
		return model.Duration(f * float64(time.Second)).String()
	}
	if step := scales[unit]; step > 0 && math.Abs(f) >= step {
		prefix := 0
		for f /= step; math.Abs(f) >= step && prefix < 3; prefix++ {
			f /= step
		}
		letter := string("kMGT"[prefix])
		if step == 1024 {
			letter = string("KMGT"[prefix]) + "i"
		}
		return fmt.Sprintf("%.4g %s%s", f, letter, unit)
	}
	text := strconv.FormatFloat(f, 'g', 6, 64)
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		text = strconv.FormatFloat(f, 'f', -1, 64)
	}
	if unit = strings.TrimPrefix(unit, "!"); unit == "" {
		return text
	}
	return text + " " + unit
}
