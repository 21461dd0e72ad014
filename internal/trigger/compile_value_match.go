package trigger

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/dlclark/regexp2/v2"

	"github.com/muster-fleet/muster/internal/item"
)

// matchLimit bounds the time of a match that needs the backtracking engine. Go's linear engine does not know such
// regular expressions.
const matchLimit = 100 * time.Millisecond

// compileMatch compiles an operator, such as like, and a pattern to a function that tests values. count, find
// and countunique use it. It returns the problem as text.
func compileMatch(t item.Type, operator, pattern string) (match func(item.Value) effect, problem string) {
	isText := t == item.Text || t == item.Log
	if operator == "" {
		if operator = "eq"; isText {
			operator = "like"
		}
	}
	switch operator {
	case "like":
		return func(v item.Value) effect { return effectOf(strings.Contains(v.String(), pattern)) }, ""
	case "regexp", "iregexp":
		m, problem := compileRegexp(pattern, operator == "iregexp")
		if problem != "" {
			return nil, problem
		}
		return func(v item.Value) effect { return m(v.String()) }, ""
	case "bitand":
		if t != item.Unsigned && t != item.Boolean {
			return nil, "the operator bitand needs an item of type unsigned"
		}
		wantText, maskText, ok := strings.Cut(pattern, "/")
		if !ok {
			maskText = wantText
		}
		want, err1 := strconv.ParseUint(wantText, 10, 64)
		mask, err2 := strconv.ParseUint(maskText, 10, 64)
		if err1 != nil || err2 != nil {
			return nil, "the operator bitand needs whole numbers: 12 or 8/12"
		}
		return func(v item.Value) effect { return effectOf(v.Unsigned()&mask == want) }, ""
	case "eq", "ne":
		if isText {
			return func(v item.Value) effect { return effectOf((v.String() == pattern) == (operator == "eq")) }, ""
		}
	}
	test, ok := orders[operator]
	switch {
	case !ok:
		return nil, "the operator is one of eq, ne, gt, ge, lt, le, like, bitand, regexp and iregexp"
	case isText:
		return nil, "the operator " + operator + " needs an item with numbers"
	}
	bound := ofText(pattern).number()
	if bound.isUnknown() {
		return nil, "expected a number as the pattern, got " + quote(pattern)
	}
	return func(v item.Value) effect {
		value := ofValue(v)
		return effectOf(test(compare(&value, &bound)))
	}, ""
}

// effectOf tells a window to use a value that matches a pattern, and to skip any other value. The window uses
// the value if the pattern matches it.
func effectOf(matches bool) effect {
	if matches {
		return use
	}
	return skip
}

var orders = map[string]func(order int) bool{
	"eq": func(o int) bool { return o == 0 }, "ne": func(o int) bool { return o != 0 },
	"gt": func(o int) bool { return o > 0 }, "ge": func(o int) bool { return o >= 0 },
	"lt": func(o int) bool { return o < 0 }, "le": func(o int) bool { return o <= 0 },
}

// compileRegexp compiles a PCRE pattern with Go's regular expression engine, or with a backtracking engine if
// necessary. For other syntax it uses a backtracking engine with a time limit.
func compileRegexp(pattern string, ignoreCase bool) (match func(string) effect, problem string) {
	if strings.HasPrefix(pattern, "@") {
		return nil, "global regular expressions do not exist; write the pattern itself in place of " + pattern
	}
	flags, options := "(?m)", regexp2.Multiline
	if ignoreCase {
		flags, options = "(?mi)", options|regexp2.IgnoreCase
	}
	linear, _, err := item.CompilePattern(flags + pattern)
	switch {
	case err == nil:
		return func(s string) effect { return effectOf(linear.MatchString(s)) }, ""
	case errors.Is(err, item.ErrPatternSize):
		return nil, "the regular expression " + quote(pattern) + ": " + err.Error()
	}
	re, err := regexp2.Compile(pattern, options)
	if err != nil {
		return nil, "the regular expression " + quote(pattern) + " is invalid: " + err.Error()
	}
	re.MatchTimeout = matchLimit
	return func(s string) effect {
		ok, err := re.MatchString(s)
		if err != nil {
			return broken
		}
		return effectOf(ok)
	}, ""
}
