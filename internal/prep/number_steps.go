package prep

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// parseUnsigned parses a decimal integer from 0 to 2^64-1. White space around it, a leading plus and zeros behind a
// decimal point are no error: agents have sent them.
func parseUnsigned(s string) (uint64, bool) {
	s = strings.TrimPrefix(strings.Trim(s, " \t\r\n"), "+")
	if whole, fraction, ok := strings.Cut(s, "."); ok && whole != "" && strings.Trim(fraction, "0") == "" {
		s = whole
	}
	if s == "" || s[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil
}

// parseFloat parses a finite decimal number with an optional exponent.
func parseFloat(s string) (float64, bool) {
	s = strings.Trim(s, " \t\r\n")
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9', c == '.', c == '-', c == '+', c == 'e', c == 'E':
		default: // ParseFloat takes inf, nan, hexadecimal and underscores
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}

// number converts an item value to a number, if possible. The text of an integer becomes unsigned, of another
// number float.
func number(v item.Value) (item.Value, bool) {
	if v.Kind() != item.TextValue {
		return v, v.Kind() != item.None
	}
	if n, ok := parseUnsigned(v.String()); ok {
		return item.FromUnsigned(n), true
	}
	f, ok := parseFloat(v.String())
	return item.FromFloat(f), ok
}

// typedNumber converts a value to a number of the item's type, Float or Unsigned. For an item of another type any
// number is allowed. A number outside the range of unsigned integers stays a float.
func typedNumber(v item.Value, t item.Type) (item.Value, error) {
	n, ok := number(v)
	if !ok {
		return n, fmt.Errorf("cannot convert value to numeric type")
	}
	switch {
	case t == item.Float && n.Kind() == item.UnsignedValue:
		return item.FromFloat(n.Float()), nil
	case t == item.Unsigned && n.Kind() == item.FloatValue:
		if u, ok := truncate(n.Float()); ok {
			return item.FromUnsigned(u), nil
		}
	}
	return n, nil
}

// truncate returns the integer part of a number from 0 to below 2^64
func truncate(f float64) (uint64, bool) {
	if !(f >= 0 && f < 1<<64) {
		return 0, false
	}
	return uint64(f), true
}

// compileMultiplier compiles the step multiplier, which multiplies the value by a number. Integers stay integers. They
// wrap, and a fraction of the product is cut off.
func compileMultiplier(params []string, t item.Type) (stepFunc, error) {
	text := params[0]
	factor, ok := parseFloat(text)
	if !ok {
		return nil, model.Errorf(model.Invalid, "%q is not a number", text)
	}
	whole, integer := parseUnsigned(text)
	return func(v item.Value, _ int64, _ *rememberedValue, _ *ParsedValue) (item.Value, error) {
		n, err := typedNumber(v, t)
		if err != nil {
			return n, fmt.Errorf("cannot apply multiplier %q to value of type %q: %w", text, kindName(v), err)
		}
		product := n.Float() * factor
		if n.Kind() == item.UnsignedValue {
			if integer {
				return item.FromUnsigned(n.Unsigned() * whole), nil
			}
			if u, ok := truncate(product); ok {
				return item.FromUnsigned(u), nil
			}
		}
		return item.FromFloat(product), nil
	}, nil
}

// kindName returns Zabbix's name of a value's type, for error messages.
func kindName(v item.Value) string {
	switch v.Kind() {
	case item.FloatValue:
		return "double"
	case item.UnsignedValue:
		return "uint64"
	case item.TextValue:
		return "string"
	}
	return "none"
}

// typeNames has the names of value types in Zabbix's messages, by item.Type.
var typeNames = [...]string{"Numeric (float)", "Numeric (unsigned)", "Text", "Log", "Boolean"}

// convert converts the last output of the preprocessing steps to the type of the item.
func convert(v item.Value, t item.Type) (item.Value, error) {
	switch t {
	case item.Float:
		if n, ok := number(v); ok && !math.IsNaN(n.Float()) && !math.IsInf(n.Float(), 0) {
			return item.FromFloat(n.Float()), nil
		}
	case item.Unsigned:
		switch v.Kind() {
		case item.UnsignedValue:
			return v, nil
		case item.FloatValue:
			if n, ok := truncate(v.Float()); ok {
				return item.FromUnsigned(n), nil
			}
		case item.TextValue:
			if n, ok := parseUnsigned(v.String()); ok {
				return item.FromUnsigned(n), nil
			}
		}
	case item.Boolean:
		if n, err := parseBoolean(v); err == nil {
			return item.FromUnsigned(n), nil
		}
	default:
		if v.Kind() == item.TextValue {
			return v, nil
		}
		return item.FromText(textOf(v)), nil
	}
	err := fmt.Errorf("Value of type %q is not suitable for value type %q. Value %q", kindName(v), typeNames[t], shorten(textOf(v), maxFailureValue))
	return item.Value{}, &Failure{Reason: err, text: err.Error()}
}

// booleanWords are the words that Zabbix takes for true and false, in lower case.
var booleanWords = map[string]uint64{
	"true": 1, "t": 1, "yes": 1, "y": 1, "on": 1, "up": 1, "running": 1, "enabled": 1, "available": 1, "ok": 1, "master": 1,
	"false": 0, "f": 0, "no": 0, "n": 0, "off": 0, "down": 0, "unused": 0, "disabled": 0, "unavailable": 0, "err": 0, "slave": 0,
}

// parseBoolean converts a truth word, such as yes, or a number to 1 or 0. A word is, for example, true or no.
// Of the numbers only 0 is false.
func parseBoolean(v item.Value) (uint64, error) {
	if v.Kind() == item.TextValue {
		v = item.FromText(trimQuotes(v.String()))
	}
	if n, ok := number(v); ok {
		if n.Float() != 0 {
			return 1, nil
		}
		return 0, nil
	}
	if n, ok := booleanWords[strings.ToLower(v.String())]; ok {
		return n, nil
	}
	return 0, fmt.Errorf("invalid value format")
}

// trimQuotes removes spaces, quotes and line ends around a text, as Zabbix does before a conversion.
func trimQuotes(text string) string {
	return strings.TrimRight(strings.TrimLeft(text, " \""), " \"\n\r")
}

// compileBoolToDecimal compiles the step boolToDecimal, which outputs 1 for true and 0 for false
func compileBoolToDecimal(_ []string, _ item.Type) (stepFunc, error) {
	return func(v item.Value, _ int64, _ *rememberedValue, _ *ParsedValue) (item.Value, error) {
		n, err := parseBoolean(v)
		if err != nil {
			return v, fmt.Errorf("cannot convert value of type %q from boolean format: %w", kindName(v), err)
		}
		return item.FromUnsigned(n), nil
	}, nil
}

// hexPairs matches bytes in hexadecimal digits, such as 0A 1B. Long ones go on in the next line.
var hexPairs = regexp.MustCompile(`^[0-9A-Fa-f]{2}([ \n][ \n]?[0-9A-Fa-f]{2})+$`)

// compileBaseConversion returns the compile function for the two steps octalToDecimal (base 8) and hexToDecimal (base 16).
func compileBaseConversion(base int, name string) compileFunc {
	return func([]string, item.Type) (stepFunc, error) {
		return func(v item.Value, _ int64, _ *rememberedValue, _ *ParsedValue) (item.Value, error) {
			text := trimQuotes(textOf(v))
			if base == 16 && hexPairs.MatchString(text) {
				text = strings.NewReplacer(" ", "", "\n", "").Replace(text)
			}
			n, err := strconv.ParseUint(text, base, 64)
			if err != nil || text[0] == '+' {
				return v, fmt.Errorf("cannot convert value of type %q from %s format: invalid value format", kindName(v), name)
			}
			return item.FromUnsigned(n), nil
		}, nil
	}
}

// compileInRange compiles the step inRange, which fails for numbers outside a range. The range has a minimum and a
// maximum.
func compileInRange(params []string, t item.Type) (stepFunc, error) {
	low, high := math.Inf(-1), math.Inf(1)
	var ok bool
	if params[0] != "" {
		if low, ok = parseFloat(params[0]); !ok {
			return nil, model.Errorf(model.Invalid, "the minimum %q is not a number", params[0])
		}
	}
	reason := "value is less than " + params[0]
	if len(params) > 1 && params[1] != "" {
		if high, ok = parseFloat(params[1]); !ok {
			return nil, model.Errorf(model.Invalid, "the maximum %q is not a number", params[1])
		}
		if params[0] == "" {
			reason = "value is greater than " + params[1]
		} else {
			reason += " or greater than " + params[1]
		}
	}
	switch {
	case math.IsInf(low, -1) && math.IsInf(high, 1):
		return nil, model.Errorf(model.Invalid, "minimum and maximum are empty")
	case low > high:
		return nil, model.Errorf(model.Invalid, "the minimum %s is above the maximum %s", params[0], params[1])
	}
	return func(v item.Value, _ int64, _ *rememberedValue, _ *ParsedValue) (item.Value, error) {
		n, err := typedNumber(v, t)
		if err != nil {
			return v, fmt.Errorf("cannot validate range for value of type %q: %w", kindName(v), err)
		}
		if f := n.Float(); !(f >= low && f <= high) {
			return v, fmt.Errorf("%s", reason)
		}
		return v, nil
	}, nil
}
