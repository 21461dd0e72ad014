package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// DiscoveryRule is a Zabbix low-level discovery rule, which finds entities of a node such as file systems. It
// makes items and triggers of each entity. It is an item itself: its value is a JSON list with an object per
// entity.
type DiscoveryRule struct {
	// The key of the item whose value lists the entities, unique within the template: vfs.fs.discovery.
	Key string `json:"key"`
	// How often the agent collects it, as for items. Default 1h, unless from, trapper or notCollected is set.
	Interval Interval `json:"interval,omitempty"`
	// The agent's HTTP request for its value. The key is then only a name.
	HTTP *HTTPRequest `json:"http,omitempty"`
	// The key of the master item whose values it is made of, instead of interval.
	From string `json:"from,omitempty"`
	// Others send its values, instead of interval: no agent collects it.
	Trapper bool `json:"trapper,omitempty"`
	// The reason why nobody collects it yet, instead of interval.
	NotCollected string `json:"notCollected,omitempty"`
	// Steps of preprocessing, in order, which end with the JSON list.
	Steps []Step `json:"steps,omitempty"`
	// JSONPaths of macros within an entity: {"{#NAME}": "$.name"}. An entity's members with names such as {#NAME} are macros
	// without a path.
	Paths map[string]string `json:"paths,omitempty"`
	// The entities to keep; default all.
	Filter *DiscoveryFilter `json:"filter,omitempty"`
	// Changes for entities that match, in order.
	Overrides []DiscoveryOverride `json:"overrides,omitempty"`
	// Prototypes of items. Each key has a macro: vfs.fs.size[{#FSNAME},pused]. A disabled one is made only where an override
	// says discover: true. A rule without prototypes counts entities.
	Items []Item `json:"items,omitempty" ref:"-"`
	// Prototypes of triggers over these items and the template's own items. Each name has a macro.
	Triggers []Trigger `json:"triggers,omitempty"`
	// How long the items of an entity that is no longer found stay in use: now (default), never, or a time such as 1h. Then
	// nobody collects them, and their triggers go with their problems. It may have macros.
	DisableAfter string `json:"disableAfter,omitempty"`
	// How long such an entity stays listed: now, never, or a time; default 7d. It may have macros.
	DeleteAfter string `json:"deleteAfter,omitempty"`
	// Nothing is discovered while this is true.
	Disabled bool `json:"disabled,omitempty"`
}

// DiscoveryFilter selects found entities (such as file systems) by the values of their macros.
type DiscoveryFilter struct {
	// How the conditions combine: A and (B or C). Default: conditions on one macro by or, on different macros by and.
	Formula string `json:"formula,omitempty"`
	// The conditions.
	Conditions []DiscoveryCondition `json:"conditions"`
}

// DiscoveryCondition is a condition on the value of one discovery macro, such as {#FSTYPE}, of a found entity.
// One of matches, notMatches and exists is set. An entity without the macro satisfies exists: false alone.
type DiscoveryCondition struct {
	// Its letter in the formula; default A for the first, B for the second, and so on.
	ID string `json:"id,omitempty"`
	// The macro: {#FSTYPE}.
	Macro string `json:"macro"`
	// The regular expression that its value matches.
	Matches *string `json:"matches,omitempty"`
	// The regular expression that its value does not match.
	NotMatches *string `json:"notMatches,omitempty"`
	// The entity has the macro, or has it not.
	Exists *bool `json:"exists,omitempty"`
}

// conditions returns the conditions of a filter, or none for a nil filter.
func (f *DiscoveryFilter) conditions() []DiscoveryCondition {
	if f == nil {
		return nil
	}
	return f.Conditions
}

// Pattern returns the regular expression of a discovery condition, or "" for a condition that only tests
// existence.
func (c *DiscoveryCondition) Pattern() string {
	for _, text := range []*string{c.Matches, c.NotMatches} {
		if text != nil {
			return *text
		}
	}
	return ""
}

