// Package item has the values of items: preprocessing computes them, triggers judge them, the series store keeps them.
package item

import (
	"math"
	"slices"
	"strconv"
)

// Type is the declared type of an item's values, such as float, unsigned or text
type Type uint8

// Types of items.
const (
	Float    Type = iota // 64-bit floating point
	Unsigned             // 64-bit unsigned integer
	Text                 // UTF-8 text
	Log                  // a line of a log file
	Boolean              // true or false, stored as 1 or 0
)

// Kind says whether a value of an item is stored as a float, unsigned integer or text. The kinds are float,
// unsigned integer and text. An item's type decides the kind of its stored values; between two steps of
// preprocessing a value has any kind.
type Kind uint8

// Kinds of values.
const (
	None          Kind = iota // no value: a step discarded it
	FloatValue                // a finite or infinite number, or NaN
	UnsignedValue             // an integer from 0 to 2^64-1
	TextValue                 // text
)

// Value is one value (a number or a text) of an item, that is, of a metric. It is immutable; the zero Value has kind
// None.
type Value struct {
	kind Kind
	bits uint64 // float: math.Float64bits; unsigned: the integer
	text string
}

// FromFloat converts a float to an item value of kind float.
func FromFloat(f float64) Value { return Value{kind: FloatValue, bits: math.Float64bits(f)} }

// FromUnsigned converts an unsigned integer to an item value of kind unsigned.
func FromUnsigned(n uint64) Value { return Value{kind: UnsignedValue, bits: n} }

// FromText converts a text to an item value of kind text.
func FromText(s string) Value { return Value{kind: TextValue, text: s} }

// Kind says how the value is stored, as float, unsigned integer or text.
func (v Value) Kind() Kind { return v.kind }

// Float returns a numeric item value as a float, and NaN for a text value. Integers over 2^53 are rounded.
func (v Value) Float() float64 {
	switch v.kind {
	case FloatValue:
		return math.Float64frombits(v.bits)
	case UnsignedValue:
		return float64(v.bits)
	}
	return math.NaN()
}

// Unsigned returns the number of an unsigned value, and 0 for a float or text.
func (v Value) Unsigned() uint64 {
	if v.kind == UnsignedValue {
		return v.bits
	}
	return 0
}

// String returns the value as text. Integers are decimal; floats have the shortest form that parses to the same
// number.
func (v Value) String() string {
	switch v.kind {
	case FloatValue:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case UnsignedValue:
		return strconv.FormatUint(v.bits, 10)
	}
	return v.text
}

// Sample is one value of an item (a metric) with its time.
type Sample struct {
	At    int64 // time of the value, in nanoseconds since 1970
	Value Value
}

// typeNames has the names of the types in resources, by Type.
var typeNames = [...]string{"float", "unsigned", "text", "log", "boolean"}

// String returns the name of the item's value type, as written in resource files, such as float.
func (t Type) String() string { return typeNames[t] }

// ParseType returns an item's value type by its name, such as float.
func ParseType(name string) (Type, bool) {
	i := slices.Index(typeNames[:], name)
	return Type(max(i, 0)), i >= 0
}
