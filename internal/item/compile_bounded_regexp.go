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
	tree, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return nil, 0, err
	}
	code, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, 0, err
	}
	if steps = len(code.Inst); steps > MaxPatternSteps {
		return nil, steps, ErrPatternSize
	}
	re, err = regexp.Compile(source)
	return re, steps, err
}
