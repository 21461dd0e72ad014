package trigger

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// Expr is a parsed trigger expression. It is immutable.
type Expr struct {
	source string
	root   node
}

// String returns the text of the expression.
func (e *Expr) String() string { return e.source }

// ReplaceHosts replaces the host of each item (/host/key) in an expression by a function's result. The function
// replace returns the new host.
func ReplaceHosts(expression string, replace func(host string) (string, error)) (string, error) {
	e, err := Parse(expression)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	at := 0
	for _, n := range e.root.appendItems(nil) {
		host, err := replace(n.host)
		if err != nil {
			return "", &Error{expression, n.offset, err.Error()}
		}
		out.WriteString(expression[at:n.offset] + "/" + host)
		at = n.offset + 1 + len(n.host)
	}
	return out.String() + expression[at:], nil
}

// Keys returns the item key of each function in an expression, in their order. An expression that does not parse has none.
func Keys(expression string) (keys []string) {
	e, err := Parse(expression)
	if err != nil {
		return nil
	}
	for _, n := range e.root.appendItems(nil) {
		keys = append(keys, n.name)
	}
	return keys
}

// appendItems appends the items (/host/key) in a part of an expression to a list. It keeps the order of the expression.
func (n *node) appendItems(list []*node) []*node {
	if n.kind == itemNode {
		return append(list, n)
	}
	for i := range n.args {
		list = n.args[i].appendItems(list)
	}
	return list
}

// Error is an error in an expression, with its column.
type Error struct {
	Source  string // the expression
	Offset  int    // of the fault, in bytes
	Problem string
}

// Error returns the problem and its column in the expression.
func (e *Error) Error() string {
	near := e.Source[e.Offset:]
	if utf8.RuneCountInString(near) > 20 {
		near = string([]rune(near)[:20]) + "…"
	}
	if near == "" {
		near = "the end"
	} else {
		near = strconv.Quote(near)
	}
	return fmt.Sprintf("column %d, at %s: %s", utf8.RuneCountInString(e.Source[:e.Offset])+1, near, e.Problem)
}

// nodeKind is the kind of a node in the syntax tree, such as a number or a call.
type nodeKind uint8

const (
	emptyNode  nodeKind = iota // an argument that was left out
	numberNode                 // value
	textNode                   // name: unquoted text, which may hold macros
	macroNode                  // name: {$NAME}, {#NAME}, {TRIGGER.VALUE}
	unaryNode                  // name: the operator; args: 1
	binaryNode                 // name: the operator; args: 2
	callNode                   // name: the function
	itemNode                   // host, name: the key; filter: of /*/key?[…]
	periodNode                 // name: the text, such as 5m:now-1h
)

// node is one node of an expression's syntax tree, such as a number, a call or an operator.
type node struct {
	kind   nodeKind
	offset int
	name   string
	host   string
	value  item.Value
	filter *node
	args   []node
}

// maxDepth bounds the nesting of parentheses, calls and unary operators.
const maxDepth = 64

// maxLength bounds an expression, in bytes.
const maxLength = 64 << 10

// binaryOperators has the binary operators by precedence, the loosest first.
var binaryOperators = [...][]string{{"or"}, {"and"}, {"=", "<>"}, {"<=", ">=", "<", ">"}, {"+", "-"}, {"*", "/"}}

// parser parses one expression from left to right.
type parser struct {
	source string
	at     int
	depth  int
	plain  []int // positions of backslashes that are no escapes, in the syntax before Zabbix 7.0; nil: it is the present one
}

// Parse parses an expression and checks its grammar. Errors are of type *Error.
func Parse(expression string) (*Expr, error) { return (&parser{source: expression}).parse() }

