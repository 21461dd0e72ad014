package item

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// MaxPatternSteps bounds the instructions of a regular expression for values. A match takes time by the length of the
// text times the instructions, and a short pattern such as .{1000} has many.
const MaxPatternSteps = 10_000

// ErrPatternSize is the error of a regular expression with too many instructions.
var ErrPatternSize = fmt.Errorf("it has more than %d steps: shorten it, and its repetitions such as {1000}", MaxPatternSteps)

// CompilePattern compiles a regular expression that matches in linear time, and returns its number of instructions.
func CompilePattern(source string) (re *regexp.Regexp, steps int, err error) {
	if steps, err = CountPatternSteps(source); err != nil {
		return nil, 0, err
	}
	if steps > MaxPatternSteps {
		return nil, steps, ErrPatternSize
	}
	re, err = regexp.Compile(source)
	return re, steps, err
}

// CountPatternSteps returns an upper bound of the instructions of a regular expression. It does not compile the
// expression, because each instruction takes memory.
func CountPatternSteps(source string) (int, error) {
	tree, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return 0, err
	}
	return 2 + countSteps(tree), nil // the start and the match
}

// countSteps returns an upper bound of the instructions of a part of a regular expression. Package syntax bounds
// repetitions, so that the number cannot overflow.
func countSteps(re *syntax.Regexp) int {
	sum := 0
	for _, part := range re.Sub {
		sum += countSteps(part)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return max(1, len(re.Rune))
	case syntax.OpCapture:
		return sum + 2
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest:
		return sum + 2
	case syntax.OpRepeat:
		if re.Max < 0 {
			return max(1, re.Min)*sum + 2
		}
		return re.Min*sum + (re.Max-re.Min)*(sum+1) + 1
	case syntax.OpConcat:
		return max(1, sum)
	case syntax.OpAlternate:
		return sum + len(re.Sub)
	}
	return 1
}
