package trigger

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/item"
)

// Compile compiles a parsed expression to a Program. It resolves the items and macros that the expression names.
// Errors of the expression are of type *Error.
func Compile(e *Expr, scope Scope) (p *Program, err error) {
	c := &compiler{source: e.source, scope: scope, program: &Program{source: e.source}}
	if c.scope.Zone == nil {
		c.scope.Zone = time.UTC
	}
	defer func() {
		switch fault := recover().(type) {
		case nil:
		case *Error:
			p, err = nil, fault
		default:
			panic(fault)
		}
	}()
	c.program.root = c.node(&e.root)
	return c.program, nil
}

// compiler compiles the syntax tree of one trigger expression.
type compiler struct {
	source  string
	scope   Scope
	program *Program
}

// fail ends the compilation with an error that names a place in the expression.
func (c *compiler) fail(n *node, problem string, args ...any) {
	panic(&Error{c.source, n.offset, fmt.Sprintf(problem, args...)})
}

// node compiles one node of the syntax tree, such as a call, to a function for its value.
func (c *compiler) node(n *node) evaluator {
	switch n.kind {
	case numberNode:
		return constant(ofValue(n.value))
	case textNode:
		return constant(ofText(c.expand(n, n.name)))
	case macroNode:
		if n.name == "{TRIGGER.VALUE}" {
			return func(w *Windows) operand { return ofBool(w.Problem) }
		}
		return constant(ofText(c.expand(n, n.name)))
	case unaryNode:
		return unaryOperator(n.name, c.node(&n.args[0]))
	case binaryNode:
		return binaryOperator(n.name, c.node(&n.args[0]), c.node(&n.args[1]))
	case callNode:
		return c.call(n)
	case emptyNode:
		c.fail(n, "an argument is missing")
	}
	c.fail(n, "an item needs a function, such as last(//%s)", n.name)
	return nil
}

// constant compiles a constant in an expression to a function that always returns the same value.
func constant(o operand) evaluator { return func(*Windows) operand { return o } }

// call compiles a function call. The function works over the stored values of an item, or over operands.
func (c *compiler) call(n *node) evaluator {
	if len(n.args) > 0 && n.args[0].kind == callNode && strings.HasSuffix(n.args[0].name, foreachSuffix) {
		return c.aggregate(n)
	}
	if len(n.args) > 0 && n.args[0].kind == itemNode {
		f, ok := historyFunctions[n.name]
		switch {
		case (n.args[0].host == "*" || n.args[0].filter != nil || strings.HasSuffix(n.name, foreachSuffix)) && !c.scope.Aggregates:
			c.fail(n, "%s belongs in a RuleGroup: a trigger reads the items of one node", n.name)
		case n.args[0].host == "*" || n.args[0].filter != nil || strings.HasSuffix(n.name, foreachSuffix):
			c.fail(n, "values of several nodes need an aggregate in the formula of an item, such as avg(last_foreach(/*/key)), or a RuleGroup")
		case !ok:
			c.fail(n, "no function over the history of an item has the name %s", n.name)
		}
		return f(c, n)
	}
	if f := scalarFunction(n.name); f != nil {
		return f(c, n)
	}
	if _, ok := historyFunctions[n.name]; ok {
		c.fail(n, "expected an item as the first argument: %s(//key)", n.name)
	}
	c.fail(n, "no function has the name %s", n.name)
	return nil
}

// expand replaces the macros in a text, such as {$NAME}, by their values.
func (c *compiler) expand(n *node, text string) string {
	if !strings.Contains(text, "{") {
		return text
	}
	var out strings.Builder
	for text != "" {
		length := macroLength(text)
		if length == 0 {
			out.WriteByte(text[0])
			text = text[1:]
			continue
		}
		if strings.IndexByte("$#{ABCDEFGHIJKLMNOPQRSTUVWXYZ", text[1]) < 0 {
			out.WriteString(text[:length]) // a quantifier of a regular expression, such as {2}
			text = text[length:]
			continue
		}
		if c.scope.Macro == nil {
			c.fail(n, "the macro %s has no value", text[:length])
		}
		value, err := c.scope.Macro(text[:length])
		if err != nil {
			c.fail(n, "%v", err)
		}
		out.WriteString(value)
		text = text[length:]
	}
	return out.String()
}