// EscapeTexts converts an expression from before Zabbix 7.0 to the present syntax, by doubling backslashes in
// texts. In texts of functions over items only \" was an escape, so that other backslashes are doubled.
func EscapeTexts(expression string) (string, error) {
	p := &parser{source: expression, plain: []int{}}
	if _, err := p.parse(); err != nil {
		return "", err
	}
	var out strings.Builder
	at := 0
	for _, i := range p.plain {
		out.WriteString(expression[at:i] + `\`)
		at = i
	}
	return out.String() + expression[at:], nil
}

// parse parses the whole expression.
func (p *parser) parse() (expr *Expr, err error) {
	expression := p.source
	if len(expression) > maxLength {
		return nil, &Error{expression, maxLength, "the expression is too long"}
	}
	defer func() {
		switch fault := recover().(type) {
		case nil:
		case *Error:
			expr, err = nil, fault
		default:
			panic(fault)
		}
	}()
	root := p.binary(0)
	if p.at < len(expression) {
		p.fail(p.at, "expected an operator, such as and, or, =, <")
	}
	return &Expr{expression, root}, nil
}

// fail ends the parsing with an error at a position.
func (p *parser) fail(offset int, problem string, args ...any) {
	panic(&Error{p.source, offset, fmt.Sprintf(problem, args...)})
}

// skipSpace moves the parser past white space.
func (p *parser) skipSpace() {
	for p.at < len(p.source) && strings.IndexByte(" \t\r\n", p.source[p.at]) >= 0 {
		p.at++
	}
}

// peek returns the next byte without reading the byte. At the end of the text it returns 0.
func (p *parser) peek() byte {
	if p.at < len(p.source) {
		return p.source[p.at]
	}
	return 0
}

// isDigit reports whether c is a decimal digit.
func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isWord reports whether c is a letter, a digit or an underscore.
func isWord(c byte) bool {
	return isDigit(c) || c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// takeOperator reports whether a given operator comes next, and then moves the parser past the operator. After
// an operator that is a word, the word must end.
func (p *parser) takeOperator(operator string) bool {
	rest := p.source[p.at:]
	if !strings.HasPrefix(rest, operator) {
		return false
	}
	if isWord(operator[0]) && len(rest) > len(operator) && isWord(rest[len(operator)]) {
		return false
	}
	if operator == "<" && strings.HasPrefix(rest, "<>") {
		return false
	}
	p.at += len(operator)
	return true
}

// enter counts one more level of nesting, and fails above the limit.
func (p *parser) enter() {
	if p.depth++; p.depth > maxDepth {
		p.fail(p.at, "the expression is nested deeper than %d levels", maxDepth)
	}
}

// binary parses the binary operators of one precedence level and above. They associate to the left.
func (p *parser) binary(level int) node {
	if level == len(binaryOperators) {
		return p.unary()
	}
	left := p.binary(level + 1)
	for {
		p.skipSpace()
		offset, operator := p.at, ""
		for _, o := range binaryOperators[level] {
			if p.takeOperator(o) {
				operator = o
				break
			}
		}
		if operator == "" {
			return left
		}
		left = node{kind: binaryNode, offset: offset, name: operator, args: []node{left, p.binary(level + 1)}}
	}
}

// unary parses an operand with its unary operators, such as -.
func (p *parser) unary() node {
	p.enter()
	defer func() { p.depth-- }()
	p.skipSpace()
	offset := p.at
	for _, operator := range []string{"-", "not"} {
		if p.takeOperator(operator) {
			return node{kind: unaryNode, offset: offset, name: operator, args: []node{p.unary()}}
		}
	}
	return p.operand()
}

// operand parses one operand of an operator, such as a number, a text or a function call.
func (p *parser) operand() node {
	offset := p.at
	switch c := p.peek(); {
	case c == '(':
		p.at++
		inner := p.binary(0)
		p.expect(')')
		return inner
	case c == '"':
		return node{kind: textNode, offset: offset, name: p.quoted()}
	case c == '{':
		return node{kind: macroNode, offset: offset, name: p.macro()}
	case isDigit(c) || c == '.':
		return p.number()
	case c >= 'a' && c <= 'z':
		for isWord(p.peek()) {
			p.at++
		}
		name := p.source[offset:p.at]
		p.skipSpace()
		if p.peek() != '(' {
			p.fail(offset, "expected ( after the function %s", name)
		}
		return node{kind: callNode, offset: offset, name: name, args: p.arguments()}
	}
	p.fail(offset, "expected a number, a text in quotes, a function or (")
	return node{}
}

// expect skips the byte c, or fails on any other byte. White space may come first.
func (p *parser) expect(c byte) {
	p.skipSpace()
	if p.peek() != c {
		p.fail(p.at, "expected %c", c)
	}
	p.at++
}

// quoted parses a text in double quotes. In the text, \" and \\ stand for a quote and a backslash.
func (p *parser) quoted() string {
	offset := p.at
	var out strings.Builder
	for p.at++; p.at < len(p.source); p.at++ {
		switch c := p.source[p.at]; c {
		case '"':
			p.at++
			return out.String()
		case '\\':
			if p.at++; p.at == len(p.source) || p.source[p.at] != '"' && p.source[p.at] != '\\' {
				p.fail(p.at-1, `expected \" or \\ in a text`)
			}
			fallthrough
		default:
			out.WriteByte(p.source[p.at])
		}
	}
	p.fail(offset, "the text has no closing quote")
	return ""
}

