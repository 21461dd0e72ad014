package promexpr

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template/parse"
)

// Bounds of a template.
const (
	maxTextGrowth = 10_000 // length of a value that it makes, in lengths of a label
	maxLoops      = 2      // inside each other
)

// wideVerb matches a verb of printf whose width or precision is long or a variable.
var wideVerb = regexp.MustCompile(`%[^a-zA-Z%]*(\*|[0-9]{4})`)

// CheckTemplate returns an error for an alert's template that may take much time or memory.
// Such templates call templates, loop over numbers, or multiply texts. An invalid template is no error here, because
// Prometheus's own validation has a better one.
func CheckTemplate(text string) error {
	tree := parse.New("template")
	tree.Mode = parse.SkipFuncCheck
	trees := map[string]*parse.Tree{}
	if _, err := tree.Parse("{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}{{$externalURL := .ExternalURL}}{{$value := .Value}}"+text, "", "", trees); err != nil {
		return nil
	}
	if len(trees) > 1 {
		return errors.New("define and block are not supported in templates of alerts")
	}
	c := templateChecker{}
	return c.checkList(tree.Root, templateValue{growth: 1})
}

// templateValue describes how long the value of a part of a template may become, compared with a label.
type templateValue struct {
	growth int  // greatest length of its text, in lengths of a label
	list   bool // the labels of an alert, or the result of a query: a loop over it ends
}

// templateChecker walks the syntax tree of an alert's template, and estimates how long the resulting texts can
// become.
type templateChecker struct {
	variables []templateVariable // in the order of their declarations, as package text/template has them
	loops     int
}

// templateVariable is a declared variable of a template.
type templateVariable struct {
	name  string
	value templateValue
}

// variable returns the innermost declaration of a variable. nil: none.
func (c *templateChecker) variable(name string) *templateVariable {
	for i := range slices.Backward(c.variables) {
		if c.variables[i].name == name {
			return &c.variables[i]
		}
	}
	return nil
}

// endBlock removes the variables that a block declared. count is the number of those before the block.
func (c *templateChecker) endBlock(count int) { c.variables = c.variables[:count] }

// checkList checks a list of nodes in the syntax tree of a template. dot is the value of the dot.
func (c *templateChecker) checkList(list *parse.ListNode, dot templateValue) error {
	if list == nil {
		return nil
	}
	for _, node := range list.Nodes {
		if err := c.checkNode(node, dot); err != nil {
			return err
		}
	}
	return nil
}

// checkNode checks one node in the syntax tree of a template.
func (c *templateChecker) checkNode(node parse.Node, dot templateValue) error {
	switch n := node.(type) {
	case *parse.TemplateNode:
		return errors.New("template is not supported in templates of alerts")
	case *parse.ActionNode:
		_, err := c.valueOf(n.Pipe, dot)
		return err
	case *parse.IfNode:
		defer c.endBlock(len(c.variables))
		_, err := c.valueOf(n.Pipe, dot)
		return errors.Join(err, c.checkList(n.List, dot), c.checkList(n.ElseList, dot))
	case *parse.WithNode:
		defer c.endBlock(len(c.variables))
		value, err := c.valueOf(n.Pipe, dot)
		return errors.Join(err, c.checkList(n.List, value), c.checkList(n.ElseList, dot))
	case *parse.RangeNode:
		defer c.endBlock(len(c.variables))
		value, err := c.valueOf(n.Pipe, dot)
		switch {
		case err != nil:
			return err
		case !value.list:
			return fmt.Errorf("range %s: a loop must iterate over $labels or the result of query", n.Pipe)
		}
		if c.loops++; c.loops > maxLoops {
			return fmt.Errorf("more than %d nested loops", maxLoops)
		}
		defer func() { c.loops-- }()
		value.list = false
		for _, v := range n.Pipe.Decl {
			of := c.variable(v.Ident[0])
			of.value = templateValue{growth: max(of.value.growth, value.growth)}
		}
		return errors.Join(c.checkList(n.List, value), c.checkList(n.ElseList, dot))
	}
	return nil
}

