package discovery

import (
	"errors"
	"fmt"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/prep"
)

// filter is a compiled filter of a discovery rule. A nil filter selects all entities.
type filter struct {
	conditions []condition
	formula    *formula // nil: by or for one macro, by and for several
}

// condition is one compiled condition of a discovery filter, which tests the value of one macro.
type condition struct {
	macro   string
	pattern prep.Matcher
	exists  bool // it asks only whether the macro exists
	want    bool // expected result: the condition holds if it is the same
}

// compileFilter compiles the filter of a discovery rule. values has the values of user macros in its patterns.
func compileFilter(f *model.DiscoveryFilter, values *model.MacroValues) (*filter, error) {
	if f == nil {
		return nil, nil
	}
	out, ids := &filter{}, map[string]int{}
	for i := range f.Conditions {
		of := &f.Conditions[i]
		c := condition{macro: of.Macro}
		ways := 0
		for _, set := range []bool{of.Matches != nil, of.NotMatches != nil, of.Exists != nil} {
			if set {
				ways++
			}
		}
		id := of.ID
		if id == "" {
			id = conditionName(i)
		}
		_, twice := ids[id]
		switch {
		case !model.IsEntityMacro(of.Macro):
			return nil, fmt.Errorf("condition %s: expected a macro such as {#NAME}, got %q", id, of.Macro)
		case ways != 1:
			return nil, fmt.Errorf("condition %s: expected one of matches, notMatches and exists", id)
		case twice:
			return nil, fmt.Errorf("two conditions have the id %s", id)
		}
		ids[id] = i
		if of.Exists != nil {
			c.exists, c.want = true, *of.Exists
		} else {
			c.want = of.Matches != nil
			source, err := values.Expand(of.Pattern())
			if err == nil {
				c.pattern, err = prep.CompileMatcher(source)
			}
			if err != nil {
				return nil, fmt.Errorf("condition %s: %w", id, err)
			}
		}
		out.conditions = append(out.conditions, c)
	}
	if f.Formula == "" {
		return out, nil
	}
	var err error
	out.formula, err = parseFormula(f.Formula, ids)
	return out, err
}

// conditionName returns the default letter of a filter condition, used in formulas, from A to Z, then AA. As in
// Zabbix, the ids are A to Z, then AA, AB and so on.
func conditionName(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return conditionName(i/26-1) + string(rune('A'+i%26))
}

// match reports whether an entity passes the filter of a discovery rule. missing names a macro that a pattern needs
// and the entity does not have; err is about a pattern that takes too long.
func (f *filter) match(macro func(string) (string, bool)) (ok bool, missing string, err error) {
	if f == nil || len(f.conditions) == 0 {
		return true, "", nil
	}
	holds := make([]bool, len(f.conditions))
	for i := range f.conditions {
		c := &f.conditions[i]
		value, has := macro(c.macro)
		switch {
		case c.exists:
			holds[i] = has == c.want
		case !has:
			missing = c.macro
		default:
			matches, slow := c.pattern.Match(value)
			if slow != nil {
				err = slow
				continue
			}
			holds[i] = matches == c.want
		}
	}
	if f.formula != nil {
		return f.formula.isTrue(holds), missing, err
	}
	byMacro := map[string]bool{}
	for i := range f.conditions {
		byMacro[f.conditions[i].macro] = byMacro[f.conditions[i].macro] || holds[i]
	}
	for _, one := range byMacro {
		if !one {
			return false, missing, err
		}
	}
	return true, "", err
}

// formula is one node in the syntax tree of a discovery filter's formula, such as A and B. A part is a
// condition, or the operator not, and, or or with its operands.
type formula struct {
	operator  string // empty: a condition
	condition int
	parts     []*formula
}

// isTrue reports whether the formula is true for the given results of its conditions.
func (f *formula) isTrue(conditions []bool) bool {
	switch f.operator {
	case "not":
		return !f.parts[0].isTrue(conditions)
	case "and":
		return f.parts[0].isTrue(conditions) && f.parts[1].isTrue(conditions)
	case "or":
		return f.parts[0].isTrue(conditions) || f.parts[1].isTrue(conditions)
	}
	return conditions[f.condition]
}

// formulaParser parses the formula of a discovery filter. The formula combines the ids of conditions.
type formulaParser struct {
	words []string
	ids   map[string]int
	depth int
}

// Bounds of a formula.
const (
	maxFormula = 4096 // bytes
	maxDepth   = 64   // parentheses within each other
)

// parseFormula parses the formula of a discovery filter, such as A and (B or not C). ids has the conditions by their
// ids.
func parseFormula(text string, ids map[string]int) (*formula, error) {
	if len(text) > maxFormula {
		return nil, fmt.Errorf("the formula is longer than %d bytes", maxFormula)
	}
	p := &formulaParser{words: strings.Fields(strings.NewReplacer("(", " ( ", ")", " ) ").Replace(text)), ids: ids}
	f, err := p.parseChain("or")
	if err == nil && len(p.words) > 0 {
		err = fmt.Errorf("expected \"and\", \"or\" or the end of the formula, got %q", p.words[0])
	}
	if err != nil {
		return nil, fmt.Errorf("formula %q: %w", text, err)
	}
	return f, nil
}

// acceptWord skips the next word if equal to the given word, and reports whether the word was equal. Otherwise
// it returns false.
func (p *formulaParser) acceptWord(word string) bool {
	if len(p.words) == 0 || p.words[0] != word {
		return false
	}
	p.words = p.words[1:]
	return true
}

// parseChain parses a part of a filter formula, in which the given operator ("and" or "or") joins operands. The
// operands of or are operands connected by and.
func (p *formulaParser) parseChain(operator string) (*formula, error) {
	operand := p.parseOperand
	if operator == "or" {
		operand = func() (*formula, error) { return p.parseChain("and") }
	}
	left, err := operand()
	for err == nil && p.acceptWord(operator) {
		var right *formula
		right, err = operand()
		left = &formula{operator: operator, parts: []*formula{left, right}}
	}
	return left, err
}

// parseOperand parses one operand of a filter formula, such as a condition, "not" or a parenthesis. It is an
// id, a formula in parentheses, or not with an operand.
func (p *formulaParser) parseOperand() (*formula, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("more than %d levels of nesting", maxDepth)
	}
	defer func() { p.depth-- }()
	switch {
	case len(p.words) == 0:
		return nil, errors.New("a condition is missing at its end")
	case p.acceptWord("not"):
		of, err := p.parseOperand()
		return &formula{operator: "not", parts: []*formula{of}}, err
	case p.acceptWord("("):
		of, err := p.parseChain("or")
		if err == nil && !p.acceptWord(")") {
			err = errors.New("a parenthesis is not closed")
		}
		return of, err
	}
	id := p.words[0]
	i, ok := p.ids[id]
	if !ok {
		return nil, fmt.Errorf("no condition has the id %s", id)
	}
	p.words = p.words[1:]
	return &formula{condition: i}, nil
}