// skipPlainText skips a quoted text whose only escape is \", and records the places of other backslashes.
func (p *parser) skipPlainText() {
	offset := p.at
	for p.at++; p.peek() != '"'; p.at++ {
		switch {
		case p.at >= len(p.source):
			p.fail(offset, "the text has no closing quote")
		case strings.HasPrefix(p.source[p.at:], `\"`):
			p.at++
		case p.source[p.at] == '\\':
			p.plain = append(p.plain, p.at)
		}
	}
	p.at++
}

// macro moves the parser past a macro, such as {$NAME:"context"} or {{#NAME}.function()}, and returns the
// macro's text.
func (p *parser) macro() string {
	length := macroLength(p.source[p.at:])
	if length == 0 {
		p.fail(p.at, "expected a macro such as {$NAME}")
	}
	p.at += length
	return p.source[p.at-length : p.at]
}

// macroLength returns the length of the macro at the start of a text. It returns 0 if the text does not start with a
// macro.
func macroLength(text string) int {
	depth, quoted := 0, false
	for i := range len(text) {
		switch c := text[i]; {
		case quoted:
			quoted = c != '"' || text[i-1] == '\\'
		case c == '"':
			quoted = true
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				if i == 1 {
					return 0
				}
				return i + 1
			}
		}
		if depth == 0 {
			return 0
		}
	}
	return 0
}

