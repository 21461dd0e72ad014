package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// DefinitionDirective is the kind of definitions that tell an agent which components to hold its node to.
const DefinitionDirective DefinitionKind = 3

// DefinitionExpectation is the kind of directives that Rudder's agents run. No agent of Muster gets them: the server compares them
// with the reports of Rudder's agents.
const DefinitionExpectation DefinitionKind = 6

// DirectiveDefinition is a compiled Directive with the components of its technique and its parameters' values. The
// codes of a report have the order of the components.
type DirectiveDefinition struct {
	Definition
	Technique  string // NAMESPACE/NAME, for people
	Mode       string // ModeAudit or ModeEnforce, see NodeMode.Enforces; empty: the mode of the node
	Components []Component
	Blocks     []Block            // by position, an outer block before its inner ones
	Parameters map[string]string  // may hold properties of the node
	Secrets    []DefinitionSecret // of parameters; Env is the name of the parameter
	Assets     []DefinitionAsset  // of files; the name is that in the arguments
	Interval   time.Duration      // zero with Cron and OneShot
	Cron       string
	TimeZone   string         // of Cron
	OneShot    *OneShotWindow // the node runs it once; nil: by Interval or Cron
	Splay      time.Duration  // after each time of Cron, or after the begin of OneShot
	Timeout    time.Duration  // of one run
	Heartbeat  time.Duration  // longest time between two reports of equal runs; zero: each run is reported
	Grace      time.Duration  // time for which a node may have the definition before a run that is not compliant is a problem

	Severity Severity
	Handlers []string // notified when a problem opens and closes
	Route    string   // replaces Handlers; both empty: all matching routes

	Rudder string // id of the directive in Rudder, whose agents run it; empty: Muster's agents do
}

// OneShotWindow is the time in which a node begins the only run of a one-shot directive. Both ends are in Unix ms.
type OneShotWindow struct {
	FromUnixMs  int64 // zero: at once
	UntilUnixMs int64 // zero: no end
}

// From returns the time from which the run may begin. Zero means at once.
func (o *OneShotWindow) From() time.Time { return timeOfUnixMs(o.FromUnixMs) }

// Until returns the end of the window. Zero means never.
func (o *OneShotWindow) Until() time.Time { return timeOfUnixMs(o.UntilUnixMs) }

// IsOpen reports whether the run may begin at a time after From.
func (o *OneShotWindow) IsOpen(now time.Time) bool {
	return o.UntilUnixMs == 0 || now.Before(o.Until())
}