// DiscoveryOverride changes the items and triggers that a discovery rule makes for entities matching its
// filter.
type DiscoveryOverride struct {
	// Its name, unique within the rule.
	Name string `json:"name"`
	// The entities that it changes; default all.
	Filter *DiscoveryFilter `json:"filter,omitempty"`
	// Later overrides do not apply to an entity that this one matches.
	Stop bool `json:"stop,omitempty"`
	// Changes of items.
	Items []ItemOverride `json:"items,omitempty"`
	// Changes of triggers.
	Triggers []TriggerOverride `json:"triggers,omitempty"`
}

// ItemOverride changes the items that a discovery rule makes for the entities selected by an override.
type ItemOverride struct {
	// Keys of the prototypes; default all.
	Keys []string `json:"keys,omitempty"`
	// The items are made, or are not.
	Discover *bool `json:"discover,omitempty"`
	// How often the agent collects them.
	Interval Interval `json:"interval,omitempty"`
	// Tags to add.
	Tags map[string]string `json:"tags,omitempty"`
}

// TriggerOverride changes the triggers that a discovery rule makes for the entities selected by an override.
type TriggerOverride struct {
	// Names of the prototypes; default all.
	Names []string `json:"names,omitempty"`
	// The triggers are made, or are not.
	Discover *bool `json:"discover,omitempty"`
	// Severity of their problems.
	Severity string `json:"severity,omitempty"`
	// Tags to add.
	Tags map[string]string `json:"tags,omitempty"`
}

// Defaults of a discovery rule.
const (
	DefaultRuleInterval = Interval("1h")
	DefaultDisableAfter = "now"
	DefaultDeleteAfter  = "7d"
)

// Forever is the time after which lost entities are disabled or deleted where the rule says never.
const Forever = Duration(math.MaxInt64)

// ParseLostAfter parses how long after a discovered entity's disappearance its items are disabled or deleted.
// It is now, never, or a duration.
func ParseLostAfter(text string) (Duration, error) {
	switch text {
	case "now":
		return 0, nil
	case "never":
		return Forever, nil
	}
	d, err := ParseDuration(text)
	if err == nil && d <= 0 {
		err = fmt.Errorf("%q is no time: write now, never or a duration such as 7d", text)
	}
	return d, err
}

// Item converts the discovery rule to the item that collects the rule's list of entities.
func (r *DiscoveryRule) Item() Item {
	i := Item{Key: r.Key, Type: "text", Interval: r.Interval, HTTP: r.HTTP, From: r.From, Trapper: r.Trapper, NotCollected: r.NotCollected, Steps: r.Steps, Disabled: r.Disabled}
	if i.IsCollected() {
		i.Interval = cmp.Or(i.Interval, DefaultRuleInterval)
	}
	return i
}

// Definition converts the discovery rule to the form that a compiled Template contains.
func (r *DiscoveryRule) Definition() DefinitionRule {
	out := DefinitionRule{Key: r.Key, Paths: r.Paths, Filter: r.Filter, Overrides: r.Overrides}
	for i := range r.Items {
		out.Items = append(out.Items, r.Items[i].WithInterval())
	}
	for i := range r.Triggers {
		out.Triggers = append(out.Triggers, r.Triggers[i].Definition())
	}
	slices.SortFunc(out.Items, func(a, b Item) int { return strings.Compare(a.Key, b.Key) })
	slices.SortFunc(out.Triggers, func(a, b DefinitionTrigger) int { return strings.Compare(a.Name, b.Name) })
	out.DisableAfter, out.DisableAfterText = lostAfterOf(r.DisableAfter, DefaultDisableAfter)
	out.DeleteAfter, out.DeleteAfterText = lostAfterOf(r.DeleteAfter, DefaultDeleteAfter)
	return out
}

// lostAfterOf returns a time of lost entities in the form of a compiled Template. With macros, the text is the second result.
func lostAfterOf(text, deflt string) (d Duration, macros string) {
	if strings.Contains(text, "{$") {
		text, macros = "", text
	}
	d, _ = ParseLostAfter(cmp.Or(text, deflt))
	return d, macros
}

