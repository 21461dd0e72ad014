package trigger

import (
	"math"

	"github.com/muster-fleet/muster/internal/item"
)

// operand is a value during an evaluation, such as a number, a text or an unknown value. It is a number or a text. One
// without a value is unknown, for a reason.
type operand struct {
	item.Value
	reason string
}

// ofValue makes an operand of an item's value.
func ofValue(v item.Value) operand { return operand{Value: v} }

// ofFloat makes an operand of a floating-point number.
func ofFloat(f float64) operand { return operand{Value: item.FromFloat(f)} }

// ofUnsigned makes an operand of an unsigned integer.
func ofUnsigned(n uint64) operand { return operand{Value: item.FromUnsigned(n)} }

// ofText makes an operand of a text.
func ofText(s string) operand { return operand{Value: item.FromText(s)} }

// unknownBecause returns an unknown operand, which has a reason instead of a value.
func unknownBecause(reason string) operand { return operand{reason: reason} }

// ofBool makes an operand of a truth value, 1 for true and 0 for false.
func ofBool(b bool) operand {
	if b {
		return ofUnsigned(1)
	}
	return ofUnsigned(0)
}

// isUnknown reports whether an operand is unknown, and therefore has neither number nor text.
func (o operand) isUnknown() bool { return o.Kind() == item.None }

// number converts the operand to a number, or to an unknown operand if impossible. A text such as 5m becomes
// 300.
func (o operand) number() operand {
	switch o.Kind() {
	case item.TextValue:
		text := o.String()
		negative := len(text) > 0 && text[0] == '-'
		if negative {
			text = text[1:]
		}
		v, ok := parseNumber(text)
		if !ok {
			return unknownBecause("cannot use the text " + quote(o.String()) + " as a number")
		}
		if negative {
			return ofFloat(-v.Float())
		}
		return ofValue(v)
	case item.FloatValue:
		if !isFinite(o.Float()) {
			return unknownBecause("the result is infinite or not a number")
		}
	}
	return o
}

// isNumber reports whether an operand is a finite number already.
func (o *operand) isNumber() bool {
	return o.Kind() == item.UnsignedValue || o.Kind() == item.FloatValue && isFinite(o.Float())
}

// isFinite reports whether a float is neither infinite nor NaN.
func isFinite(f float64) bool { return !math.IsInf(f, 0) && !math.IsNaN(f) }

// epsilon is the largest difference between two floats that count as equal.
const epsilon = 0x1p-52

// isZero reports whether an operand is the number 0, which counts as false.
func (o operand) isZero() bool {
	if o.Kind() == item.UnsignedValue {
		return o.Unsigned() == 0
	}
	return math.Abs(o.Float()) <= epsilon
}

// compare compares two numbers and returns -1, 0 or 1. Integers compare exactly, floats with a tolerance.
func compare(a, b *operand) int {
	if a.Kind() == item.UnsignedValue && b.Kind() == item.UnsignedValue {
		switch x, y := a.Unsigned(), b.Unsigned(); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	}
	switch x, y := a.Float(), b.Float(); {
	case x == y || math.Abs(x-y) <= epsilon:
		return 0
	case x < y:
		return -1
	}
	return 1
}

// equal compares two operands as numbers if both can be numbers, otherwise as texts.
func equal(a, b operand) bool {
	if x, y := a.number(), b.number(); !x.isUnknown() && !y.isUnknown() {
		return compare(&x, &y) == 0
	}
	return a.String() == b.String()
}

// quote shortens a text and adds quotes, for messages about unknown results.
func quote(text string) string {
	if len(text) > 64 {
		text = text[:64] + "…"
	}
	return `"` + text + `"`
}

// binaryOperator compiles a binary operator of an expression, such as `and` or +. The left side alone decides "0 and
// x" and "1 or x"; so does the right side when the left is unknown.
func binaryOperator(name string, left, right evaluator) evaluator {
	switch name {
	case "and", "or":
		decides := func(o operand) bool { return !o.isUnknown() && o.isZero() == (name == "and") }
		return func(w *Windows) operand {
			a := left(w).number()
			if decides(a) {
				return ofBool(name == "or")
			}
			b := right(w).number()
			switch {
			case decides(b):
				return ofBool(name == "or")
			case a.isUnknown():
				return a
			case b.isUnknown():
				return b
			}
			return ofBool(name == "and")
		}
	case "=", "<>":
		return func(w *Windows) operand {
			a, b := left(w), right(w)
			switch {
			case a.isUnknown():
				return a
			case b.isUnknown():
				return b
			}
			return ofBool(equal(a, b) == (name == "="))
		}
	}
	return func(w *Windows) operand {
		a := left(w)
		if !a.isNumber() {
			if a = a.number(); a.isUnknown() {
				return a
			}
		}
		b := right(w)
		if !b.isNumber() {
			if b = b.number(); b.isUnknown() {
				return b
			}
		}
		return calculate(name, &a, &b)
	}
}

// calculate applies a comparison or arithmetic operator to two numbers.
func calculate(operator string, a, b *operand) operand {
	switch operator {
	case "<":
		return ofBool(compare(a, b) < 0)
	case "<=":
		return ofBool(compare(a, b) <= 0)
	case ">":
		return ofBool(compare(a, b) > 0)
	case ">=":
		return ofBool(compare(a, b) >= 0)
	case "+":
		return ofFloat(a.Float() + b.Float()).number()
	case "-":
		return ofFloat(a.Float() - b.Float()).number()
	case "*":
		return ofFloat(a.Float() * b.Float()).number()
	}
	if b.isZero() {
		return unknownBecause("division by zero")
	}
	return ofFloat(a.Float() / b.Float()).number()
}

// unaryOperator compiles the operator `not` or a minus sign.
func unaryOperator(name string, operand1 evaluator) evaluator {
	return func(w *Windows) operand {
		o := operand1(w).number()
		switch {
		case o.isUnknown():
			return o
		case name == "not":
			return ofBool(o.isZero())
		}
		return ofFloat(-o.Float())
	}
}
