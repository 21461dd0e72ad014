package model

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Macro is the name of a Zabbix macro, such as {$NAME}, {$NAME:"context"} or {$NAME:regex:"pattern"}.
type Macro struct {
	Name    string // without {$ and }
	Context string
	Kind    MacroContext
}

// MacroContext says whether a Zabbix macro has no context, a fixed context text or a regular expression. It is
// none, a text or a regular expression.
type MacroContext uint8

// Kinds of contexts.
const (
	NoContext      MacroContext = iota
	EqualContext                // the context is a text
	PatternContext              // the context is a regular expression over contexts
)

// String formats the macro in the canonical form that names of Properties use.
func (m Macro) String() string {
	quoted := `"` + strings.ReplaceAll(m.Context, `"`, `\"`) + `"`
	switch m.Kind {
	case EqualContext:
		return "{$" + m.Name + ":" + quoted + "}"
	case PatternContext:
		return "{$" + m.Name + ":regex:" + quoted + "}"
	}
	return "{$" + m.Name + "}"
}

// ParseMacro parses the Zabbix macro at the start of a text, and returns its length. The length is zero if the text
// begins with no macro.
func ParseMacro(text string) (m Macro, length int) {
	if !strings.HasPrefix(text, "{$") {
		return m, 0
	}
	at := 2
	for at < len(text) && (text[at] == '_' || text[at] == '.' || text[at] >= '0' && text[at] <= '9' || text[at] >= 'A' && text[at] <= 'Z') {
		at++
	}
	m.Name = text[2:at]
	if m.Name == "" || at == len(text) || text[at] != '}' && text[at] != ':' {
		return Macro{}, 0
	}
	if text[at] == '}' {
		return m, at + 1
	}
	at++
	m.Kind = EqualContext
	if strings.HasPrefix(text[at:], "regex:") {
		m.Kind = PatternContext
		at += len("regex:")
	}
	for at < len(text) && text[at] == ' ' {
		at++
	}
	if at == len(text) || text[at] != '"' { // a context without quotes ends with the brace
		end := strings.IndexByte(text[at:], '}')
		if end < 0 {
			return Macro{}, 0
		}
		m.Context = text[at : at+end]
		return m, at + end + 1
	}
	var context strings.Builder
	for at++; at < len(text) && text[at] != '"'; at++ {
		if text[at] == '\\' && at+1 < len(text) && text[at+1] == '"' {
			at++
		}
		context.WriteByte(text[at])
	}
	m.Context = context.String()
	for at++; at < len(text) && text[at] == ' '; {
		at++
	}
	if at >= len(text) || text[at] != '}' {
		return Macro{}, 0
	}
	return m, at + 1
}

// parseWholeMacro parses a text that consists of exactly one macro.
func parseWholeMacro(text string) (Macro, bool) {
	m, length := ParseMacro(text)
	return m, length > 0 && length == len(text)
}

// MacroNames returns the names of all Properties that could set a Zabbix macro in a text. Each macro counts
// with its context and without it.
func MacroNames(text string) (names []string) {
	_, _ = replaceMacros(text, func(m Macro) (string, error) {
		for _, one := range []Macro{m, {Name: m.Name}} {
			if name := one.String(); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		return m.String(), nil
	})
	return names
}

// replaceMacros replaces the Zabbix macros in a text by their values, and applies their functions. A function is, for
// example, {{$NAME}.regsub("a", "b")}. A macro whose value is the macro itself stays.
func replaceMacros(text string, value func(Macro) (string, error)) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{$")
		if !found {
			return out.String() + before, nil
		}
		m, length := ParseMacro("{$" + rest)
		if length == 0 {
			out.WriteString(before + "{$")
			text = rest
			continue
		}
		v, err := value(m)
		if err != nil {
			return "", err
		}
		text = rest[length-2:]
		f, more := parseMacroFunction(text)
		before, called := strings.CutSuffix(before, "{")
		switch {
		case !called:
		case more == 0 || v == m.String():
			before += "{"
		default:
			of, ok := f.apply(v)
			if !ok {
				return "", fmt.Errorf("the function %s of the macro %s has no result for the value %q", f.name, m, Truncate(v, 100))
			}
			v, text = of, text[more:]
		}
		out.WriteString(before + v)
	}
}

