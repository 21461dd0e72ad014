package plan

import (
	"encoding/json"
	"strings"
	"testing"
)

// Merged values are JSON, in one spelling whatever the order of the sources.
func FuzzResolve(f *testing.F) {
	for _, v := range []string{`1`, `{"a":1}`, `{"a":{"b":2}}`, `[]`, `null`, ` {"a" : "x"} `, `{"a":1,"a":2}`, strings.Repeat(`{"a":`, 40) + `1` + strings.Repeat(`}`, 40)} {
		f.Add(v, `{"a":2}`, `{"c":true}`)
	}
	f.Fuzz(func(t *testing.T, a, b, c string) {
		for _, v := range []string{a, b, c} {
			if !json.Valid([]byte(v)) {
				return
			}
		}
		x, y, z := source{json.RawMessage(a), "a"}, source{json.RawMessage(b), "b"}, source{json.RawMessage(c), "c"}
		one := resolve("p", [][]source{{z}, {x, y}})
		two := resolve("p", [][]source{{z}, {y, x}})
		if one.Error != two.Error || string(one.Value) != string(two.Value) {
			t.Errorf("order matters: %s %q, %s %q", one.Value, one.Error, two.Value, two.Error)
		}
		if one.Error == "" && !json.Valid(one.Value) {
			t.Errorf("not JSON: %q", one.Value)
		}
	})
}
