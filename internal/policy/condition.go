package policy

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Condition is the compiled condition under which an agent runs a component (checked part) of a directive. It
// is a subset of CEL over the components before it and the node's facts.
type Condition struct {
	eval  func(*Scope) bool
	names []namePosition
}

// namePosition is the position of a component's name in the text of a condition.
type namePosition struct {
	name       string
	start, end int // of its quoted form
}

// Scope has the statuses of components (checked parts of a directive) and the facts that a condition reads.
type Scope struct {
	Facts    map[string]string
	Statuses map[string]Status // of the components that ran before; the key is the component's name
}

// Components returns the names of the directive's components (checked parts) that the condition reads.
func (c *Condition) Components() []string {
	names := make([]string, len(c.names))
	for i := range c.names {
		names[i] = c.names[i].name
	}
	return names
}

// renameComponents returns the text of a condition, with each component name replaced by the function rename.
func renameComponents(text string, rename func(string) string) (string, error) {
	c, err := ParseCondition(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	at := 0
	for _, n := range c.names {
		b.WriteString(text[at:n.start])
		b.WriteString(strconv.Quote(rename(n.name)))
		at = n.end
	}
	return b.String() + text[at:], nil
}

// anyMatches reports whether the named component, or any component in the named block, has a matching status.
// If the name belongs to a block or loop, one matching component is enough.
func (s *Scope) anyMatches(name string, matches func(Status) bool) bool {
	if status, ran := s.Statuses[name]; ran {
		return matches(status)
	}
	for component, status := range s.Statuses {
		if model.ComponentWithin(component, name) && matches(status) {
			return true
		}
	}
	return false
}

// IsTrue reports whether a component's condition is true for given component statuses and facts. A component
// that did not run is neither changed nor ok nor failed.
func (c *Condition) IsTrue(s *Scope) bool { return c.eval(s) }

// functions has the functions that a condition may call. Each applies to a component, or to all components of a block
// or loop.
var functions = map[string]func(s *Scope, name string) bool{
	"changed": func(s *Scope, name string) bool { return s.anyMatches(name, isChanged) },
	"ok":      func(s *Scope, name string) bool { return s.anyMatches(name, isOK) && !s.anyMatches(name, isFailed) },
	"failed":  func(s *Scope, name string) bool { return s.anyMatches(name, isFailed) },
}

// isChanged reports whether a component's status means that an agent has repaired the node.
func isChanged(s Status) bool { return s == Repaired }

// isOK reports whether a component's status means that the node is as declared.
func isOK(s Status) bool { return s == Compliant || s == Success || s == Repaired }

// isFailed reports whether a component's status means not compliant, failed or impossible to check.
func isFailed(s Status) bool { return s == NonCompliant || s == Error || s == CouldNotCheck }

// maxConditionDepth bounds the nesting of a condition.
const maxConditionDepth = 100

// ParseCondition compiles a condition, such as changed("NAME") && facts["NAME"] == "TEXT". The functions are changed,
// ok and failed; facts are compared by ==, != and .startsWith("TEXT"); true and false are terms, too; terms are joined by !, &&, || and
// parentheses.
func ParseCondition(text string) (*Condition, error) {
	p := conditionParser{rest: text, size: len(text)}
	eval := p.parseAlternatives()
	if p.skipSpace(); p.err == nil && p.rest != "" {
		p.fail("expected && or || here")
	}
	if p.err != nil {
		return nil, p.err
	}
	return &Condition{eval, p.names}, nil
}

// conditionParser parses the text of a condition from left to right. After an error it returns functions that nobody
// calls.
type conditionParser struct {
	rest  string
	size  int // of the whole text
	names []namePosition
	depth int
	err   error
}

// fail records the first syntax error, with the unread rest of the condition.
func (p *conditionParser) fail(reason string) {
	if p.err == nil {
		p.err = fmt.Errorf("condition: %s: %q", reason, p.rest)
	}
}

// skipSpace skips white space in the text of a condition.
func (p *conditionParser) skipSpace() { p.rest = strings.TrimLeft(p.rest, " \t\n") }

// accept skips the given token and returns true, if the token comes next.
func (p *conditionParser) accept(token string) bool {
	p.skipSpace()
	rest, ok := strings.CutPrefix(p.rest, token)
	p.rest = rest
	return ok
}

// expect skips the given token, and records an error if another token comes next.
func (p *conditionParser) expect(token string) {
	if !p.accept(token) {
		p.fail("expected " + token + " here")
	}
}

// quoted parses a text in double quotes in a condition.
func (p *conditionParser) quoted() string {
	p.skipSpace()
	prefix, err := strconv.QuotedPrefix(p.rest)
	if err != nil || prefix[0] != '"' {
		p.fail(`expected a text in double quotes here`)
		return ""
	}
	p.rest = p.rest[len(prefix):]
	text, _ := strconv.Unquote(prefix) // QuotedPrefix has accepted it
	return text
}

// parseAlternatives parses the parts of a condition that || joins.
func (p *conditionParser) parseAlternatives() func(*Scope) bool {
	left := p.parseConjunction()
	for p.accept("||") {
		a, b := left, p.parseConjunction()
		left = func(s *Scope) bool { return a(s) || b(s) }
	}
	return left
}

// parseConjunction parses the parts of a condition that && joins.
func (p *conditionParser) parseConjunction() func(*Scope) bool {
	left := p.parseTerm()
	for p.accept("&&") {
		a, b := left, p.parseTerm()
		left = func(s *Scope) bool { return a(s) && b(s) }
	}
	return left
}

// parseTerm parses one operand of && or || in a condition. It is a negation, parentheses, a function of a
// component, a comparison of a fact, true or false.
func (p *conditionParser) parseTerm() func(*Scope) bool {
	if p.depth++; p.depth > maxConditionDepth {
		p.fail("the condition is nested too deeply")
	}
	defer func() { p.depth-- }()
	if p.err != nil {
		return nil
	}
	switch {
	case p.accept("!"):
		of := p.parseTerm()
		return func(s *Scope) bool { return !of(s) }
	case p.accept("("):
		inner := p.parseAlternatives()
		p.expect(")")
		return inner
	case p.accept("true"):
		return func(*Scope) bool { return true }
	case p.accept("false"):
		return func(*Scope) bool { return false }
	case p.accept("facts"):
		p.expect("[")
		name := p.quoted()
		p.expect("]")
		if p.accept(".startsWith(") {
			beginning := p.quoted()
			p.expect(")")
			return func(s *Scope) bool { return strings.HasPrefix(s.Facts[name], beginning) }
		}
		equal := p.accept("==")
		if !equal {
			p.expect("!=")
		}
		text := p.quoted()
		return func(s *Scope) bool { return (s.Facts[name] == text) == equal }
	}
	for word, of := range functions {
		if p.accept(word) {
			p.expect("(")
			p.skipSpace()
			begin := p.size - len(p.rest)
			name := p.quoted()
			p.names = append(p.names, namePosition{name, begin, p.size - len(p.rest)})
			p.expect(")")
			return func(s *Scope) bool { return of(s, name) }
		}
	}
	p.fail(`expected changed("NAME"), ok("NAME"), failed("NAME") or facts["NAME"] == "TEXT" here`)
	return nil
}