// MacroValues has the values of Zabbix macros, such as {$PORT}, by name and context. It is immutable; nil: no macro
// has a value.
type MacroValues struct {
	values   map[Macro]string
	patterns []macroPattern  // ascending by name and pattern
	secret   map[string]bool // names of the macros whose values are Secrets
}

// macroPattern gives a macro the same value in all contexts that match a regular expression.
type macroPattern struct {
	Macro
	pattern *regexp.Regexp
	value   string
}

// NewTemplateMacros returns the macro values that a Template declares.
func NewTemplateMacros(s *TemplateSpec) *MacroValues {
	m, _ := NewMacroValues(s.Macros)
	for i := range s.Secrets {
		m.markSecret(s.Secrets[i].Macro)
	}
	return m
}

// NewMacroValues returns macro values from a map of macro names to values. It leaves out a name that is no macro; the
// error names one.
func NewMacroValues(values map[string]string) (m *MacroValues, err error) {
	m = &MacroValues{values: map[Macro]string{}}
	for name, value := range values {
		macro, ok := parseWholeMacro(name)
		switch {
		case !ok:
			err = fmt.Errorf("%q is no macro; write {$NAME}, {$NAME:\"context\"} or {$NAME:regex:\"pattern\"} with capitals, digits, _ and .", name)
		case macro.Kind != PatternContext:
			m.values[macro] = value
		default:
			pattern, compileErr := regexp.Compile(macro.Context)
			if compileErr != nil {
				err = fmt.Errorf("%s: %w", name, compileErr)
				continue
			}
			m.patterns = append(m.patterns, macroPattern{macro, pattern, value})
		}
	}
	slices.SortFunc(m.patterns, func(a, b macroPattern) int { return strings.Compare(a.String(), b.String()) })
	return m, err
}

// value returns the macro's value for the context that fits best, or for no context. The exact context comes
// first, then the first pattern that matches the context, then the value without context.
func (m *MacroValues) value(of Macro) (string, error) {
	if m != nil {
		if m.secret[of.Name] {
			return "", &SecretMacroError{of.String()}
		}
		if v, ok := m.values[of]; ok {
			return v, nil
		}
		for i := range m.patterns {
			if p := &m.patterns[i]; of.Kind == EqualContext && p.Name == of.Name && p.pattern.MatchString(of.Context) {
				return p.value, nil
			}
		}
		if v, ok := m.values[Macro{Name: of.Name}]; ok {
			return v, nil
		}
	}
	return "", &MissingMacroError{of.String()}
}

// MissingMacroError is the error about a macro without a value.
type MissingMacroError struct{ Macro string }

// Error returns a text that names the macro without a value.
func (e *MissingMacroError) Error() string {
	return fmt.Sprintf("the macro %s has no value here: add it to the macros of the template, or declare a Property with property: %s", e.Macro, strconv.Quote(e.Macro))
}

// markSecret marks a macro as secret, so that only the agent, not the server, puts in the value. Texts of the
// server then cannot contain its value.
func (m *MacroValues) markSecret(macro string) {
	if m.secret == nil {
		m.secret = map[string]bool{}
	}
	of, _ := ParseMacro(macro)
	m.secret[of.Name] = true
}

// SecretMacroError is the error about a secret macro in a text that the server would have to expand.
type SecretMacroError struct{ Macro string }

// Error returns a text that names the secret macro.
func (e *SecretMacroError) Error() string {
	return fmt.Sprintf("the macro %s is secret: only agents of Muster have its value, in keys of items with interval", e.Macro)
}

