// Package promexpr bounds the memory and time of texts that users write for Prometheus's libraries: expressions in
// PromQL, and templates of alerts. The libraries themselves have no such bounds.
//
// No goroutines, no locks. Start reading at NewParser and CheckTemplate.
package promexpr

import (
	"fmt"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

// maxLabelGrowth bounds the labels that an expression makes of others, in lengths of a stored label.
const maxLabelGrowth = 100

// literalUnit is the number of bytes of a text in an expression that count as one stored label.
const literalUnit = 64

// NewParser returns a parser of PromQL. It refuses expressions whose nested label_replace and label_join multiply the
// length of labels.
func NewParser() parser.Parser { return boundedParser{parser.NewParser(parser.Options{})} }

// boundedParser is a parser of PromQL that refuses expressions with too long labels.
type boundedParser struct{ parser.Parser }

// ParseExpr parses an expression.
func (p boundedParser) ParseExpr(input string) (parser.Expr, error) {
	expr, err := p.Parser.ParseExpr(input)
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
