package item

import (
	"math"
	"testing"
)

// FuzzParseType parses random texts as types, and expects only the names of types to be accepted
func FuzzParseType(f *testing.F) {
	for _, name := range typeNames {
		f.Add(name)
	}
	f.Add("number")
	f.Fuzz(func(t *testing.T, name string) {
		if typ, ok := ParseType(name); ok && typ.String() != name {
			t.Fatalf("%q is %v", name, typ)
		}
	})
}

// TestValues converts values of each kind to numbers and text, and expects the right results.
func TestValues(t *testing.T) {
	for _, c := range []struct {
		value Value
		kind  Kind
		float float64
		text  string
	}{
		{FromFloat(1.5), FloatValue, 1.5, "1.5"},
		{FromFloat(math.Inf(1)), FloatValue, math.Inf(1), "+Inf"},
		{FromUnsigned(math.MaxUint64), UnsignedValue, 1 << 64, "18446744073709551615"},
	} {
		if v := c.value; v.Kind() != c.kind || v.Float() != c.float || v.String() != c.text {
			t.Errorf("%+v: %v %v %q", c, v.Kind(), v.Float(), v.String())
		}
	}
	if v := FromText("a"); v.Kind() != TextValue || !math.IsNaN(v.Float()) || v.Unsigned() != 0 || v.String() != "a" || (Value{}).Kind() != None {
		t.Errorf("text: %+v", v)
	}
}