// argument returns the text of a call's i-th argument, with macros replaced. The text is empty if the argument was
// left out.
func (c *compiler) argument(n *node, i int) string {
	if i >= len(n.args) {
		return ""
	}
	switch a := &n.args[i]; a.kind {
	case emptyNode:
		return ""
	case numberNode:
		return a.value.String()
	case textNode, macroNode, periodNode:
		return c.expand(a, a.name)
	case unaryNode:
		if a.name == "-" && a.args[0].kind == numberNode {
			return "-" + a.args[0].value.String()
		}
	}
	c.fail(&n.args[i], "expected a number or a text")
	return ""
}

// historyCall is the working state while compiling one call of a function over an item's stored values.
type historyCall struct {
	*compiler
	node   *node
	spec   windowSpec
	period string // as written
	key    string // /host/key, for reasons
}

// historyArguments finds the item and the period in the first two arguments of a function call. types are the item
// types that the function accepts; none: all.
func (c *compiler) historyArguments(n *node, most int, types ...item.Type) *historyCall {
	i := &n.args[0]
	host, key := i.host, i.name // macros stay, as in the keys of items
	position, t, err := c.scope.Item(host, key)
	if err != nil {
		c.fail(i, "%v", err)
	}
	if len(types) > 0 && !slices.Contains(types, t) {
		c.fail(n, "%s does not work on items of type %s", n.name, t)
	}
	if len(n.args) > most {
		c.fail(&n.args[most], "%s has at most %d arguments", n.name, most)
	}
	h := &historyCall{compiler: c, node: n, key: "/" + host + "/" + key}
	h.spec = windowSpec{position: position, itemType: t}
	if len(n.args) > 1 {
		h.period = c.argument(n, 1)
		var problem string
		if h.spec.period, problem = parsePeriod(h.period, c.scope.Zone); problem != "" {
			c.fail(&n.args[1], "%s", problem)
		}
	} else {
		h.spec.period.zone = c.scope.Zone
	}
	return h
}

// numeric has the types of items with numbers as values.
var numeric = []item.Type{item.Float, item.Unsigned, item.Boolean}

// isFloat reports whether the item has floating-point values.
func (h *historyCall) isFloat() bool { return h.spec.itemType == item.Float }

// isNumeric reports whether the item's values are numbers.
func (h *historyCall) isNumeric() bool { return slices.Contains(numeric, h.spec.itemType) }

// requirePeriod fails the compilation if the call has no period such as 5m or #5.
func (h *historyCall) requirePeriod() *historyCall {
	if h.spec.period.count == 0 && h.spec.period.span == 0 {
		h.fail(h.node, "%s needs a period: %s(//key,5m) or %s(//key,#5)", h.node.name, h.node.name, h.node.name)
	}
	return h
}

// addWindow adds a window (stored values of one function call) to the program, and returns its index. It takes
// an equal window of the program if there is one. extra names the parameters of load.
func (h *historyCall) addWindow(sh structure, o operation, extra string) int {
	s := &h.spec
	s.shape, s.op = sh, o
	if sh == deque && (s.period.count > 0 || len(s.period.shift) > 0) {
		s.shape = stacks
	}
	if s.load == nil {
		s.load = loadNumber(s.itemType)
	}
	s.signature = fmt.Sprintf("%s type=%d period=%d,%d,%d,%v,%t shape=%d op=%d texts=%t grain=%d %s",
		h.key, s.itemType, s.period.count, s.period.span, s.period.month, s.period.shift, s.period.exclusive, s.shape, s.op, s.texts, s.grain, extra)
	for i := range h.program.specs {
		if h.program.specs[i].signature == s.signature && h.program.specs[i].position == s.position {
			return i
		}
	}
	h.program.specs = append(h.program.specs, *s)
	return len(h.program.specs) - 1
}

// loadNumber returns the function that encodes numbers of an item type as 64 bits, for a window's storage.
func loadNumber(t item.Type) func(item.Value) (uint64, effect) {
	if t == item.Float {
		return loadFloat
	}
	return loadUnsigned
}
