package trigger

import (
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/muster-fleet/muster/internal/item"
)

// scalar is a function over plain values (operands) instead of stored values, such as abs or concat. Unknown operands
// never reach it.
type scalar struct {
	least, most int                          // number of arguments
	kind        scalarKind                   // of the arguments
	apply       func(args []operand) operand // reports a bad argument as unknown
}

// scalarKind says whether a function over plain values needs numbers or accepts texts.
type scalarKind uint8

const (
	anyScalars    scalarKind = iota // numbers or texts
	numberScalars                   // numbers; texts are converted
	wholeScalars                    // whole numbers from 0 to 2^64-1
)

// scalarFunction returns the function that compiles calls of a named function over plain values, such as abs. It
// returns nil if no such function exists.
func scalarFunction(name string) func(c *compiler, n *node) evaluator {
	switch name {
	case "now", "date", "time", "dayofmonth", "dayofweek":
		return compileClock
	case "rand":
		return unsupported("a trigger must give the same result when its values are read again")
	case "jsonpath", "xmlxpath":
		return unsupported("make a dependent item with a step of preprocessing for it")
	}
	if f, ok := floatFunctions[name]; ok {
		return scalar{1, 1, numberScalars, func(args []operand) operand { return ofFloat(f(args[0].Float())).number() }}.compile
	}
	if f, ok := scalars[name]; ok {
		return f.compile
	}
	return nil
}

// compile compiles a call of a function over plain values (operands), such as abs. It checks the number of arguments
// and compiles each.
func (f scalar) compile(c *compiler, n *node) evaluator {
	if len(n.args) < f.least || f.most > 0 && len(n.args) > f.most {
		c.fail(n, "%s has %d arguments, expected from %d to %d", n.name, len(n.args), f.least, max(f.least, f.most))
	}
	args := make([]evaluator, len(n.args))
	for i := range n.args {
		args[i] = c.node(&n.args[i])
	}
	notWhole := unknownBecause(n.name + " needs whole numbers")
	return func(w *Windows) operand {
		values := make([]operand, len(args))
		for i, arg := range args {
			o := arg(w)
			if f.kind != anyScalars {
				o = o.number()
			}
			if o.isUnknown() {
				return o
			}
			if f.kind == wholeScalars && o.Kind() == item.FloatValue {
				v := o.Float()
				if v < 0 || v >= 1<<64 || v != math.Trunc(v) {
					return notWhole
				}
				o = ofUnsigned(uint64(v))
			}
			values[i] = o
		}
		return f.apply(values)
	}
}

var floatFunctions = map[string]func(float64) float64{
	"cbrt": math.Cbrt, "ceil": math.Ceil, "exp": math.Exp, "expm1": math.Expm1, "floor": math.Floor,
	"log": math.Log, "log10": math.Log10, "sqrt": math.Sqrt,
	"acos": math.Acos, "asin": math.Asin, "atan": math.Atan, "cos": math.Cos, "cosh": math.Cosh, "sin": math.Sin, "sinh": math.Sinh, "tan": math.Tan,
	"cot":     func(v float64) float64 { return 1 / math.Tan(v) },
	"degrees": func(v float64) float64 { return v * 180 / math.Pi },
	"radians": func(v float64) float64 { return v * math.Pi / 180 },
	"signum": func(v float64) float64 {
		switch {
		case v > 0:
			return 1
		case v < 0:
			return -1
		}
		return 0
	},
}