// WithInterval returns a copy of the item, with the default interval if a collected item has none. Only items
// that the agent collects or the server computes get one.
func (i Item) WithInterval() Item {
	if i.IsCollected() || i.IsComputed() {
		i.Interval = cmp.Or(i.Interval, DefaultItemInterval)
	}
	return i
}

// Definition converts the trigger to the form that a compiled Template contains.
func (t *Trigger) Definition() DefinitionTrigger {
	severity, _ := ParseSeverity(t.SeverityName())
	out := DefinitionTrigger{Name: t.Name, Expression: t.Expression, Recovery: t.Recovery, Severity: severity, Runbook: t.Runbook, Disabled: t.Disabled, DependsOn: t.DependsOn,
		Tags: t.Tags, Description: t.Description, OperationalData: t.OperationalData}
	if t.Alert != nil {
		out.Handlers, out.Route = t.Alert.Handlers, t.Alert.Route
	}
	return out
}

// AllItems returns all items of a Template, including its discovery rules and their prototypes.
func (s *TemplateSpec) AllItems() []Item {
	list := s.Items[:len(s.Items):len(s.Items)]
	for i := range s.Discovery {
		list = append(list, s.Discovery[i].Item())
	}
	for i := range s.Discovery {
		list = append(list, s.Discovery[i].Items...)
	}
	return list
}

// DeclaresTrigger reports whether a Template declares a trigger, or a discovery prototype whose name fits the
// trigger. Discovery makes triggers from prototypes.
func (s *TemplateSpec) DeclaresTrigger(name string) bool {
	isOf := func(t Trigger) bool { _, ok := isInstanceOf(t.Name, name); return ok }
	return slices.ContainsFunc(s.Triggers, func(t Trigger) bool { return t.Name == name }) ||
		slices.ContainsFunc(s.Discovery, func(r DiscoveryRule) bool { return slices.ContainsFunc(r.Triggers, isOf) })
}

// DefinitionRule is a discovery rule as part of a compiled Template. Its item is among the Template's items.
type DefinitionRule struct {
	Key          string
	Paths        map[string]string
	Filter       *DiscoveryFilter
	Overrides    []DiscoveryOverride
	Items        []Item              // prototypes, ascending by key
	Triggers     []DefinitionTrigger // prototypes, ascending by name
	DisableAfter Duration            // Forever: never
	DeleteAfter  Duration            // likewise
	// Texts with macros of the two times; empty: they have none.
	DisableAfterText, DeleteAfterText string
}

// EntityMacroLength returns the length of a discovery macro, such as {#FSNAME}, at the start of a text. It
// returns zero if the text begins with no macro.
func EntityMacroLength(text string) int {
	if !strings.HasPrefix(text, "{#") {
		return 0
	}
	for at := 2; at < len(text); at++ {
		switch c := text[at]; {
		case c == '}' && at > 2:
			return at + 1
		case c != '_' && c != '.' && (c < '0' || c > '9') && (c < 'A' || c > 'Z'):
			return 0
		}
	}
	return 0
}

// IsEntityMacro reports whether a text consists of exactly one discovery macro, such as {#FSNAME}.
func IsEntityMacro(text string) bool { return text != "" && EntityMacroLength(text) == len(text) }

// IsEntityValue reports whether a text is exactly one discovery macro, with or without a function, such as
// {{#NAME}.regsub(…)}.
func IsEntityValue(text string) bool {
	_, length := entityTokenAt(text)
	return length > 0 && length == len(text)
}

// entityToken is a discovery macro in a text, such as {#NAME}, with its function, if any. It may have a
// function, such as {{#NAME}.regsub("a", "b")}.
type entityToken struct {
	text     string
	macro    string
	function *macroFunction // nil: none
}

