package model

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// DefinitionTemplate is the kind of definitions that tell an agent which items to collect, and the server how to judge their
// values.
const DefinitionTemplate DefinitionKind = 2

// TemplateDefinition is a compiled Template (items and triggers) for agents. Agents read the items with an interval; the
// server reads the steps and triggers.
type TemplateDefinition struct {
	Definition
	Items    []Item              // ascending by key; a value block names an item by its index
	Triggers []DefinitionTrigger // ascending by name
	// ValueMaps are the value maps of its items, in the order of the Template; the server alone reads them.
	ValueMaps []ValueMap
	Macros    map[string]string // default values by name
	Rules     []DefinitionRule  // ascending by key; each has an item
	// Secrets are the values of its secret macros, which only the agent finds; Env is the macro.
	Secrets []DefinitionSecret
}

// DefinitionTrigger is a trigger in a compiled Template
type DefinitionTrigger struct {
	Name       string
	Expression string
	Recovery   string
	Severity   Severity
	Handlers   []string // notified when a problem opens and closes
	Route      string   // replaces Handlers; both empty: all matching routes
	Runbook    string
	Disabled   bool     // of a prototype: made only where an override says so
	DependsOn  []string // names of triggers of the Template; of a prototype, with macros of the entity

	Tags            map[string]string // with those of the Template
	Description     string
	OperationalData string
}

// MergeTags returns the union of two sets of tags, in which more wins. It changes neither.
func MergeTags(tags, more map[string]string) map[string]string {
	if len(more) == 0 {
		return tags
	}
	out := maps.Clone(more)
	for name, value := range tags {
		if _, found := more[name]; !found {
			out[name] = value
		}
	}
	return out
}

// ShownTexts returns the texts of the trigger that people and routes read. They may have macros.
func (t *DefinitionTrigger) ShownTexts() []string {
	return append(slices.Collect(maps.Values(t.Tags)), t.Description, t.OperationalData)
}

// MapTexts replaces each text of ShownTexts by the result of a function. It changes no shared map.
func (t *DefinitionTrigger) MapTexts(f func(string) string) {
	t.Tags = maps.Clone(t.Tags) // of nil: nil
	for name := range t.Tags {
		t.Tags[name] = f(t.Tags[name])
	}
	t.Description, t.OperationalData = f(t.Description), f(t.OperationalData)
}

// ToDefinition wraps the compiled Template as a Definition, the common form of all compiled resources. The
// compiled template must not be changed after this call.
func (c *TemplateDefinition) ToDefinition() *Definition {
	return c.Definition.SetBody(DefinitionTemplate, c)
}

// AsTemplate returns the definition's body as a compiled Template, or nil for another kind of definition. It
// returns nil if the definition is nil or of another kind.
func (c *Definition) AsTemplate() *TemplateDefinition {
	if c == nil {
		return nil
	}
	template, _ := c.body.(*TemplateDefinition)
	return template
}

// ItemIndex returns the index of the item with the given key in the list of items.
func (c *TemplateDefinition) ItemIndex(key string) (int, bool) {
	return slices.BinarySearchFunc(c.Items, key, func(i Item, key string) int { return strings.Compare(i.Key, key) })
}

// NotCollected returns the reason why neither agent nor server gets values for an item, or an empty text. It is
// empty if the agent collects the item.
func (c *TemplateDefinition) NotCollected(i *Item) string {
	if i.NotCollected != "" {
		return i.NotCollected
	}
	for range c.Items { // masters that name each other end the loop
		master, ok := c.ItemIndex(i.From)
		if i.From == "" || !ok {
			break
		}
		i = &c.Items[master]
	}
	return i.NotCollected
}

// Trigger returns the trigger of the given name, or the discovery prototype behind a discovered trigger's name.
// It returns nil if no such trigger exists. Of several prototypes the one with the most fixed text counts.
func (c *TemplateDefinition) Trigger(name string) (found *DefinitionTrigger) {
	i, ok := slices.BinarySearchFunc(c.Triggers, name, func(t DefinitionTrigger, name string) int { return strings.Compare(t.Name, name) })
	if ok {
		return &c.Triggers[i]
	}
	most := -1
	for i := range c.Rules {
		for k := range c.Rules[i].Triggers {
			if fixed, ok := isInstanceOf(c.Rules[i].Triggers[k].Name, name); ok && fixed > most {
				found, most = &c.Rules[i].Triggers[k], fixed
			}
		}
	}
	return found
}

// Dependencies returns the names of the triggers on which a trigger depends, directly or through others. A discovered trigger
// depends on triggers of its own entity. It leaves out names that the Template does not declare.
func (c *TemplateDefinition) Dependencies(name string) (names []string) {
	for todo := []string{name}; len(todo) > 0 && len(names) < MaxDependencies; todo = todo[1:] {
		t := c.Trigger(todo[0])
		if t == nil {
			continue
		}
		value := entityOf(t.Name, todo[0])
		for _, on := range t.DependsOn {
			if on = replaceEntityTokens(on, value); on != name && !slices.Contains(names, on) && c.Trigger(on) != nil {
				names, todo = append(names, on), append(todo, on)
			}
		}
	}
	return names
}

// MaxDependencies bounds the triggers on which one trigger depends.
const MaxDependencies = 32

// entityOf derives the discovery macro values of an entity from the name of the entity's trigger.
func entityOf(prototype, name string) func(t entityToken) (string, bool) {
	var tokens []string
	var pattern strings.Builder
	before, t, after, ok := nextEntityToken(prototype)
	for ; ok; before, t, after, ok = nextEntityToken(after) {
		pattern.WriteString(regexp.QuoteMeta(before) + "(.*?)")
		tokens = append(tokens, t.text)
	}
	if len(tokens) == 0 {
		return func(entityToken) (string, bool) { return "", false }
	}
	found := regexp.MustCompile(`(?s)^` + pattern.String() + regexp.QuoteMeta(before) + `$`).FindStringSubmatch(name)
	return func(t entityToken) (string, bool) {
		i := slices.Index(tokens, t.text)
		if found == nil || i < 0 {
			return "", false
		}
		return found[i+1], true
	}
}

// EventRules returns the check-like rules, such as severity and route, by which a definition's results become
// events. The results are a check's results, a trigger's values, a directive's reports or a rule's alerts. Nil:
// the definition has no such source.
func (c *Definition) EventRules(instance string) *CheckDefinition {
	if directive := c.AsDirective(); directive != nil {
		return directive.eventRules()
	}
	if group := c.AsRuleGroup(); group != nil {
		return group.eventRules()
	}
	template := c.AsTemplate()
	if template == nil {
		return c.AsCheck()
	}
	t := template.Trigger(instance)
	if t == nil {
		return nil
	}
	out := &CheckDefinition{Definition: *c, FailAfter: 1, RecoverAfter: 1, Handlers: t.Handlers, Route: t.Route}
	out.SetSeverity(t.Severity)
	return out
}

// SetSeverity sets the same severity for all failing statuses of a trigger. An override of a discovery rule may change
// it for one entity.
func (c *CheckDefinition) SetSeverity(severity Severity) {
	for s := Warning; s <= Unknown; s++ {
		c.Severities[s] = severity
	}
}

// TriggerStatus returns the status of an event while its trigger is true, WARNING or CRITICAL by severity. It
// is WARNING for severities up to warning, else CRITICAL.
func (c *CheckDefinition) TriggerStatus() Status {
	if c.Severities[Critical] <= SeverityWarning {
		return Warning
	}
	return Critical
}