// valueOf estimates the length of a template pipeline's value, and stores estimates for variables that the
// pipeline sets.
func (c *templateChecker) valueOf(pipe *parse.PipeNode, dot templateValue) (value templateValue, err error) {
	for i, command := range pipe.Cmds {
		var piped []templateValue
		if i > 0 {
			piped = []templateValue{value}
		}
		if value, err = c.resultOf(command, piped, dot); err != nil {
			return value, err
		}
		if value.growth > maxTextGrowth {
			return value, fmt.Errorf("%s: the text may become %d times as long as a label, the limit is %d", pipe, value.growth, maxTextGrowth)
		}
	}
	if pipe.IsAssign && c.loops > 0 {
		return value, fmt.Errorf("%s: a loop cannot change a variable", pipe)
	}
	for _, v := range pipe.Decl {
		before := c.variable(v.Ident[0])
		if !pipe.IsAssign || before == nil {
			c.variables = append(c.variables, templateVariable{v.Ident[0], value})
			continue
		}
		before.value = templateValue{max(value.growth, before.value.growth), value.list && before.value.list}
	}
	return value, nil
}

// resultOf estimates the length of the result of one command in a template pipeline. piped has the result of
// the command before.
func (c *templateChecker) resultOf(command *parse.CommandNode, piped []templateValue, dot templateValue) (templateValue, error) {
	function, args := "", command.Args
	if f, ok := args[0].(*parse.IdentifierNode); ok {
		function, args = f.Ident, args[1:]
	}
	var values []templateValue
	for _, arg := range args {
		value, err := c.argument(arg, dot)
		if err != nil {
			return value, err
		}
		values = append(values, value)
	}
	values = append(values, piped...)
	if function == "" && len(values) == 1 {
		return values[0], nil
	}
	sum := 1
	for _, value := range values {
		sum += value.growth
	}
	literal := func(i int) (string, bool) {
		if i >= len(args) {
			return "", false
		}
		text, ok := args[i].(*parse.StringNode)
		if !ok {
			return "", false
		}
		return text.Text, true
	}
	switch function {
	case "query", "sortByLabel":
		return templateValue{1, true}, nil
	case "printf":
		format, ok := literal(0)
		if !ok || wideVerb.MatchString(format) {
			return templateValue{}, fmt.Errorf("%s: the format of printf must be a text without long widths", command)
		}
		return templateValue{growth: sum * (1 + 4*strings.Count(format, "%"))}, nil
	case "reReplaceAll":
		pattern, ok := literal(0)
		if !ok {
			return templateValue{}, fmt.Errorf("%s: the regular expression of reReplaceAll must be a text", command)
		}
		if _, err := addPatternSteps(0, pattern); err != nil {
			return templateValue{}, fmt.Errorf("%s: %w", command, err)
		}
		by, ok := literal(1)
		if !ok {
			return templateValue{}, fmt.Errorf("%s: the replacement of reReplaceAll must be a text", command)
		}
		return templateValue{growth: sum * (1 + len(by))}, nil
	}
	if slices.Contains([]string{"html", "js", "urlquery", "urlQueryEscape", "graphLink", "tableLink"}, function) {
		sum *= 6
	}
	return templateValue{growth: sum}, nil
}

// argument estimates the value of one argument of a command.
func (c *templateChecker) argument(node parse.Node, dot templateValue) (templateValue, error) {
	switch n := node.(type) {
	case *parse.PipeNode:
		return c.valueOf(n, dot)
	case *parse.StringNode:
		return templateValue{growth: 1 + len(n.Text)/literalUnit}, nil
	case *parse.DotNode:
		return dot, nil
	case *parse.VariableNode:
		value := templateValue{growth: 1}
		if v := c.variable(n.Ident[0]); v != nil {
			value = v.value
		}
		if fields := n.Ident[1:]; len(fields) > 0 {
			value.list = areLabels(fields)
		}
		return value, nil
	case *parse.FieldNode:
		return templateValue{growth: dot.growth, list: areLabels(n.Ident)}, nil
	case *parse.ChainNode:
		value, err := c.argument(n.Node, dot)
		return templateValue{growth: value.growth, list: areLabels(n.Field)}, err
	}
	return templateValue{growth: 1}, nil
}

// areLabels reports whether the fields of a value are the labels of an alert or of a sample.
func areLabels(fields []string) bool {
	return len(fields) == 1 && (fields[0] == "Labels" || fields[0] == "ExternalLabels")
}