// entityTokenAt parses the discovery macro, such as {#NAME}, at the start of a text, and returns its length.
// The length is zero if the text begins with no such macro.
func entityTokenAt(text string) (t entityToken, length int) {
	if length = EntityMacroLength(text); length > 0 {
		return entityToken{text: text[:length], macro: text[:length]}, length
	}
	if !strings.HasPrefix(text, "{{#") {
		return t, 0
	}
	inner := EntityMacroLength(text[1:])
	if inner == 0 {
		return t, 0
	}
	f, more := parseMacroFunction(text[1+inner:])
	if more == 0 {
		return t, 0
	}
	length = 1 + inner + more
	return entityToken{text: text[:length], macro: text[1 : 1+inner], function: &f}, length
}

// nextEntityToken finds the first discovery macro, such as {#NAME}, in a text. It returns the text before and
// behind the macro.
func nextEntityToken(text string) (before string, t entityToken, after string, ok bool) {
	for from := 0; ; from += 2 {
		i := strings.Index(text[from:], "{#")
		if i < 0 {
			return text, t, "", false
		}
		from += i
		for _, start := range [...]int{from - 1, from} {
			if start < 0 {
				continue
			}
			if t, length := entityTokenAt(text[start:]); length > 0 {
				return text[:start], t, text[start+length:], true
			}
		}
	}
}

// replaceEntityTokens replaces the discovery macros in a text, such as {#NAME}, with or without functions, by
// values. A macro without a value stays.
func replaceEntityTokens(text string, value func(t entityToken) (string, bool)) string {
	var out strings.Builder
	for {
		before, t, after, ok := nextEntityToken(text)
		if !ok {
			return out.String() + text
		}
		out.WriteString(before)
		if v, ok := value(t); ok {
			out.WriteString(v)
		} else {
			out.WriteString(t.text)
		}
		text = after
	}
}

// resolve returns the value of the discovery macro, changed by the macro's function, if any.
func (t entityToken) resolve(value func(macro string) (string, bool)) (string, bool) {
	v, ok := value(t.macro)
	if ok && t.function != nil {
		return t.function.apply(v)
	}
	return v, ok
}

// EntityMacros returns the discovery macros in a text, such as {#FSNAME}, in the order of their appearance.
func EntityMacros(text string) (list []string) {
	_ = replaceEntityTokens(text, func(t entityToken) (string, bool) {
		list = append(list, t.macro)
		return "", false
	})
	return list
}

// ReplaceEntityMacros returns a text in which a discovered entity's values replace its macros, such as
// {#FSNAME}. A macro without a value stays.
func ReplaceEntityMacros(text string, value func(macro string) (string, bool)) string {
	return replaceEntityTokens(text, func(t entityToken) (string, bool) { return t.resolve(value) })
}

// ReplaceEscapedEntityMacros replaces discovery macros, such as {#FSNAME}, in a text by escaped values.
func ReplaceEscapedEntityMacros(text string, value func(macro string) (string, bool), escape func(string) string) string {
	return replaceEntityTokens(text, func(t entityToken) (string, bool) {
		v, ok := t.resolve(value)
		return escape(v), ok
	})
}

// LeadingEntityMacro returns the value and the length of the discovery macro at the start of a text. The length
// is zero if the text begins with no such macro. ok is false if the macro has no value.
func LeadingEntityMacro(text string, value func(macro string) (string, bool)) (v string, length int, ok bool) {
	t, length := entityTokenAt(text)
	if length > 0 {
		v, ok = t.resolve(value)
	}
	return v, length, ok
}

// isInstanceOf reports whether a name results from a prototype's name if values replace the discovery macros.
// fixed is the number of bytes of the prototype outside of macros.
func isInstanceOf(prototype, name string) (fixed int, ok bool) {
	rest, first := name, true
	for {
		before, _, after, found := nextEntityToken(prototype)
		fixed += len(before)
		switch at := strings.Index(rest, before); {
		case !found && first:
			return fixed, rest == before
		case !found:
			return fixed, strings.HasSuffix(rest, before)
		case at < 0 || first && at > 0:
			return 0, false
		default:
			rest = rest[at+len(before):]
		}
		first, prototype = false, after
	}
}