var scalars = map[string]scalar{
	"abs": {1, 1, numberScalars, func(a []operand) operand {
		if a[0].Kind() == item.UnsignedValue {
			return a[0]
		}
		return ofFloat(math.Abs(a[0].Float()))
	}},
	"e":     {0, 0, numberScalars, func([]operand) operand { return ofFloat(math.E) }},
	"pi":    {0, 0, numberScalars, func([]operand) operand { return ofFloat(math.Pi) }},
	"atan2": {2, 2, numberScalars, func(a []operand) operand { return ofFloat(math.Atan2(a[0].Float(), a[1].Float())).number() }},
	"power": {2, 2, numberScalars, func(a []operand) operand { return ofFloat(math.Pow(a[0].Float(), a[1].Float())).number() }},
	"mod": {2, 2, numberScalars, func(a []operand) operand {
		if a[1].isZero() {
			return unknownBecause("division by zero")
		}
		return ofFloat(math.Mod(a[0].Float(), a[1].Float())).number()
	}},
	"round":    {2, 2, numberScalars, func(a []operand) operand { return roundDecimals(a, math.Round) }},
	"truncate": {2, 2, numberScalars, func(a []operand) operand { return roundDecimals(a, math.Trunc) }},
	"min":      {1, 0, numberScalars, func(a []operand) operand { return slices.MinFunc(a, order) }},
	"max":      {1, 0, numberScalars, func(a []operand) operand { return slices.MaxFunc(a, order) }},
	"sum":      {1, 0, numberScalars, func(a []operand) operand { return ofFloat(sum(a)).number() }},
	"avg":      {1, 0, numberScalars, func(a []operand) operand { return ofFloat(sum(a) / float64(len(a))).number() }},
	"between": {3, 3, numberScalars, func(a []operand) operand {
		return ofBool(compare(&a[0], &a[1]) >= 0 && compare(&a[0], &a[2]) <= 0)
	}},
	"in": {2, 0, anyScalars, func(a []operand) operand {
		return ofBool(slices.ContainsFunc(a[1:], func(o operand) bool { return equal(a[0], o) }))
	}},

	"bitand":    {2, 2, wholeScalars, func(a []operand) operand { return ofUnsigned(a[0].Unsigned() & a[1].Unsigned()) }},
	"bitor":     {2, 2, wholeScalars, func(a []operand) operand { return ofUnsigned(a[0].Unsigned() | a[1].Unsigned()) }},
	"bitxor":    {2, 2, wholeScalars, func(a []operand) operand { return ofUnsigned(a[0].Unsigned() ^ a[1].Unsigned()) }},
	"bitnot":    {1, 1, wholeScalars, func(a []operand) operand { return ofUnsigned(^a[0].Unsigned()) }},
	"bitlshift": {2, 2, wholeScalars, func(a []operand) operand { return ofUnsigned(a[0].Unsigned() << a[1].Unsigned()) }},
	"bitrshift": {2, 2, wholeScalars, func(a []operand) operand { return ofUnsigned(a[0].Unsigned() >> a[1].Unsigned()) }},

	"length": {1, 1, anyScalars, func(a []operand) operand { return ofUnsigned(uint64(utf8.RuneCountInString(a[0].String()))) }},
	"bytelength": {1, 1, anyScalars, func(a []operand) operand {
		if a[0].Kind() == item.UnsignedValue {
			return ofUnsigned(uint64(bits.Len64(a[0].Unsigned())+7) / 8)
		}
		return ofUnsigned(uint64(len(a[0].String())))
	}},
	"bitlength": {1, 1, anyScalars, func(a []operand) operand {
		if a[0].Kind() == item.UnsignedValue {
			return ofUnsigned(uint64(bits.Len64(a[0].Unsigned())))
		}
		return ofUnsigned(uint64(8 * len(a[0].String())))
	}},
	"ascii": {1, 1, anyScalars, func(a []operand) operand {
		if s := a[0].String(); s != "" && s[0] < utf8.RuneSelf {
			return ofUnsigned(uint64(s[0]))
		}
		return unknownBecause("ascii needs a text that begins with an ASCII character")
	}},
	"char": {1, 1, wholeScalars, func(a []operand) operand {
		if n := a[0].Unsigned(); n <= 255 {
			return ofText(string(rune(n)))
		}
		return unknownBecause("char needs a number from 0 to 255")
	}},
	"concat": {2, 0, anyScalars, func(a []operand) operand {
		var out strings.Builder
		for _, o := range a {
			out.WriteString(o.String())
		}
		return boundText(out.String())
	}},
	"insert": {4, 4, anyScalars, func(a []operand) operand {
		text := []rune(a[0].String())
		start, length, ok := textRange(text, a[1], a[2])
		if !ok {
			return unknownBecause("insert needs a place inside the text")
		}
		return boundText(string(text[:start]) + a[3].String() + string(text[start+length:]))
	}},
	"mid": {3, 3, anyScalars, func(a []operand) operand {
		text := []rune(a[0].String())
		start, length, ok := textRange(text, a[1], a[2])
		if !ok {
			return unknownBecause("mid needs a place inside the text")
		}
		return ofText(string(text[start : start+length]))
	}},
	"left": {2, 2, anyScalars, func(a []operand) operand {
		text := []rune(a[0].String())
		n, ok := wholeNumber(a[1], len(text))
		if !ok {
			return unknownBecause("left needs a number of characters")
		}
		return ofText(string(text[:n]))
	}},
	"right": {2, 2, anyScalars, func(a []operand) operand {
		text := []rune(a[0].String())
		n, ok := wholeNumber(a[1], len(text))
		if !ok {
			return unknownBecause("right needs a number of characters")
		}
		return ofText(string(text[len(text)-n:]))
	}},
	"repeat": {2, 2, anyScalars, func(a []operand) operand {
		n, ok := wholeNumber(a[1], maxText+1)
		if text := a[0].String(); ok && n*len(text) <= maxText {
			return ofText(strings.Repeat(text, n))
		}
		return unknownBecause("repeat needs a number, and a result of at most 64 KiB")
	}},
	"replace": {3, 3, anyScalars, func(a []operand) operand {
		text, old, replacement := a[0].String(), a[1].String(), a[2].String()
		if old == "" {
			return a[0]
		}
		if len(text)+strings.Count(text, old)*(len(replacement)-len(old)) > maxText {
			return tooLong
		}
		return ofText(strings.ReplaceAll(text, old, replacement))
	}},
	"trim":  {1, 2, anyScalars, func(a []operand) operand { return ofText(strings.Trim(a[0].String(), trimCharacters(a))) }},
	"ltrim": {1, 2, anyScalars, func(a []operand) operand { return ofText(strings.TrimLeft(a[0].String(), trimCharacters(a))) }},
	"rtrim": {1, 2, anyScalars, func(a []operand) operand { return ofText(strings.TrimRight(a[0].String(), trimCharacters(a))) }},
}

