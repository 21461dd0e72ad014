package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/muster-fleet/muster/internal/item"
)

// TemplateSpec is a set of items, triggers and discovery rules that are assigned to nodes together.
type TemplateSpec struct {
	// The nodes that it is linked to; default none.
	Targets *Targets `json:"targets,omitempty"`
	// Values that the agent collects, or that the server computes or receives.
	Items []Item `json:"items,omitempty" ref:"-"`
	// Conditions over the values of its items. A condition that holds opens a problem of the node.
	Triggers []Trigger `json:"triggers,omitempty"`
	// Tags of all its triggers. A trigger's own tag of the same name wins.
	Tags map[string]string `json:"tags,omitempty"`
	// Rules that find entities of a node, such as its file systems, and make items and triggers of each.
	Discovery []DiscoveryRule `json:"discovery,omitempty"`
	// Default values of its macros: {"{$LOAD.MAX}": "4"}. A Property with the name of a macro overrides it on its nodes.
	Macros map[string]string `json:"macros,omitempty"`
	// Macros whose values are Secrets, such as passwords. Only agents of Muster have the values, in keys of items with interval.
	Secrets []MacroSecret `json:"secrets,omitempty"`
	// Texts for values, by name. Items name them.
	ValueMaps []ValueMap `json:"valueMaps,omitempty"`
	// Nothing of it is collected or judged while this is true.
	Disabled bool `json:"disabled,omitempty"`
}

// MacroSecret sets a macro of a Template to the value of a Secret. No Property overrides it.
type MacroSecret struct {
	// The macro, without a context: {$DB.PASSWORD}.
	Macro string `json:"macro"`
	// The Secret, of the same namespace or shared/NAME. One with agentFile or agentEnv has another value on each node.
	Secret string `json:"secret" ref:"Secret"`
}

// Kind returns the name of the resource kind, Template.
func (*TemplateSpec) Kind() string { return "Template" }

// Item is one metric or text of a Template, with key, value type and preprocessing steps. The steps make the values of
// raw values.
type Item struct {
	// Its key, unique within the template: system.cpu.load[all,avg1]. For an item with interval, the key names the
	// collector of the agent and its parameters.
	Key string `json:"key"`
	// float (default), unsigned, text, log or boolean.
	Type string `json:"type,omitempty"`
	// How often the agent collects it, or the server computes it; each node has a fixed offset of its own. Default 1m, unless
	// from, trapper or notCollected is set. It may have macros ({$INTERVAL}), and for agents Zabbix's custom intervals
	// (1m;10s/1-5,09:00-18:00;h23m50).
	Interval Interval `json:"interval,omitempty"`
	// The agent's HTTP request for its value. The key is then only a name: shop.orders.
	HTTP *HTTPRequest `json:"http,omitempty"`
	// The key of the master item whose values it is made of, instead of interval.
	From string `json:"from,omitempty"`
	// Others send its values, instead of interval: no agent collects it.
	Trapper bool `json:"trapper,omitempty"`
	// The server computes it each interval, in Zabbix's language over items of the node (100*last(//used)/last(//total)) or of
	// several nodes (avg(last_foreach(/*/system.cpu.load?[group="web"]))).
	Formula string `json:"formula,omitempty"`
	// The server measures itself each interval; the key names the measure: zabbix[queue,10m].
	Internal bool `json:"internal,omitempty"`
	// The reason why nobody collects it yet, instead of interval: SNMP .1.3.6.1.2.1.1.3.0.
	NotCollected string `json:"notCollected,omitempty"`
	// The unit of its values: B, %, s, bps. It may have macros.
	Unit string `json:"unit,omitempty"`
	// The name of the value map of this template that has texts for its values.
	ValueMap string `json:"valueMap,omitempty"`
	// Steps of preprocessing, in order: [{multiplier: "8"}, {changePerSecond: []}].
	Steps []Step `json:"steps,omitempty"`
	// Formulas over several nodes choose items by them: last_foreach(/*/KEY?[tag="NAME:VALUE"]).
	Tags map[string]string `json:"tags,omitempty"`
	// The server keeps only its last value. Triggers and the items that are made of it get each value.
	NoHistory bool `json:"noHistory,omitempty"`
	// It is not collected while this is true.
	Disabled bool `json:"disabled,omitempty"`
}

// IsCollected reports whether an agent collects the values of the item.
func (i *Item) IsCollected() bool {
	return i.From == "" && !i.Trapper && i.NotCollected == "" && !i.IsComputed()
}

// IsComputed reports whether the server computes the item's values by a formula, or measures its own state.
func (i *Item) IsComputed() bool { return i.NotCollected == "" && (i.Formula != "" || i.Internal) }

// ItemSources counts a Template's items by origin of the values, such as collected, computed or received. An
// item that is made of another one counts as that one.
type ItemSources struct {
	Collected int // by the agent
	Trapper   int // sent by a program such as zabbix_sender
	Computed  int // by the server
	Idle      int // without a source: Muster does not support the type of the item
}

// CountSources counts a Template's items by origin of the values, such as collected, computed or received.
func (s *TemplateSpec) CountSources() (n ItemSources) {
	byKey := make(map[string]*Item, len(s.Items))
	for i := range s.Items {
		byKey[s.Items[i].Key] = &s.Items[i]
	}
	for i := range s.Items {
		of := &s.Items[i]
		for range s.Items { // a chain of masters is not longer
			if master := byKey[of.From]; of.From != "" && master != nil {
				of = master
			}
		}
		switch {
		case of.Trapper:
			n.Trapper++
		case of.IsComputed():
			n.Computed++
		case of.IsCollected():
			n.Collected++
		default:
			n.Idle++
		}
	}
	return n
}