// timeOfUnixMs converts Unix ms to a time in UTC. Zero stays zero.
func timeOfUnixMs(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// NodeMode says whether directives may change a node (enforce) or only report differences (audit). The
// namespace or the node itself declares it. Agents read it from the property NodeModeProperty.
type NodeMode struct {
	Mode  string `json:"mode"`            // ModeAudit or ModeEnforce: of directives that give none
	Fixed string `json:"fixed,omitempty"` // the resource that forbids another mode, such as "namespace prod"; empty: none does
	// Audit has the directives that only audit in any mode, because the machine itself can choose to get them; ascending.
	Audit []UnitID `json:"audit,omitempty"`
}

// NodeModeProperty is the property that holds the NodeMode of a node in JSON. The planner sets it. Users cannot write the
// name.
const NodeModeProperty = ".policyMode"

// NodePolicyModeOf returns a node's policy mode (audit or enforce) from the properties of the node. A value
// that cannot be read is a fixed audit: nothing is changed by mistake.
func NodePolicyModeOf(properties PropertyValues) NodeMode {
	value, conflict, ok := properties(NodeModeProperty)
	if !ok {
		return NodeMode{Mode: ModeAudit}
	}
	var m NodeMode
	if err := json.Unmarshal(value, &m); err != nil || conflict != "" {
		return NodeMode{Mode: ModeAudit, Fixed: "a value of the server that this agent cannot read"}
	}
	return m
}

// Enforces reports whether a directive that declares the given mode changes the node. The directive may have a
// mode of its own.
func (m NodeMode) Enforces(directive string) bool {
	if m.Fixed != "" || directive == "" {
		return m.Mode == ModeEnforce
	}
	return directive == ModeEnforce
}

// EnforcesDirective reports whether the directive as a whole changes the node, instead of only reporting.
func (m NodeMode) EnforcesDirective(d *DirectiveDefinition) bool {
	_, auditsOnly := slices.BinarySearch(m.Audit, d.Unit)
	return !auditsOnly && m.Enforces(d.Mode)
}

// EnforcesComponent reports whether one component of a directive changes the node, instead of only reporting.
func (m NodeMode) EnforcesComponent(d *DirectiveDefinition, c *Component) bool {
	_, auditsOnly := slices.BinarySearch(m.Audit, d.Unit)
	return !auditsOnly && m.Enforces(cmp.Or(c.Mode, d.Mode))
}

// EnforcesAny reports whether the directive may change the node, at least by one component. It does not consider the
// list Audit.
func (m NodeMode) EnforcesAny(d *DirectiveDefinition) bool {
	return m.Enforces(d.Mode) || d.ForcesComponents() && m.Enforces(ModeEnforce)
}

// ForcesComponents reports whether any component (checked part) of the directive has the mode enforce of its
// own.
func (c *DirectiveDefinition) ForcesComponents() bool {
	return slices.ContainsFunc(c.Components, func(c Component) bool { return c.Mode == ModeEnforce })
}

// Component is one policy method in a compiled directive, with its arguments and its name in reports.
type Component struct {
	Name      string
	Method    string // fileContent
	Arguments []byte // JSON, with {{ .params.NAME }}, {{ .props.NAME }} and {{ .facts.NAME }} in its texts
	When      string // condition; empty: always
	Mode      string // ModeAudit or ModeEnforce, in place of that of the directive; empty: that of the directive
	// Item has the fields of the loop element for which the component stands. They may hold properties of the node.
	Item map[string]string
}

// Block is a group of consecutive components (checked parts) of a directive that count together in the
// compliance.
type Block struct {
	Name      string
	First     uint32 // position of its first component
	Count     uint32 // of components
	Reporting Reporting
	// FocusFirst and FocusCount have the components that count with ReportFocus.
	FocusFirst uint32
	FocusCount uint32
}

// Reporting says how the components (checked parts) of a block count in the compliance, as in Rudder.
type Reporting uint32

// Modes of reporting. They travel in definitions.
const (
	ReportWeighted   Reporting = iota // each component
	ReportWorstSum                    // the worst status, for each component
	ReportWorstOne                    // the worst status, once
	ReportFocus                       // the components of the focus
	ReportFocusWorst                  // the component or inner block with the lowest compliance
	ReportDisabled                    // none
)

// reportings has the names of the modes of reporting.
var reportings = [...]string{"weighted", "worst-case-weighted-sum", "worst-case-weighted-one", "focus", "focus-worst", "disabled"}

// Reportings returns the names of all compliance reporting modes, such as focus.
func Reportings() []string { return slices.Clone(reportings[:]) }

// ReportingOf looks up a compliance reporting mode, such as focus, by its name. An empty name means
// ReportWeighted. ok is false for an unknown name.
func ReportingOf(name string) (mode Reporting, ok bool) {
	i := slices.Index(reportings[:], name)
	return Reporting(max(i, 0)), i >= 0 || name == ""
}

// String returns the name of the compliance reporting mode, such as focus.
func (r Reporting) String() string { return reportings[min(int(r), len(reportings)-1)] }

// ComponentWithin reports whether a component of a technique has a given name, or lies in a so-named block.
func ComponentWithin(component, name string) bool {
	rest, ok := strings.CutPrefix(component, name)
	return ok && (rest == "" || rest[0] == '/' || rest[0] == '[')
}

// ToDefinition wraps the compiled directive as a Definition, the common form of all compiled resources. The
// compiled directive must not be changed after this call.
func (c *DirectiveDefinition) ToDefinition() *Definition {
	if c.Rudder != "" {
		return c.Definition.SetBody(DefinitionExpectation, c)
	}
	return c.Definition.SetBody(DefinitionDirective, c)
}

// AsDirective returns the definition's body as a compiled directive, or nil for another kind of definition. It
// returns nil if the definition is nil or of another kind.
func (c *Definition) AsDirective() *DirectiveDefinition {
	if c == nil {
		return nil
	}
	directive, _ := c.body.(*DirectiveDefinition)
	return directive
}

// eventRules returns the directive's severity, handlers and route as a CheckDefinition, because events are
// derived from checks. Events are always derived from checks.
func (c *DirectiveDefinition) eventRules() *CheckDefinition {
	out := &CheckDefinition{Definition: c.Definition, FailAfter: 1, RecoverAfter: 1, Interval: c.Interval, Handlers: c.Handlers, Route: c.Route}
	for s := Warning; s <= Unknown; s++ {
		out.Severities[s] = c.Severity
	}
	return out
}

// Lookup returns a function that finds the value of a variable in the directive's texts. Properties in the
// parameters are expanded. The values of secrets are named by parameter. facts returns the value of a fact by name.
func (c *DirectiveDefinition) Lookup(properties PropertyValues, secrets map[string]string, facts func(name string) (string, bool)) (PropertyValues, error) {
	parameters := make(map[string][]byte, len(c.Parameters)+len(secrets))
	for name, value := range secrets {
		parameters[ParameterPrefix+name], _ = json.Marshal(value) // a string always encodes
	}
	for name, text := range c.Parameters {
		template, err := ParseTemplate(text, false)
		if err != nil {
			return nil, fmt.Errorf("parameter %s: %w", name, err)
		}
		value, err := template.Expand(properties)
		if err != nil {
			return nil, fmt.Errorf("parameter %s: %w", name, err)
		}
		parameters[ParameterPrefix+name], _ = json.Marshal(value) // a string always encodes
	}
	return func(name string) ([]byte, string, bool) {
		if strings.HasPrefix(name, ParameterPrefix) {
			value, ok := parameters[name]
			return value, "", ok
		}
		if fact, isFact := strings.CutPrefix(name, FactPrefix); isFact {
			text, ok := facts(fact)
			value, _ := json.Marshal(text) // a string always encodes
			return value, "", ok
		}
		return properties(name)
	}, nil
}

// Expand returns the policy method of the component with values in place of the template variables.
func (c *Component) Expand(values PropertyValues) (*Method, error) {
	if len(c.Item) > 0 {
		item, outer := make(map[string][]byte, len(c.Item)), values
		for field, text := range c.Item {
			template, err := ParseTemplate(text, false)
			if err != nil {
				return nil, fmt.Errorf("loop variable item: %w", err)
			}
			value, err := template.Expand(outer)
			if err != nil {
				return nil, fmt.Errorf("loop variable item: %w", err)
			}
			item[itemName(field)], _ = json.Marshal(value) // a string always encodes
		}
		values = func(name string) ([]byte, string, bool) {
			if value, ok := item[name]; ok {
				return value, "", true
			}
			return outer(name)
		}
	}
	arguments, err := EachMethodText(c.Method, c.Arguments, func(text string, shell bool) (string, error) {
		template, err := ParseMethodTemplate(text, shell)
		if err != nil {
			return "", err
		}
		return template.Expand(values)
	})
	if err != nil {
		return nil, err
	}
	return NewMethod(c.Method, arguments)
}

// ReadsSecret reports whether a component of the directive uses a parameter with a secret value. A template in an
// archive may read each.
func (c *DirectiveDefinition) ReadsSecret(component *Component) (reads bool) {
	if len(c.Secrets) == 0 {
		return false
	}
	if m, err := NewMethod(component.Method, component.Arguments); err == nil && m.FileContent != nil && m.FileContent.Template {
		return true
	}
	_, err := EachMethodText(component.Method, component.Arguments, func(text string, shell bool) (string, error) {
		t, err := ParseMethodTemplate(text, shell)
		if err != nil {
			return "", err
		}
		for _, name := range t.Names() {
			name, ok := strings.CutPrefix(name, ParameterPrefix)
			reads = reads || ok && slices.ContainsFunc(c.Secrets, func(s DefinitionSecret) bool { return s.Env == name })
		}
		return text, nil
	})
	return reads || err != nil
}

// ExpandAll expands the variables in all texts of the directive only to find errors before the agent does. Its
// error says why a component cannot be checked. It takes each fact for known.
func (c *DirectiveDefinition) ExpandAll(properties PropertyValues) error {
	secrets := make(map[string]string, len(c.Secrets))
	for i := range c.Secrets {
		secrets[c.Secrets[i].Env] = RedactedText
	}
	values, err := c.Lookup(properties, secrets, func(name string) (string, bool) { return name, true })
	if err != nil {
		return err
	}
	for i := range c.Components {
		if _, err := c.Components[i].Expand(values); err != nil {
			return fmt.Errorf("component %s: %w", c.Components[i].Name, err)
		}
	}
	return nil
}

// PropertyNames returns the names of the properties that the directive reads, ascending.
func (c *DirectiveDefinition) PropertyNames() (names []string, err error) {
	add := func(t *Template) {
		for _, name := range t.Names() {
			if !strings.HasPrefix(name, ".") {
				names = append(names, name)
			}
		}
	}
	for name, text := range c.Parameters {
		t, err := ParseTemplate(text, false)
		if err != nil {
			return nil, fmt.Errorf("parameter %s: %w", name, err)
		}
		add(t)
	}
	for i := range c.Components {
		for _, text := range c.Components[i].Item {
			t, err := ParseTemplate(text, false)
			if err != nil {
				return nil, fmt.Errorf("component %s: %w", c.Components[i].Name, err)
			}
			add(t)
		}
		_, err := EachMethodText(c.Components[i].Method, c.Components[i].Arguments, func(text string, shell bool) (string, error) {
			t, err := ParseMethodTemplate(text, shell)
			if err == nil {
				add(t)
			}
			return text, err
		})
		if err != nil {
			return nil, fmt.Errorf("component %s: %w", c.Components[i].Name, err)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// EachMethodText calls edit for each string in a policy method's JSON arguments, and returns the edited JSON.
// It returns the arguments with the edited strings. shell is true for a line that the shell runs.
func EachMethodText(method string, arguments []byte, edit func(text string, shell bool) (string, error)) ([]byte, error) {
	var fields map[string]any
	if err := json.Unmarshal(arguments, &fields); err != nil {
		return nil, fmt.Errorf("arguments of method %s: %w", method, err)
	}
	var walk func(value any, shell bool) (any, error)
	walk = func(value any, shell bool) (any, error) {
		switch v := value.(type) {
		case string:
			return edit(v, shell)
		case []any:
			for i := range v {
				var err error
				if v[i], err = walk(v[i], false); err != nil {
					return nil, err
				}
			}
		}
		return value, nil
	}
	for name, value := range fields {
		edited, err := walk(value, method == "command" || (method == "cron" || method == "timer") && name == "command")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		fields[name] = edited
	}
	return json.Marshal(fields)
}
