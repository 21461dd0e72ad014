package prep

import (
	"testing"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// TestValueMap converts values to texts by each type of mapping, and expects the text of the first match. The
// default comes last.
func TestValueMap(t *testing.T) {
	m, err := CompileValueMap(&model.ValueMap{Mappings: []model.ValueMapping{
		{Type: "default", Text: "other"}, {Value: "1", Text: "up"}, {Value: "down", Text: "not up"}, {Type: "inRange", Value: "2-4, -3--1,7", Text: "some"},
		{Type: "greaterOrEqual", Value: "100", Text: "many"}, {Type: "lessOrEqual", Value: "-100", Text: "few"}, {Type: "regexp", Value: "^ERR(?!OR)", Text: "broken"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		value item.Value
		want  string
	}{
		{item.FromUnsigned(1), "up"}, {item.FromFloat(1), "up"}, {item.FromText("1"), "up"}, {item.FromText("1.0"), "other"}, {item.FromText("down"), "not up"},
		{item.FromFloat(-2.5), "some"}, {item.FromFloat(4), "some"}, {item.FromFloat(4.5), "other"}, {item.FromUnsigned(7), "some"}, {item.FromUnsigned(100), "many"},
		{item.FromFloat(-1e9), "few"}, {item.FromText("ERR 5"), "broken"}, {item.FromText("ERROR"), "other"},
	} {
		if got, ok := m.Text(one.value); got != one.want || !ok {
			t.Errorf("%v: got %q, want %q", one.value, got, one.want)
		}
	}
	if _, ok := m.Text(item.Value{}); ok {
		t.Error("a missing value has a text")
	}
}

// TestValueMapRefusesMappings compiles invalid value maps and expects an error for each.
func TestValueMapRefusesMappings(t *testing.T) {
	for want, m := range map[string]model.ValueMapping{
		`value mapping 1: mapping type greaterOrEqual needs a number, got "x"`:                                               {Type: "greaterOrEqual", Value: "x"},
		`value mapping 1: expected ranges of numbers such as 1-5,8, got "5-1"`:                                               {Type: "inRange", Value: "5-1"},
		`value mapping 1: expected ranges of numbers such as 1-5,8, got "1-2-3"`:                                             {Type: "inRange", Value: "1-2-3"},
		`value mapping 1: unknown mapping type "like"; write equal, greaterOrEqual, lessOrEqual, inRange, regexp or default`: {Type: "like"},
	} {
		if _, err := CompileValueMap(&model.ValueMap{Mappings: []model.ValueMapping{m}}); err == nil || err.Error() != want {
			t.Errorf("%+v: got %v, want %s", m, err, want)
		}
	}
	if _, err := CompileValueMap(&model.ValueMap{Mappings: []model.ValueMapping{{Type: "default"}, {Type: "default"}}}); err == nil {
		t.Error("two defaults are accepted")
	}
}

// FuzzValueMap compiles random value mappings, converts random values to texts, and expects no panic.
func FuzzValueMap(f *testing.F) {
	f.Add("inRange", "1-5,-3--1", "x", 2.0)
	f.Add("regexp", "^a(?=b)", "ab", 0.0)
	f.Fuzz(func(t *testing.T, typ, value, text string, number float64) {
		m, err := CompileValueMap(&model.ValueMap{Mappings: []model.ValueMapping{{Type: typ, Value: value, Text: "T"}}})
		if err != nil {
			return
		}
		for _, v := range []item.Value{item.FromText(text), item.FromFloat(number), item.FromUnsigned(7)} {
			if got, ok := m.Text(v); ok != (got == "T") {
				t.Fatalf("%q %v", got, ok)
			}
		}
	})
}
