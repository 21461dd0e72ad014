// Package promexpr bounds the memory and time of texts that users write for Prometheus's libraries: expressions in
// PromQL, and templates of alerts. The libraries themselves have no such bounds.
//
// No goroutines, no locks. Start reading at NewParser and CheckTemplate.
package promexpr

import (
	"fmt"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/strutil"

	"github.com/muster-fleet/muster/internal/item"
)

// maxLabelGrowth bounds the labels that an expression makes of others, in lengths of a stored label.
const maxLabelGrowth = 100

// literalUnit is the number of bytes of a text in an expression that count as one stored label.
const literalUnit = 64

// maxPatternSteps bounds the instructions of all regular expressions of an expression. Texts without repetitions such as
// {1000} have fewer, because a query has at most 16 KiB.
const maxPatternSteps = 20_000

// NewParser returns a parser of PromQL. It refuses expressions with too large regular expressions, and those whose nested
// label_replace and label_join multiply the length of labels.
func NewParser() parser.Parser { return boundedParser{parser.NewParser(parser.Options{})} }

// boundedParser is a parser of PromQL that refuses expressions with too long labels or too large regular expressions.
type boundedParser struct{ parser.Parser }

// ParseMetricSelector parses a selector of series.
func (p boundedParser) ParseMetricSelector(input string) ([]*labels.Matcher, error) {
	if _, err := countMatcherSteps(input); err != nil {
		return nil, err
	}
	return p.Parser.ParseMetricSelector(input)
}

// ParseMetricSelectors parses several selectors of series.
func (p boundedParser) ParseMetricSelectors(inputs []string) ([][]*labels.Matcher, error) {
	if _, err := countMatcherSteps(strings.Join(inputs, "\n")); err != nil {
		return nil, err
	}
	return p.Parser.ParseMetricSelectors(inputs)
}

// countMatcherSteps returns the instructions of all regular expressions in matchers of labels. It reads the text, because
// Prometheus's parser compiles each of them.
func countMatcherSteps(input string) (steps int, err error) {
	lexer, matches := parser.Lex(input), false
	for token := (parser.Item{}); ; {
		switch lexer.NextItem(&token); token.Typ {
		case parser.EOF, parser.ERROR:
			return steps, nil
		case parser.COMMENT:
			continue
		case parser.STRING:
			if text, wrong := strutil.Unquote(token.Val); matches && wrong == nil {
				if steps, err = addPatternSteps(steps, text); err != nil {
					return steps, err
				}
			}
		}
		matches = token.Typ == parser.EQL_REGEX || token.Typ == parser.NEQ_REGEX
	}
}

// addPatternSteps adds the instructions of one more regular expression, and returns an error above the limit.
func addPatternSteps(steps int, pattern string) (int, error) {
	more, err := item.CountPatternSteps(pattern)
	if err != nil {
		return steps, nil // the parser has a better error
	}
	if steps += more; steps > maxPatternSteps {
		return steps, fmt.Errorf("the regular expressions have more than %d steps: shorten them, and their repetitions such as {1000}", maxPatternSteps)
	}
	return steps, nil
}

// ParseExpr parses an expression.
func (p boundedParser) ParseExpr(input string) (parser.Expr, error) {
	steps, err := countMatcherSteps(input)
	if err != nil {
		return nil, err
	}
	expr, err := p.Parser.ParseExpr(input)
	if err != nil {
		return expr, err
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if call, ok := node.(*parser.Call); ok && call.Func != nil && call.Func.Name == "label_replace" && len(call.Args) == 5 && err == nil {
			steps, err = addPatternSteps(steps, textOf(call.Args[4]))
		}
		return nil
	})
	if err != nil {
		return expr, err
	}
	total := 0
	for _, units := range labelGrowth(expr) {
		total += units
	}
	if total > maxLabelGrowth {
		return expr, fmt.Errorf("label_replace and label_join make labels of up to %d times the length of a label, the limit is %d", total, maxLabelGrowth)
	}
	return expr, nil
}

// labelGrowth estimates how many times longer than a stored label each label made by an expression can become.
func labelGrowth(node parser.Node) map[string]int {
	made := map[string]int{}
	for child := range parser.ChildrenIter(node) {
		for name, units := range labelGrowth(child) {
			made[name] = max(made[name], units)
		}
	}
	call, ok := node.(*parser.Call)
	if !ok || call.Func == nil || len(call.Args) < 4 {
		return made
	}
	texts := make([]string, len(call.Args))
	for i, arg := range call.Args[1:] {
		texts[i+1] = textOf(arg)
	}
	units := 0
	lengthOf := func(label string) int { return max(1, made[label]) }
	switch call.Func.Name {
	case "label_replace": // (vector, label, replacement, source, pattern)
		units = strings.Count(texts[2], "$")*lengthOf(texts[3]) + len(texts[2])/literalUnit
	case "label_join": // (vector, label, separator, sources …)
		for _, source := range texts[3:] {
			units += lengthOf(source)
		}
		units += len(texts[2]) * len(texts[3:]) / literalUnit
	default:
		return made
	}
	made[texts[1]] = min(max(made[texts[1]], units), maxLabelGrowth+1)
	return made
}

// textOf returns the text of a string argument.
func textOf(e parser.Expr) string {
	for {
		switch x := e.(type) {
		case *parser.StringLiteral:
			return x.Val
		case *parser.ParenExpr:
			e = x.Expr
		case *parser.StepInvariantExpr:
			e = x.Expr
		default:
			return ""
		}
	}
}