// WithSecrets returns a copy of the macro values that also contains the values of secret macros. secrets maps macros
// to values.
func (m *MacroValues) WithSecrets(secrets map[string]string) *MacroValues {
	out := &MacroValues{values: maps.Clone(m.values), patterns: m.patterns, secret: maps.Clone(m.secret)}
	for name, value := range secrets {
		if of, ok := parseWholeMacro(name); ok {
			out.values[of] = value
			delete(out.secret, of.Name)
		}
	}
	return out
}

// Value returns the value of a macro that is written in full, such as {$PORT}. The macro may have a function.
func (m *MacroValues) Value(macro string) (string, error) {
	if of, ok := parseWholeMacro(macro); ok {
		return m.value(of)
	}
	if MacroCallLength(macro) == len(macro) && strings.HasPrefix(macro, "{{$") {
		return m.Expand(macro)
	}
	return "", fmt.Errorf("the macro %s is unknown here: write its value", macro)
}

// MacroCallLength returns the length of the macro call, such as {{$NAME}.func()}, at the start of a text. An
// example is {{$NAME}.regsub("a", "b")}. The length is zero if the text begins with no such macro.
func MacroCallLength(text string) int {
	if _, length := entityTokenAt(text); length > 0 && text[1] == '{' {
		return length
	}
	if !strings.HasPrefix(text, "{{$") {
		return 0
	}
	_, inner := ParseMacro(text[1:])
	if inner == 0 {
		return 0
	}
	if _, more := parseMacroFunction(text[1+inner:]); more > 0 {
		return 1 + inner + more
	}
	return 0
}

// Expand returns a text with values in place of Zabbix macros, or an error for a secret macro. A secret macro
// is an error.
func (m *MacroValues) Expand(text string) (string, error) {
	if !strings.Contains(text, "{$") {
		return text, nil
	}
	return replaceMacros(text, m.value)
}

// ExpandPublic returns a text with values in place of its Zabbix macros, but leaves secret macros unchanged.
// Secret macros stay.
func (m *MacroValues) ExpandPublic(text string) (string, error) {
	if !strings.Contains(text, "{$") {
		return text, nil
	}
	return replaceMacros(text, func(of Macro) (string, error) {
		if m != nil && m.secret[of.Name] {
			return of.String(), nil
		}
		return m.value(of)
	})
}

// ExpandShown returns a text for people with values in place of its Zabbix macros. A macro without a public value stays,
// and so does a text with a function that fails.
func (m *MacroValues) ExpandShown(text string) string {
	if !strings.Contains(text, "{$") {
		return text
	}
	out, err := replaceMacros(text, func(of Macro) (string, error) {
		if v, err := m.value(of); err == nil {
			return v, nil
		}
		return of.String(), nil
	})
	if err != nil {
		return text
	}
	return out
}

// BuiltinMacro is a macro of Zabbix itself in a text, such as {HOST.NAME} or {{ITEM.VALUE2}.regsub("a", "b")}.
type BuiltinMacro struct {
	Name  string // HOST.NAME; without its digit
	Index int    // 2 in {ITEM.VALUE2}; 1 without a digit
	Raw   bool   // it has a function, which reads the value without unit
}

// ReplaceBuiltinMacros returns a text with values in place of Zabbix's own macros. A macro without a value stays.
func ReplaceBuiltinMacros(text string, value func(m BuiltinMacro) (string, bool)) string {
	var out strings.Builder
	for {
		before, _, found := strings.Cut(text, "{")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		text = text[len(before):]
		v, length := builtinMacroAt(text, value)
		if length == 0 {
			v, length = "{", 1
		}
		out.WriteString(v)
		text = text[length:]
	}
}

