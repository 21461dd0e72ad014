package prep

import (
	"errors"
	"strconv"
	"strings"
)

// filterEval evaluates a filter expression of JSONPath, ?(…), on one value of a document
type filterEval func(t *jsonTree, n uint32) (filterValue, error)

// filterExpr is a parsed filter expression of JSONPath
type filterExpr struct {
	eval     filterEval
	member   *jsonPath       // the expression is this plain path of the value; nil: it is another one
	constant *filterValue    // the expression is this constant; nil: it is another one
	equality *filterEquality // the expression is false for values without this equality; nil: none is known
}

// filterValue is the value of an expression in a JSONPath filter. It is a text, a number, or nothing if a path has no
// match.
type filterValue struct {
	kind   filterKind
	text   string
	number float64
}

// filterKind is the type of a filter value, which is missing, text or number
type filterKind uint8

const (
	filterMissing filterKind = iota
	filterText
	filterNumber
)

// maxFilterDepth bounds the nesting of parentheses and paths in a filter.
const maxFilterDepth = 64

// isTrue reports whether a filter value counts as true, which excludes missing, empty and zero values. It is
// true if it is neither missing nor empty nor 0.
func (v filterValue) isTrue() bool {
	return v.kind == filterText && v.text != "" || v.kind == filterNumber && v.number != 0
}

// numeric converts a filter value to a number, also from a numeric text
func (v filterValue) numeric() (float64, bool) {
	if v.kind == filterText {
		return parseFloat(v.text)
	}
	return v.number, v.kind == filterNumber
}

// truthValue converts a bool to a filter value, 1 for true and 0 for false.
func truthValue(b bool) filterValue {
	if b {
		return filterValue{kind: filterNumber, number: 1}
	}
	return filterValue{kind: filterNumber}
}

// filterOperators has the binary operators of filters by precedence, the weakest first. Within a level longer
// operators come first.
var filterOperators = [...][]string{{"||"}, {"&&"}, {"==", "!=", "=~", "<=", ">=", "<", ">"}, {"+", "-"}, {"*", "/"}}

// readFilter parses a filter expression with operators of a minimum precedence
func (r *pathReader) readFilter(level int) (filterExpr, error) {
	if level == len(filterOperators) {
		return r.readOperand()
	}
	left, err := r.readFilter(level + 1)
	for err == nil {
		r.skipSpace()
		operator := ""
		for _, o := range filterOperators[level] {
			if r.accept(o) {
				operator = o
				break
			}
		}
		if operator == "" {
			return left, nil
		}
		var right filterExpr
		if right, err = r.readFilter(level + 1); err != nil {
			break
		}
		if operator == "=~" {
			left, err = matchExpr(left, right)
		} else {
			left = binaryExpr(operator, left, right)
		}
	}
	return filterExpr{}, err
}

// readOperand parses one operand of a JSONPath filter, such as a path or constant. It is a number, a text, a
// path, a negation or an expression in parentheses.
func (r *pathReader) readOperand() (filterExpr, error) {
	if r.depth++; r.depth > maxFilterDepth {
		return filterExpr{}, errors.New("too many levels")
	}
	defer func() { r.depth-- }()
	r.skipSpace()
	if r.at == len(r.source) {
		return filterExpr{}, r.unexpected()
	}
	switch c := r.source[r.at]; {
	case c == '(':
		r.at++
		x, err := r.readFilter(0)
		if err != nil {
			return filterExpr{}, err
		}
		if r.skipSpace(); !r.accept(")") {
			return filterExpr{}, r.unexpected()
		}
		return x, nil
	case c == '!':
		r.at++
		x, err := r.readOperand()
		if err != nil {
			return filterExpr{}, err
		}
		return filterExpr{eval: func(t *jsonTree, n uint32) (filterValue, error) {
			v, err := x.eval(t, n)
			return truthValue(!v.isTrue()), err
		}}, nil
	case c == '\'' || c == '"':
		text, err := r.readQuoted()
		if err != nil {
			return filterExpr{}, err
		}
		return constantExpr(filterValue{kind: filterText, text: text}), nil
	case c == '$' || c == '@':
		r.at++
		p, err := r.readPath()
		if err != nil {
			return filterExpr{}, err
		}
		if !p.definite {
			return filterExpr{}, errors.New("a path in a filter must be definite")
		}
		return pathExpr(p, c == '$'), nil
	}
	end := r.at
	for end < len(r.source) && (strings.IndexByte("0123456789.eE", r.source[end]) >= 0 ||
		(r.source[end] == '-' || r.source[end] == '+') && (end == r.at && r.source[end] == '-' || end > r.at && strings.IndexByte("eE", r.source[end-1]) >= 0)) {
		end++
	}
	f, err := strconv.ParseFloat(r.source[r.at:end], 64)
	if err != nil {
		return filterExpr{}, r.unexpected()
	}
	r.at = end
	return constantExpr(filterValue{kind: filterNumber, number: f}), nil
}