// ValueType returns the declared type of the item's values.
func (i *Item) ValueType() (item.Type, bool) {
	if i.Type == "" {
		return item.Float, true
	}
	return item.ParseType(i.Type)
}

// ValueMap has texts for the values of items, so that 1 is shown as "up (1)". It changes no value.
type ValueMap struct {
	// Its name, unique within the template.
	Name string `json:"name"`
	// The first mapping that matches a value gives the text; a default is last, wherever it stands.
	Mappings []ValueMapping `json:"mappings"`
}

// ValueMapping assigns one text to one or several values of an item.
type ValueMapping struct {
	// How values are compared: equal (default), greaterOrEqual, lessOrEqual, inRange, regexp or default.
	Type string `json:"type,omitempty"`
	// The value; for inRange ranges such as 1-5,8; for regexp a pattern, which matches values of text items alone.
	Value string `json:"value,omitempty"`
	// The text in place of the value.
	Text string `json:"text"`
}

// Trigger is a condition over values that opens and closes a problem.
type Trigger struct {
	// Its name, unique within the template.
	Name string `json:"name"`
	// The condition in Zabbix's language; an empty host is the node itself: min(//system.cpu.load,5m)>4.
	Expression string `json:"expression"`
	// The condition that must hold, with expression false, before the problem closes; default none.
	Recovery string `json:"recovery,omitempty"`
	// Severity of its problem: information, warning, average (default), high or disaster.
	Severity string `json:"severity,omitempty"`
	// The receivers of its notifications: route or handlers.
	Alert *Alert `json:"alert,omitempty"`
	// The link to the page with the steps to take. It stands in every message.
	Runbook string `json:"runbook,omitempty"`
	// Labels of its problem beside the node's, for routes, silences and -l: {scope: capacity}. The tags of its items are labels,
	// too. Values may have macros: {$NAME}, {ITEM.VALUE}, {HOST.NAME}.
	Tags map[string]string `json:"tags,omitempty"`
	// A text about the problem for people, with the same macros. It stands in every message.
	Description string `json:"description,omitempty"`
	// The first line of the output when it changes, with the same macros: "used: {ITEM.LASTVALUE1}".
	OperationalData string `json:"operationalData,omitempty"`
	// Names of triggers of this template: while one of them has a problem, nobody is notified of this one's.
	DependsOn []string `json:"dependsOn,omitempty"`
	// The trigger is not evaluated while this is true.
	Disabled bool `json:"disabled,omitempty"`
}

// DefaultItemInterval is the interval of an item that names neither interval nor from.
const DefaultItemInterval Interval = "1m"

// SeverityName returns the name of the severity of the trigger's problem.
func (t *Trigger) SeverityName() string { return cmp.Or(t.Severity, Average.String()) }

// Step is one step of preprocessing, with a name, parameters and onFail. Files write it as a mapping of the name to
// one parameter or a list of parameters.
type Step struct {
	Name       string   // multiplier, jsonPath, …
	Parameters []string // texts, as the step wants them
	OnFail     *OnFail  // nil: the item becomes unsupported
}

// OnFail has the value or error text that an item gets in place of a preprocessing step's error. At most one
// field is set; none discards the value.
type OnFail struct {
	// The input of the next step, in place of the failed output.
	Value *string `json:"value,omitempty"`
	// The text of the error, in place of the step's own.
	Error string `json:"error,omitempty"`
}

// MarshalJSON encodes the step in the form of resource files. An example is {multiplier: "8", onFail: {}}.
func (s Step) MarshalJSON() ([]byte, error) {
	out := map[string]any{s.Name: s.Parameters}
	if len(s.Parameters) == 1 {
		out[s.Name] = s.Parameters[0]
	} else if s.Parameters == nil {
		out[s.Name] = []string{}
	}
	if s.OnFail != nil {
		out["onFail"] = s.OnFail
	}
	return json.Marshal(out)
}

// UnmarshalJSON decodes a preprocessing step, written as a mapping of its name to one or several texts. The
// mapping may also have onFail.
func (s *Step) UnmarshalJSON(data []byte) error {
	*s = Step{}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return fmt.Errorf("step: expected a mapping such as {multiplier: \"8\"}")
	}
	if raw, ok := fields["onFail"]; ok {
		s.OnFail = &OnFail{}
		if err := json.Unmarshal(raw, s.OnFail); err != nil {
			return fmt.Errorf("step: onFail: expected {}, {value: TEXT} or {error: TEXT}")
		}
		delete(fields, "onFail")
	}
	if len(fields) != 1 {
		return fmt.Errorf("step: expected one name, got %d: %v", len(fields), slices.Sorted(maps.Keys(fields)))
	}
	for name, raw := range fields {
		s.Name = name
		var one string
		if err := json.Unmarshal(raw, &one); err == nil {
			s.Parameters = []string{one}
		} else if err := json.Unmarshal(raw, &s.Parameters); err != nil {
			return fmt.Errorf("step: %s: expected a text or a list of texts", name)
		}
	}
	return nil
}