// builtinMacroAt returns the value and the length of the macro at the start of a text. The length is zero if the text
// begins with no macro that has a value.
func builtinMacroAt(text string, value func(m BuiltinMacro) (string, bool)) (v string, length int) {
	inner, called := strings.CutPrefix(text, "{{")
	if !called {
		inner = text[1:]
	}
	name, rest, closed := strings.Cut(inner, "}")
	m := BuiltinMacro{Name: name, Index: 1, Raw: called}
	if last := len(name) - 1; last > 0 && name[last] >= '1' && name[last] <= '9' {
		m.Name, m.Index = name[:last], int(name[last]-'0')
	}
	if !closed || m.Name == "" || strings.Trim(m.Name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ.") != "" {
		return "", 0
	}
	v, ok := value(m)
	if !ok {
		return "", 0
	}
	length = len(text) - len(rest)
	if called {
		f, more := parseMacroFunction(rest)
		if v, ok = f.apply(v); more == 0 || !ok {
			return "", 0
		}
		length += more
	}
	return v, length
}

// ValueOrSample returns the value of a macro, or the sample value 1 for a macro without a value. Only a node sets such
// a macro; with the 1, expressions can be validated.
func (m *MacroValues) ValueOrSample(macro string) (string, error) {
	value, err := m.Value(macro)
	if _, missing := err.(*MissingMacroError); missing {
		return "1", nil
	}
	return value, err
}