// suffixes has the factors of the number suffixes, such as 1024 for K.
var suffixes = map[byte]float64{'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30, 'T': 1 << 40, 's': 1, 'm': 60, 'h': 3600, 'd': 86400, 'w': 604800}

// number parses a number with an optional suffix, such as 5m.
func (p *parser) number() node {
	offset := p.at
	for isDigit(p.peek()) || p.peek() == '.' {
		p.at++
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		p.at++
		if c = p.peek(); c == '+' || c == '-' {
			p.at++
		}
		for isDigit(p.peek()) {
			p.at++
		}
	}
	if isWord(p.peek()) {
		p.at++
	}
	value, ok := parseNumber(p.source[offset:p.at])
	if !ok || isWord(p.peek()) {
		p.fail(offset, "expected a number such as 5, 0.5, 1e3, 10K or 5m")
	}
	return node{kind: numberNode, offset: offset, value: value}
}

// parseNumber converts a number with an optional sign and suffix, such as -0.5, 1e3 or 5m. An integer below 2^64 stays
// exact.
func parseNumber(text string) (item.Value, bool) {
	if text == "" {
		return item.Value{}, false
	}
	factor, digits := suffixes[text[len(text)-1]], text
	if factor != 0 {
		digits = text[:len(text)-1]
	}
	if n, err := strconv.ParseUint(digits, 10, 64); err == nil {
		if factor == 0 {
			return item.FromUnsigned(n), true
		} else if n <= math.MaxUint64/uint64(factor) {
			return item.FromUnsigned(n * uint64(factor)), true
		}
	}
	for _, c := range []byte(digits) {
		if !isDigit(c) && strings.IndexByte("+-.eE", c) < 0 {
			return item.Value{}, false // hexadecimal numbers, underscores, Inf and NaN
		}
	}
	f, err := strconv.ParseFloat(digits, 64)
	if factor != 0 {
		f *= factor
	}
	return item.FromFloat(f), err == nil && !math.IsInf(f, 0)
}

// arguments parses the arguments of a call up to its closing parenthesis.
func (p *parser) arguments() []node {
	p.at++ // (
	p.skipSpace()
	if p.peek() == ')' {
		p.at++
		return nil
	}
	var args []node
	for {
		args = append(args, p.argument(args))
		p.skipSpace()
		if p.peek() == ')' {
			p.at++
			return args
		}
		p.expect(',')
	}
}

// argument parses one argument of a call. It is an item, a period after an item, an expression, or nothing.
func (p *parser) argument(before []node) node {
	p.skipSpace()
	offset := p.at
	switch c := p.peek(); {
	case c == ',' || c == ')':
		return node{kind: emptyNode, offset: offset}
	case c == '/':
		host, key := p.item()
		return node{kind: itemNode, offset: offset, host: host, name: key, filter: p.filter()}
	case c == '"' && p.plain != nil && len(before) > 0 && before[0].kind == itemNode:
		p.skipPlainText()
		return node{kind: textNode, offset: offset}
	case len(before) == 1 && before[0].kind == itemNode:
		for p.at < len(p.source) && strings.IndexByte(",) \t\r\n", p.source[p.at]) < 0 {
			if p.source[p.at] == '{' {
				p.macro()
			} else {
				p.at++
			}
		}
		return node{kind: periodNode, offset: offset, name: p.source[offset:p.at]}
	}
	return p.binary(0)
}

// item parses the item of an expression, such as /host/key[parameters].
func (p *parser) item() (host, key string) {
	offset := p.at
	p.at++
	host, ok := p.readUntil("/")
	if !ok {
		p.fail(offset, "expected /host/key, or //key for the node itself")
	}
	p.at++
	start := p.at
	p.readUntil("[,()\" \t\r\n?")
	if p.peek() == '[' {
		p.parameters(0)
	}
	if p.at == start {
		p.fail(start, "expected the key of an item")
	}
	return host, p.source[start:p.at]
}

// filter parses the filter of an item on several nodes, such as ?[tag="x" and group="y"]. It returns nil if there is
// none.
func (p *parser) filter() *node {
	if !strings.HasPrefix(p.source[p.at:], "?[") {
		return nil
	}
	p.at += 2
	filter := p.condition(0)
	p.expect(']')
	return &filter
}

// conditionOperators has the operators of filters by precedence, the loosest first.
var conditionOperators = [...]string{"or", "and"}

// condition parses the conditions of a filter, joined by `or` (level 0) or `and` (level 1).
func (p *parser) condition(level int) node {
	if level == len(conditionOperators) {
		return p.oneCondition()
	}
	left := p.condition(level + 1)
	for {
		p.skipSpace()
		offset := p.at
		if !p.takeOperator(conditionOperators[level]) {
			return left
		}
		left = node{kind: binaryNode, offset: offset, name: conditionOperators[level], args: []node{left, p.condition(level + 1)}}
	}
}

// oneCondition parses a condition of a filter, such as group="web" or tag="scope:web". It may be in parentheses, or
// have not before it.
func (p *parser) oneCondition() node {
	p.enter()
	defer func() { p.depth-- }()
	p.skipSpace()
	offset := p.at
	switch {
	case p.takeOperator("not"):
		return node{kind: unaryNode, offset: offset, name: "not", args: []node{p.oneCondition()}}
	case p.peek() == '(':
		p.at++
		inner := p.condition(0)
		p.expect(')')
		return inner
	}
	for _, name := range [...]string{"group", "tag"} {
		if !p.takeOperator(name) {
			continue
		}
		p.skipSpace()
		negated := p.takeOperator("<>")
		if !negated {
			p.expect('=')
		}
		if p.skipSpace(); p.peek() != '"' {
			p.fail(p.at, "expected a text in quotes, such as %s=\"web\"", name)
		}
		one := node{kind: callNode, offset: offset, name: name, args: []node{{kind: textNode, offset: p.at, name: p.quoted()}}}
		if negated {
			return node{kind: unaryNode, offset: offset, name: "not", args: []node{one}}
		}
		return one
	}
	p.fail(offset, "expected group=\"NAME\" or tag=\"NAME:VALUE\"")
	return node{}
}

// readUntil returns the text up to the next of several characters, ignoring characters inside macros. ok is
// false if none of the characters follows.
func (p *parser) readUntil(set string) (string, bool) {
	start := p.at
	for p.at < len(p.source) {
		if n := macroLength(p.source[p.at:]); n > 0 {
			p.at += n
		} else if strings.IndexByte(set, p.source[p.at]) >= 0 {
			return p.source[start:p.at], true
		} else {
			p.at++
		}
	}
	return p.source[start:], false
}

// parameters skips the parameters [a,"b",[c]] of an item key.
func (p *parser) parameters(depth int) {
	offset := p.at
	for p.at++; ; p.at++ { // [ or ,
		for p.peek() == ' ' {
			p.at++
		}
		switch {
		case p.peek() == '"':
			for p.at++; p.peek() != '"'; p.at++ {
				if p.at+1 < len(p.source) && p.source[p.at] == '\\' && p.source[p.at+1] == '"' {
					p.at++
				}
				if p.at >= len(p.source) {
					p.fail(offset, "a parameter of the key has no closing quote")
				}
			}
			p.at++
			for p.peek() == ' ' {
				p.at++
			}
		case p.peek() == '[' && depth == 0:
			p.parameters(1)
		default:
			p.readUntil(",]")
		}
		switch p.peek() {
		case ']':
			p.at++
			return
		case ',':
		default:
			p.fail(offset, "the parameters of the key have no closing ]")
		}
	}
}

// ReplaceEntityMacros replaces the macros of a discovered entity, such as {#FSNAME}, in an expression by their
// values. key replaces the macros in the key of an item. Elsewhere a value that is no number becomes a text in
// quotes.
func ReplaceEntityMacros(expression string, value func(macro string) (string, bool), key func(key string) string) (string, error) {
	if !strings.Contains(expression, "{#") {
		return expression, nil
	}
	e, err := Parse(expression)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	at := 0
	for _, n := range e.root.appendItems(nil) {
		start := n.offset + len(n.host) + 2
		replaceOutsideKeys(&out, expression[at:start], value)
		out.WriteString(key(n.name))
		at = start + len(n.name)
	}
	replaceOutsideKeys(&out, expression[at:], value)
	return out.String(), nil
}

// replaceOutsideKeys replaces a discovered entity's macros in a part of an expression that contains no item
// keys. The part has no keys of items.
func replaceOutsideKeys(out *strings.Builder, text string, value func(macro string) (string, bool)) {
	escaper, unescaper := strings.NewReplacer(`\`, `\\`, `"`, `\"`), strings.NewReplacer(`\\`, `\`, `\"`, `"`)
	for at := 0; at < len(text); {
		rest := text[at:]
		length := 1
		v, macroEnd, ok := model.LeadingEntityMacro(rest, value)
		switch {
		case rest[0] == '"':
			for length < len(rest) && rest[length] != '"' {
				if rest[length] == '\\' {
					length++
				}
				length++
			}
			length = min(length+1, len(rest))
			inside := unescaper.Replace(strings.TrimSuffix(rest[1:length], `"`))
			out.WriteString(`"` + escaper.Replace(model.ReplaceEntityMacros(inside, value)) + `"`)
		case macroEnd > 0:
			length = macroEnd
			if !ok {
				out.WriteString(rest[:length])
			} else if _, number := parseNumber(strings.TrimPrefix(v, "-")); number {
				out.WriteString(v)
			} else {
				out.WriteString(`"` + escaper.Replace(v) + `"`)
			}
		case macroLength(rest) > 0: // of a user, with the macro as its context
			length = macroLength(rest)
			out.WriteString(model.ReplaceEntityMacros(rest[:length], func(macro string) (string, bool) {
				v, ok := value(macro)
				return strings.ReplaceAll(v, `"`, `\"`), ok
			}))
		default:
			out.WriteByte(rest[0])
		}
		at += length
	}
}
