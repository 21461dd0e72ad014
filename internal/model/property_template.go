package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Template is a parsed text with variables, which the properties of a node replace. A variable is written {{ .props.x
// | default "y" }}. It is the only variable; the agent expands it.
type Template struct {
	parts []templatePart
	sensu *sensuTokens // tokens of Sensu instead of parts; nil: none
	names []string
}

// templatePart is a piece of a template, either literal text or one variable.
type templatePart struct {
	literal string   // the text, if path is nil
	path    []string // name of the property, then names of members
	column  int      // column of the variable's braces, from 1, in bytes
	deflt   *string
	quote   shellQuote
}

// TemplateError is an error in a template with its column. Column counts bytes from 1, and zero means unknown.
type TemplateError struct {
	Column int
	Reason string
}

// Error returns the error text with the column.
func (e *TemplateError) Error() string {
	if e.Column == 0 { // the parser of Sensu's tokens counts no columns
		return e.Reason
	}
	return fmt.Sprintf("column %d: %s", e.Column, e.Reason)
}

// MissingError is the error about a property or fact without a value on the node.
type MissingError struct {
	Property string // the path as written, without .props
	Reason   string
}

// Error returns a text that names the property or fact without a value.
func (e *MissingError) Error() string {
	if fact, ok := strings.CutPrefix(e.Property, FactPrefix); ok {
		return fmt.Sprintf("the fact %q is not known on this node", fact)
	}
	return fmt.Sprintf("property %q %s", e.Property, e.Reason)
}

// PropertyValues is a function that returns the value of a node's property by name. It returns the value as
// JSON, or an error if two groups contradict each other. ok is false for an unset property.
type PropertyValues func(name string) (value []byte, conflict string, ok bool)

// ParseTemplate parses a text with {{ .props.NAME }} variables. With shell, every value will be quoted for the POSIX
// shell, and a variable in a place where that cannot be done safely is an error. Errors are *TemplateError.
func ParseTemplate(text string, shell bool) (*Template, error) {
	return parseTemplate(text, shell, false)
}

// ParseMethodTemplate parses a text in a policy technique as a template with variables. A variable is a property, a
// parameter of the technique ({{ .params.NAME }}), a fact of the node ({{ .facts.NAME }}), or the element of a loop
// ({{ .item }} or {{ .item.FIELD }}). Expand asks for them by the names ".params.NAME", ".facts.NAME", ".item" and
// ".item.FIELD", and Names lists them in this form.
func ParseMethodTemplate(text string, shell bool) (*Template, error) {
	return parseTemplate(text, shell, true)
}

// parseTemplate parses a text with variables for node properties and, if allowed, technique parameters. params
// allows parameters of a technique.
func parseTemplate(text string, shell, params bool) (*Template, error) {
	t := &Template{}
	scan := shellScan{on: shell}
	for at := 0; at < len(text); {
		open := strings.Index(text[at:], "{{")
		if open < 0 {
			t.appendLiteral(text[at:])
			break
		}
		t.appendLiteral(text[at : at+open])
		scan.advance(text[at : at+open])
		start := at + open
		end, part, err := parseVariable(text, start, params)
		if err != nil {
			return nil, err
		}
		if part.path == nil {
			t.appendLiteral(part.literal)
			scan.advance(part.literal)
		} else {
			if part.quote, err = scan.quotingOfVariable(start + 1); err != nil {
				return nil, err
			}
			t.parts = append(t.parts, part)
			if !slices.Contains(t.names, part.path[0]) {
				t.names = append(t.names, part.path[0])
			}
		}
		at = end
	}
	return t, nil
}

// LiteralText escapes a text for use in a template, so that expansion restores the original text. The text may
// contain braces.
func LiteralText(text string) string { return strings.ReplaceAll(text, "{{", literalBraces) }

// TemplateLiteral reverses LiteralText, by restoring the original text from an escaped template.
func TemplateLiteral(template string) string {
	return strings.ReplaceAll(template, literalBraces, "{{")
}

// literalBraces is the template of two opening braces.
const literalBraces = `{{ "{{" }}`

// appendLiteral appends literal text to the template.
func (t *Template) appendLiteral(s string) {
	if s == "" {
		return
	}
	if n := len(t.parts); n > 0 && t.parts[n-1].path == nil {
		t.parts[n-1].literal += s
		return
	}
	t.parts = append(t.parts, templatePart{literal: s})
}

// Names returns the names of the properties in the template, without repetitions, in order of appearance. It omits
// members of objects: .props.a.b uses "a".
func (t *Template) Names() []string { return t.names }

// Expand returns the text of the template with property values in place of the variables. The error is a
// *MissingError.
func (t *Template) Expand(values PropertyValues) (string, error) { return t.expand(values, nil) }

// expand returns the template's text with property values, each changed by escape, in place of variables.
// escape changes each value first, nil changes nothing.
func (t *Template) expand(values PropertyValues, escape func(string) string) (string, error) {
	switch {
	case t.sensu != nil:
		return t.sensu.expand(values)
	case len(t.parts) == 0:
		return "", nil
	}
	if len(t.parts) == 1 && t.parts[0].path == nil {
		return t.parts[0].literal, nil
	}
	var b strings.Builder
	for i := range t.parts {
		p := &t.parts[i]
		if p.path == nil {
			b.WriteString(p.literal)
			continue
		}
		value, err := p.value(values)
		if err != nil {
			return "", err
		}
		if p.quote != quoteNone && strings.IndexByte(value, 0) >= 0 {
			return "", &MissingError{strings.Join(p.path, "."), "contains a zero byte, which a command cannot receive"}
		}
		if escape != nil {
			value = escape(value)
		}
		p.quote.write(&b, value)
	}
	return b.String(), nil
}

// fillVariables returns the text of the template with one given word in place of every variable
func (t *Template) fillVariables(word string) string {
	var b strings.Builder
	for i := range t.parts {
		if p := &t.parts[i]; p.path == nil {
			b.WriteString(p.literal)
		} else {
			b.WriteString(word)
		}
	}
	return b.String()
}

// value returns the property's value for the template variable or, without a value, the variable's default. It
// is the property's value or, if that is missing, the default.
func (p *templatePart) value(values PropertyValues) (string, error) {
	raw, conflict, ok := values(p.path[0])
	if conflict != "" {
		return "", &MissingError{p.path[0], "has no value here: " + conflict}
	}
	for _, member := range p.path[1:] {
		if !ok {
			break
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(raw, &object); err != nil {
			return "", &MissingError{strings.Join(p.path, "."), fmt.Sprintf("cannot be read: the value above %q is not a JSON object", member)}
		}
		raw, ok = object[member]
	}
	if !ok || string(bytes.TrimSpace(raw)) == "null" {
		if p.deflt != nil {
			return *p.deflt, nil
		}
		return "", &MissingError{strings.Join(p.path, "."), "is not set and has no default"}
	}
	return propertyText(raw), nil
}

// propertyText converts the JSON value of a property to text for use in a command. A string loses its quotes, anything
// else becomes compact JSON.
func propertyText(raw []byte) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var compact bytes.Buffer
	if json.Compact(&compact, raw) == nil {
		return compact.String()
	}
	return string(raw)
}

// PropertyNameError returns an error if templates cannot refer to a property of the given name. It returns nil
// for a valid name.
func PropertyNameError(name string) error {
	if strings.HasPrefix(name, "{") {
		if m, ok := parseWholeMacro(name); !ok || len(name) > MaxName {
			return fmt.Errorf("property name %q is no macro: write {$NAME} or {$NAME:\"context\"} with capitals, digits, _ and .", name)
		} else if name != m.String() {
			return fmt.Errorf("property name %q is not in canonical form: write %s", name, m)
		}
		return nil
	}
	if name == "" || len(name) > MaxName {
		return fmt.Errorf("a property needs a name of at most %d characters", MaxName)
	}
	for i := range len(name) {
		if !isPathByte(name[i]) {
			return fmt.Errorf("property name %q: %q is not allowed in {{ .props.… }}; use letters, digits, _ and - (a dot goes into a JSON object)", name, name[i])
		}
	}
	return nil
}

// isPathByte reports whether a byte may occur in the property name of a template variable.
func isPathByte(c byte) bool {
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// parseVariable parses one variable {{ … }} of a template, which begins at a given offset. A part without path is
// literal text.
func parseVariable(text string, start int, params bool) (end int, part templatePart, err error) {
	fail := func(at int, format string, args ...any) (int, templatePart, error) {
		return 0, templatePart{}, &TemplateError{at + 1, fmt.Sprintf(format, args...)}
	}
	at := skipSpace(text, start+2)
	if at < len(text) && (text[at] == '"' || text[at] == '`') {
		value, next, ok := quotedString(text, at)
		if !ok {
			return fail(at, "the string has no end")
		}
		at = skipSpace(text, next)
		if !strings.HasPrefix(text[at:], "}}") {
			return fail(at, `expected }} after the string`)
		}
		return at + 2, templatePart{literal: value}, nil
	}
	if name, end, ok := methodVariable(text, at); ok && params {
		if end = skipSpace(text, end); !strings.HasPrefix(text[end:], "}}") {
			return fail(end, "expected }} here")
		}
		return end + 2, templatePart{column: start + 1, path: []string{name}}, nil
	}
	const prefix = ".props."
	if !strings.HasPrefix(text[at:], prefix) {
		return fail(start, `the only variable is {{ .props.name | default "…" }}; for literal braces write {{ "{{" }}`)
	}
	part.column = start + 1
	at += len(prefix)
	for {
		word := at
		for at < len(text) && isPathByte(text[at]) {
			at++
		}
		if at == word {
			return fail(at, "expected the name of a property here")
		}
		part.path = append(part.path, text[word:at])
		if at >= len(text) || text[at] != '.' {
			break
		}
		at++
	}
	at = skipSpace(text, at)
	if at < len(text) && text[at] == '|' {
		at = skipSpace(text, at+1)
		word := at
		for at < len(text) && isPathByte(text[at]) {
			at++
		}
		if text[word:at] != "default" {
			return fail(word, `after | only default "…" is allowed`)
		}
		at = skipSpace(text, at)
		value, next, ok := defaultValue(text, at)
		if !ok {
			return fail(at, `expected the default in quotes: default "…"`)
		}
		part.deflt, at = &value, skipSpace(text, next)
	}
	if !strings.HasPrefix(text[at:], "}}") {
		return fail(at, "expected }} here")
	}
	return at + 2, part, nil
}

// ParameterPrefix precedes the name of a technique's parameter in the names that a template reads.
const ParameterPrefix = ".params."

// FactPrefix precedes the name of a fact of the node in the names that a template reads.
const FactPrefix = ".facts."

// ItemName is the name under which a template reads the element of a loop. ItemName, a dot and a field name read a field.
const ItemName = ".item"

// itemName returns the full name of a loop variable, such as .item.key, for a loop element's field. For an
// empty field it is the element itself.
func itemName(field string) string {
	if field == "" {
		return ItemName
	}
	return ItemName + "." + field
}

// ItemField returns the field of a loop variable, such as key for .item.key. ok is false for other names.
func ItemField(name string) (field string, ok bool) {
	rest, ok := strings.CutPrefix(name, ItemName)
	return strings.TrimPrefix(rest, "."), ok
}

// methodVariable parses a variable .params.NAME, .facts.NAME or .item in a technique's template. It begins at an offset and also
// returns the offset after the name.
func methodVariable(text string, at int) (name string, end int, ok bool) {
	for _, prefix := range []string{ParameterPrefix, FactPrefix, ItemName + ".", ItemName} {
		if !strings.HasPrefix(text[at:], prefix) {
			continue
		}
		end = at + len(prefix)
		for end < len(text) && (isPathByte(text[end]) || text[end] == '.' && prefix == ItemName+".") { // the element of a loop around it has a path
			end++
		}
		return text[at:end], end, (end > at+len(prefix)) == (prefix != ItemName)
	}
	return "", 0, false
}

// skipSpace returns the offset of the next character that is not a space.
func skipSpace(text string, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r') {
		at++
	}
	return at
}

// quotedString parses the quoted string at an offset of a text, and returns the offset after the string.
func quotedString(text string, at int) (value string, next int, ok bool) {
	prefix, err := strconv.QuotedPrefix(text[at:])
	if err != nil {
		return "", 0, false
	}
	value, err = strconv.Unquote(prefix)
	return value, at + len(prefix), err == nil
}

// defaultValue parses the default value of a template variable, such as a quoted string, number, true or false.
func defaultValue(text string, at int) (value string, next int, ok bool) {
	if at < len(text) && (text[at] == '"' || text[at] == '`') {
		return quotedString(text, at)
	}
	next = at
	for next < len(text) && (isPathByte(text[next]) || text[next] == '.' || text[next] == '+') {
		next++
	}
	value = text[at:next]
	if value == "true" || value == "false" {
		return value, next, true
	}
	_, err := strconv.ParseFloat(value, 64)
	return value, next, err == nil && value != ""
}

// shellQuote says how to quote a property value at one place in a shell line. The shell must read the value as
// plain text.
type shellQuote uint8

const (
	quoteNone   shellQuote = iota // not for a shell
	quoteBare                     // outside quotes: the value gets its own quotes
	quoteSingle                   // between '…'
	quoteDouble                   // between "…"
)

// write appends a property value to the shell line, with quotes so that the shell sees plain text.
func (q shellQuote) write(b *strings.Builder, value string) {
	switch q {
	case quoteNone:
		b.WriteString(value)
	case quoteBare:
		b.WriteByte('\'')
		quoteSingle.write(b, value)
		b.WriteByte('\'')
	case quoteSingle:
		for {
			before, after, found := strings.Cut(value, "'")
			b.WriteString(before)
			if !found {
				return
			}
			b.WriteString(`'\''`)
			value = after
		}
	case quoteDouble:
		for i := range len(value) {
			if strings.IndexByte("$`\"\\", value[i]) >= 0 {
				b.WriteByte('\\')
			}
			b.WriteByte(value[i])
		}
	}
}

// shellScan reads a shell line up to a template variable, to determine whether the variable stands inside
// quotes. It knows plain words, '…', "…", backslashes, comments and plain $(…) without quotes or brackets
// in it; as soon as it meets something else (here documents, backquotes, nested substitution, $'…') it
// refuses every variable that follows instead of guessing, because a wrong guess would let a value run as code.
type shellScan struct {
	on      bool
	in      byte   // 0 bare, '\'' single, '"' double, '#' comment
	escaped bool   // the previous character is a backslash
	last    uint32 // the previous four bytes, the last one in the lowest bits
	before  uint32 // value of last before a backslash
	subst   bool   // inside $(…)
	unclear string // the construct that the scan does not follow
}

// advance reads the next part of a shell line, and updates whether the following character is quoted.
func (s *shellScan) advance(text string) {
	if !s.on {
		return
	}
	for i := range len(text) {
		c := text[i]
		if s.unclear == "" {
			s.step(c)
		}
	}
}

// prev returns the byte before the current position in the shell line
func (s *shellScan) prev() byte { return byte(s.last) }

// step updates for one more byte of the shell line whether the following byte is quoted.
func (s *shellScan) step(c byte) {
	if s.escaped {
		s.escaped = false
		s.last = 'x'
		if c == '\n' { // a line continuation: the shell removes both bytes
			s.last = s.before
		}
		return
	}
	defer func() { s.last = s.last<<8 | uint32(c) }()
	switch {
	case s.in == '\'':
		if c == '\'' {
			s.in = 0
		}
		return
	case s.in == '#':
		if c == '\n' {
			s.in = 0
		}
		return
	case s.subst && strings.IndexByte("'\"#(\\", c) >= 0:
		s.unclear = "$(…) with quotes or brackets inside"
	case s.subst && c == 'e' && s.last&0xffffff == 'c'<<16|'a'<<8|'s':
		s.unclear = "$(case …)" // its ) do not end the substitution
	case s.subst && c == ')':
		s.subst = false
	case c == '\\':
		s.escaped, s.before = true, s.last
	case c == '`':
		s.unclear = "backquotes"
	case c == '(' && s.prev() == '$':
		s.subst = true
	case c == '{' && s.prev() == '$':
		s.unclear = "${…}"
	case c == '[' && s.prev() == '$':
		s.unclear = "$[…]" // bash: arithmetic, in which quotes mean nothing
	case s.in == '"':
		if c == '"' {
			s.in = 0
		}
	case (c == '\'' || c == '"') && s.prev() == '$':
		s.unclear = "$'…'"
	case c == '\'' || c == '"':
		s.in = c
	case c == '<' && s.prev() == '<':
		s.unclear = "a here document"
	case c == '(' && s.prev() == '(':
		s.unclear = "((…))" // bash: arithmetic, which runs commands within a[…]
	case (c == ' ' || c == '\t' || c == '\n') && s.last&0xffff == '['<<8|'[': // not [[:digit:]]
		s.unclear = "[[…]]" // bash: -eq and its like are arithmetic too
	case c == '#' && (s.prev() == 0 || strings.IndexByte(" \t\n;&|()<>", s.prev()) >= 0):
		s.in = '#'
	}
}

// quotingOfVariable returns how to quote a variable's value at the current position of the shell line. It returns an error if
// no variable is allowed here.
func (s *shellScan) quotingOfVariable(column int) (shellQuote, error) {
	if !s.on {
		return quoteNone, nil
	}
	defer func() { s.last = 'x' }() // the value is part of a word
	fail := func(reason string) (shellQuote, error) {
		return 0, &TemplateError{column, reason + "; put the line into a script and pass the variable as an argument, or write the command as a list"}
	}
	switch {
	case s.unclear != "":
		return fail("a variable cannot be quoted safely after " + s.unclear)
	case s.subst:
		return fail("a variable cannot be quoted safely inside $(…)")
	case s.escaped:
		return fail("a variable cannot follow a backslash")
	case s.prev() == '$' && s.in != '\'':
		return fail("a variable cannot follow $")
	case s.in == '#':
		return fail("a comment cannot contain a variable")
	case s.in == '\'':
		return quoteSingle, nil
	case s.in == '"':
		return quoteDouble, nil
	}
	return quoteBare, nil
}