// constantExpr returns a JSONPath filter expression with a constant value.
func constantExpr(v filterValue) filterExpr {
	return filterExpr{constant: &v, eval: func(*jsonTree, uint32) (filterValue, error) { return v, nil }}
}

// pathExpr returns a JSONPath filter expression that has the value at a path. The path starts at the document's
// root or at the filtered value.
func pathExpr(p *jsonPath, fromRoot bool) filterExpr {
	var member *jsonPath
	if p.plain && !fromRoot {
		member = p
	}
	return filterExpr{member: member, eval: func(t *jsonTree, n uint32) (filterValue, error) {
		if fromRoot {
			n = 0
		}
		if !p.plain {
			text, err := p.query(t, n)
			if errors.Is(err, errNoMatch) {
				return filterValue{}, nil
			}
			return filterValue{kind: filterText, text: text}, err
		}
		return p.filterValue(t, n), nil
	}}
}

// filterValue returns the value at a plain path (only names and indexes), for comparisons in a filter
func (p *jsonPath) filterValue(t *jsonTree, n uint32) filterValue {
	found, ok := p.find(t, n)
	if !ok {
		return filterValue{}
	}
	switch t.kind(found) {
	case 'n':
		return filterValue{kind: filterText}
	case '{', '[':
		return filterValue{kind: filterText, text: t.raw(found)}
	}
	return filterValue{kind: filterText, text: t.value(found)}
}

// matchExpr returns the filter expression for =~, which matches a regular expression. A constant pattern is compiled
// once.
func matchExpr(left, right filterExpr) (filterExpr, error) {
	var compiled *pattern
	if c := right.constant; c != nil && c.kind == filterText {
		var err error
		if compiled, err = compilePattern(c.text, matchLines); err != nil {
			return filterExpr{}, err
		}
	}
	return filterExpr{eval: func(t *jsonTree, n uint32) (filterValue, error) {
		text, err := left.eval(t, n)
		if err != nil || text.kind == filterMissing {
			return truthValue(false), err
		}
		p := compiled
		if p == nil {
			source, err := right.eval(t, n)
			if err != nil || source.kind == filterMissing {
				return truthValue(false), err
			}
			if p, err = compilePattern(source.String(), matchLines); err != nil {
				return filterValue{}, err
			}
		}
		ok, err := p.match(text.String())
		return truthValue(ok), err
	}}, nil
}

// String returns a filter value as a text, with numbers in decimal
func (v filterValue) String() string {
	if v.kind == filterNumber {
		return strconv.FormatFloat(v.number, 'f', -1, 64)
	}
	return v.text
}

// binaryExpr returns the filter expression that applies a binary operator to two expressions
func binaryExpr(operator string, left, right filterExpr) filterExpr {
	return filterExpr{equality: equalityOf(operator, left, right), eval: func(t *jsonTree, n uint32) (filterValue, error) {
		a, err := left.eval(t, n)
		if err != nil {
			return a, err
		}
		if operator == "||" && a.isTrue() || operator == "&&" && !a.isTrue() {
			return truthValue(operator == "||"), nil
		}
		b, err := right.eval(t, n)
		if err != nil {
			return b, err
		}
		switch operator {
		case "||", "&&":
			return truthValue(b.isTrue()), nil
		case "+", "-", "*", "/":
			return calculate(operator, a, b)
		}
		return truthValue(compare(operator, a, b)), nil
	}}
}

// calculate applies an arithmetic operator to two filter values. A missing operand gives nothing.
func calculate(operator string, a, b filterValue) (filterValue, error) {
	if a.kind == filterMissing || b.kind == filterMissing {
		return filterValue{}, nil
	}
	x, ok1 := a.numeric()
	y, ok2 := b.numeric()
	if !ok1 || !ok2 {
		return filterValue{}, errors.New("the filter calculates with a value that is not a number")
	}
	switch operator {
	case "+":
		x += y
	case "-":
		x -= y
	case "*":
		x *= y
	case "/":
		if y == 0 {
			return filterValue{}, errors.New("the filter divides by zero")
		}
		x /= y
	}
	return filterValue{kind: filterNumber, number: x}, nil
}

// compare applies a comparison operator to two values of a JSONPath filter. Two numbers are compared as
// numbers, other values as texts. A missing value equals nothing.
func compare(operator string, a, b filterValue) bool {
	if a.kind == filterMissing || b.kind == filterMissing {
		return operator == "!="
	}
	order := 0
	x, ok1 := a.numeric()
	y, ok2 := b.numeric()
	switch {
	case ok1 && ok2 && x < y:
		order = -1
	case ok1 && ok2 && x > y:
		order = 1
	case !ok1 || !ok2:
		order = strings.Compare(a.String(), b.String())
	}
	switch operator {
	case "==":
		return order == 0
	case "!=":
		return order != 0
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}