// ExpandSteps returns preprocessing steps with values in place of the macros in their texts.
func (m *MacroValues) ExpandSteps(steps []Step) ([]Step, error) {
	if !slices.ContainsFunc(steps, func(s Step) bool {
		return slices.ContainsFunc(s.Texts(), func(text string) bool { return strings.Contains(text, "{$") })
	}) {
		return steps, nil
	}
	out := slices.Clone(steps)
	for i := range out {
		s := &out[i]
		s.Parameters = slices.Clone(s.Parameters)
		for k := range s.Parameters {
			var err error
			if s.Parameters[k], err = m.Expand(s.Parameters[k]); err != nil {
				return nil, err
			}
		}
		if s.OnFail == nil {
			continue
		}
		fail := *s.OnFail
		var err error
		if fail.Error, err = m.Expand(fail.Error); err == nil && fail.Value != nil {
			var value string
			value, err = m.Expand(*fail.Value)
			fail.Value = &value
		}
		if s.OnFail = &fail; err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Texts returns the texts of a preprocessing step that may contain macros. They are its parameters, and the error text
// and value of onFail.
func (s *Step) Texts() []string {
	list := s.Parameters[:len(s.Parameters):len(s.Parameters)]
	if s.OnFail != nil {
		if list = append(list, s.OnFail.Error); s.OnFail.Value != nil {
			list = append(list, *s.OnFail.Value)
		}
	}
	return list
}

// eachMacroText calls a function for each text of the Template that may contain Zabbix macros.
func (c *TemplateDefinition) eachMacroText(do func(text string)) {
	ofParts := func(items []Item, triggers []DefinitionTrigger) {
		for i := range items {
			do(items[i].Key)
			do(items[i].Formula)
			items[i].HTTP.EachText(do)
			do(string(items[i].Interval))
			do(items[i].Unit)
			for k := range items[i].Steps {
				for _, text := range items[i].Steps[k].Texts() {
					do(text)
				}
			}
		}
		for i := range triggers {
			do(triggers[i].Expression)
			do(triggers[i].Recovery)
		}
	}
	ofFilter := func(f *DiscoveryFilter) {
		for i := range f.conditions() {
			do(f.Conditions[i].Pattern())
		}
	}
	ofParts(c.Items, c.Triggers)
	for i := range c.Rules {
		r := &c.Rules[i]
		ofParts(r.Items, r.Triggers)
		ofFilter(r.Filter)
		do(r.DisableAfterText)
		do(r.DeleteAfterText)
		for k := range r.Overrides {
			ofFilter(r.Overrides[k].Filter)
			for _, change := range r.Overrides[k].Items {
				do(string(change.Interval))
			}
		}
	}
}

// eachShownText calls a function for each text of the Template that people and routes read. There a macro without a value
// stays.
func (c *TemplateDefinition) eachShownText(do func(text string)) {
	ofParts := func(items []Item, triggers []DefinitionTrigger) {
		for i := range items {
			for _, text := range items[i].Tags {
				do(text)
			}
		}
		for i := range triggers {
			for _, text := range triggers[i].ShownTexts() {
				do(text)
			}
		}
	}
	ofParts(c.Items, c.Triggers)
	for i := range c.Rules {
		r := &c.Rules[i]
		ofParts(r.Items, r.Triggers)
		for k := range r.Overrides {
			for _, change := range r.Overrides[k].Items {
				ofParts([]Item{{Tags: change.Tags}}, nil)
			}
			for _, change := range r.Overrides[k].Triggers {
				ofParts(nil, []DefinitionTrigger{{Tags: change.Tags}})
			}
		}
	}
}

// MacroNames returns the sorted names of the Properties that may set the Template's macros. Macros in its keys, intervals,
// units, steps and expressions count, too. No Property sets a secret macro.
func (c *TemplateDefinition) MacroNames() (names []string) {
	for name := range c.Macros {
		names = append(names, name)
	}
	add := func(text string) { names = append(names, MacroNames(text)...) }
	c.eachMacroText(add)
	c.eachShownText(add)
	names = slices.DeleteFunc(names, func(name string) bool { return c.secretOf(name) != nil })
	slices.Sort(names)
	return slices.Compact(names)
}

// secretOf returns the Secret from which a macro of the Template gets its value. It returns nil for a macro that is
// not secret.
func (c *TemplateDefinition) secretOf(macro string) *DefinitionSecret {
	if len(c.Secrets) == 0 {
		return nil
	}
	of, _ := ParseMacro(macro)
	i := slices.IndexFunc(c.Secrets, func(s DefinitionSecret) bool { return s.Env == (Macro{Name: of.Name}).String() })
	if i < 0 {
		return nil
	}
	return &c.Secrets[i]
}

// SecretsIn returns the Secrets that give values to the Zabbix macros in a text.
func (c *TemplateDefinition) SecretsIn(text string) (list []DefinitionSecret) {
	for _, name := range MacroNames(text) {
		if s := c.secretOf(name); s != nil && !slices.Contains(list, *s) {
			list = append(list, *s)
		}
	}
	return list
}

// PropertyMacros returns the values that a node's properties give to the macros of the Template. It returns nil
// if no macro has such a value. It leaves out a Property with a conflict, so that the macro keeps the value of
// the Template.
func (c *TemplateDefinition) PropertyMacros(properties PropertyValues) (set map[string]string) {
	for _, name := range c.MacroNames() {
		value, conflict, ok := properties(name)
		if !ok || conflict != "" {
			continue
		}
		if set == nil {
			set = map[string]string{}
		}
		set[name] = propertyText(value)
	}
	return set
}

// MacroValues returns the values of the Template's macros, where values from Properties replace the Template's
// own. The values that Properties set replace its own.
func (c *TemplateDefinition) MacroValues(set map[string]string) *MacroValues {
	values := maps.Clone(c.Macros)
	if values == nil {
		values = map[string]string{}
	}
	maps.Copy(values, set)
	m, _ := NewMacroValues(values)
	for i := range c.Secrets {
		m.markSecret(c.Secrets[i].Env)
	}
	return m
}

// MacroError returns an error if a macro of the Template has no value, or two different values. It reads the
// properties of a node, and returns nil if each macro has one value.
func (c *TemplateDefinition) MacroError(properties PropertyValues) error {
	values := c.MacroValues(c.PropertyMacros(properties))
	for _, name := range c.MacroNames() {
		if _, conflict, _ := properties(name); conflict != "" {
			return &MissingError{name, "has no value here: " + conflict}
		}
	}
	var missing error
	c.eachMacroText(func(text string) {
		if _, err := values.ExpandPublic(text); err != nil && missing == nil {
			missing = err
		}
	})
	return missing
}