// maxText bounds a text that a function of an expression makes, in bytes.
const maxText = 64 << 10

var tooLong = unknownBecause("a function made a text of more than 64 KiB")

// boundText returns a text as an operand, or an unknown operand for a text over the maximum length. A text
// longer than maxText gives an unknown operand.
func boundText(text string) operand {
	if len(text) > maxText {
		return tooLong
	}
	return ofText(text)
}

// roundDecimals rounds the first argument to as many decimal places as the second argument says. The function round chooses
// the direction.
func roundDecimals(a []operand, round func(float64) float64) operand {
	if places := a[1].Float(); places >= 0 && places <= 14 {
		factor := math.Pow(10, math.Trunc(places))
		if v := a[0].Float() * factor; !math.IsInf(v, 0) {
			return ofFloat(round(v) / factor)
		}
		return a[0]
	}
	return unknownBecause("the number of decimal places is from 0 to 14")
}

// order compares two numbers for sorting, and returns -1, 0 or 1.
func order(a, b operand) int { return compare(&a, &b) }

// sum adds up numeric operands.
func sum(a []operand) float64 {
	total := 0.0
	for _, o := range a {
		total += o.Float()
	}
	return total
}

// wholeNumber converts an operand to a non-negative integer, reduced to `bound` if larger. It returns false if
// the operand is negative or not whole.
func wholeNumber(o operand, bound int) (int, bool) {
	o = o.number()
	if o.isUnknown() || o.Float() < 0 || o.Float() != math.Trunc(o.Float()) {
		return 0, false
	}
	return int(min(o.Float(), float64(bound))), true
}

// textRange converts operands with a start position (from 1) and a length to indexes within a text. Positions
// count from 1. ok is false if they are not within the text.
func textRange(text []rune, from, count operand) (start, length int, ok bool) {
	start, ok1 := wholeNumber(from, len(text)+1)
	length, ok2 := wholeNumber(count, len(text)+1)
	start--
	return start, length, ok1 && ok2 && start >= 0 && start+length <= len(text)
}

// trimCharacters returns which characters a trim function removes, by default white space. They are the second
// argument, or else white space.
func trimCharacters(a []operand) string {
	if len(a) > 1 {
		return a[1].String()
	}
	return " \t\r\n\f\v"
}

// clockInterval is the time after which now() and time() are evaluated anew.
const clockInterval = 30 * int64(time.Second)

// compileClock compiles calls of now, date, time, dayofmonth and dayofweek, which read the evaluation's time.
func compileClock(c *compiler, n *node) evaluator {
	if len(n.args) > 0 {
		c.fail(n, "%s has no arguments", n.name)
	}
	zone := c.scope.Zone
	c.program.timers = append(c.program.timers, func(w *Windows) int64 {
		if n.name == "now" || n.name == "time" {
			return (w.now/clockInterval + 1) * clockInterval
		}
		return item.ShiftStep{Operator: '/', Unit: 'd'}.Apply(time.Unix(0, w.now).In(zone)).AddDate(0, 0, 1).UnixNano()
	})
	name := n.name
	return func(w *Windows) operand {
		t := time.Unix(0, w.now).In(zone)
		number := 0
		switch name {
		case "now":
			return ofUnsigned(uint64(max(0, t.Unix())))
		case "date":
			number = t.Year()*10000 + int(t.Month())*100 + t.Day()
		case "time":
			number = t.Hour()*10000 + t.Minute()*100 + t.Second()
		case "dayofmonth":
			number = t.Day()
		case "dayofweek":
			number = (int(t.Weekday())+6)%7 + 1
		}
		return ofUnsigned(uint64(max(0, number)))
	}
}
