package prep

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// textOf converts an item's value to text. Numbers have the form of Zabbix: up to 15 digits without exponent.
func textOf(v item.Value) string {
	if v.Kind() != item.FloatValue {
		return v.String()
	}
	f := v.Float()
	if size := math.Abs(f); f == 0 || size >= 1e-4 && size < 1e15 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return strconv.FormatFloat(f, 'E', -1, 64)
}

// unescape replaces the escape sequences \s \n \r \t in a parameter by their characters. For the step replace it also
// replaces \\. Other backslashes stay.
func unescape(s string, backslash bool) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			at := strings.IndexByte(`snrt\`, s[i+1])
			if at >= 0 && (at < 4 || backslash) {
				b.WriteByte(" \n\r\t\\"[at])
				i++
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// compileTrim returns the compile function for the three steps trim, ltrim and rtrim. The function trim removes the
// characters.
func compileTrim(trim func(s, cutset string) string) compileFunc {
	return func(params []string, _ item.Type) (stepFunc, error) {
		cutset := unescape(params[0], false)
		return func(v item.Value, _ int64, _ *rememberedValue, _ *ParsedValue) (item.Value, error) {
			return item.FromText(trim(textOf(v), cutset)), nil
		}, nil
	}
}

// compileReplace compiles the step replace, which replaces all occurrences of a text
func compileReplace(params []string, _ item.Type) (stepFunc, error) {
	search, replacement := unescape(params[0], true), ""
	if len(params) > 1 {
		replacement = unescape(params[1], true)
	}
	if search == "" {
		return nil, model.Errorf(model.Invalid, "the first parameter, the text to replace, is empty")
	}
	return func(v item.Value, _ int64, _ *rememberedValue, _ *ParsedValue) (item.Value, error) {
		text := textOf(v)
		if added := strings.Count(text, search) * (len(replacement) - len(search)); len(text)+added > maxOutputOf(text) {
			return v, errOutput
		}
		return item.FromText(strings.ReplaceAll(text, search, replacement)), nil
	}, nil
}

// compileRegex compiles the step regex, which fills an output template from a regular expression's first match.
func compileRegex(params []string, _ item.Type) (stepFunc, error) {
	source, template := params[0], params[1]
	p, err := compilePattern(source, matchText)
	if err != nil {
		return nil, err
	}
	return func(v item.Value, _ int64, _ *rememberedValue, _ *ParsedValue) (item.Value, error) {
		out, ok, err := p.replaceFirst(textOf(v), template)
		if err == nil && !ok {
			err = errors.New("pattern does not match")
		}
		if err != nil {
			return v, fmt.Errorf("cannot perform regular expression %q match for value of type %q: %w", shorten(source, maxFailurePattern), kindName(v), err)
		}
		return item.FromText(out), nil
	}, nil
}

// compileMatches returns the compile function for the two steps matches and notMatches. With want the step fails unless the
// value matches a regular expression; otherwise it fails if the value matches.
func compileMatches(want bool) compileFunc {
	return func(params []string, _ item.Type) (stepFunc, error) {
		p, err := compilePattern(params[0], matchLines)
		if err != nil {
			return nil, err
		}
		return func(v item.Value, _ int64, _ *rememberedValue, _ *ParsedValue) (item.Value, error) {
			ok, err := p.match(textOf(v))
			switch {
			case err != nil:
				return v, fmt.Errorf("cannot perform regular expression %q match for value of type %q: %w", shorten(params[0], maxFailurePattern), kindName(v), err)
			case ok == want:
				return v, nil
			case want:
				return v, fmt.Errorf("cannot perform regular expression %q validation for value of type %q: value does not match regular expression", shorten(params[0], maxFailurePattern), kindName(v))
			}
			return v, fmt.Errorf("cannot perform regular expression %q validation for value of type %q: value matches regular expression", shorten(params[0], maxFailurePattern), kindName(v))
		}, nil
	}
}

// compileCheckRegexError compiles the step checkRegexError, which fails if a regular expression finds an error
// text in the value.
func compileCheckRegexError(params []string, _ item.Type) (stepFunc, error) {
	template := ""
	if len(params) > 1 {
		template = params[1]
	}
	p, err := compilePattern(params[0], matchText)
	if err != nil {
		return nil, err
	}
	return func(v item.Value, _ int64, _ *rememberedValue, _ *ParsedValue) (item.Value, error) {
		out, ok, err := p.replaceFirst(textOf(v), template)
		if err != nil {
			return v, fmt.Errorf("cannot perform regular expression %q match for value of type %q: %w", shorten(params[0], maxFailurePattern), kindName(v), err)
		}
		if out = strings.TrimSpace(out); ok && out != "" {
			return v, errors.New(out)
		}
		return v, nil
	}, nil
}

// compileCheckNotSupported compiles the step checkNotSupported, which handles the error of a failed measurement. The
// error must match a pattern. Then onFail can replace it. Without parameters it takes any error.
func compileCheckNotSupported(params []string, _ item.Type) (stepFunc, error) {
	if len(params) == 0 || params[0] == "-1" || params[0] == "" {
		return func(v item.Value, _ int64, _ *rememberedValue, _ *ParsedValue) (item.Value, error) {
			return v, errors.New(v.String())
		}, nil
	}
	if len(params) < 2 || params[0] != "0" && params[0] != "1" {
		return nil, model.Errorf(model.Invalid, "expected -1 (any error), or 0 (error matches) or 1 (error does not match) with a regular expression")
	}
	want, anchors := params[0] == "0", matchLines
	if want {
		anchors = matchText
	}
	p, err := compilePattern(params[1], anchors)
	if err != nil {
		return nil, err
	}
	return func(v item.Value, _ int64, _ *rememberedValue, _ *ParsedValue) (item.Value, error) {
		ok, err := p.match(v.String())
		if err != nil {
			return v, err
		}
		if ok == want {
			return v, errors.New(v.String())
		}
		return v, nil
	}, nil
}
