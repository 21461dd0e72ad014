package plan

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/where"
)

// What a selector selects is stable, and the index agrees with the labels.
func FuzzParseSelector(f *testing.F) {
	for _, text := range []string{"", "env=prod", "a!=b,c", "os in (linux, bsd)", "x notin (1)", "!old", "a==b", "(", "a in ()", ",,", "=,!"} {
		f.Add(text)
	}
	labels := map[string]string{"env": "prod", "os": "linux", "a": ""}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := directory.ParseSelector(text)
		if err != nil {
			return
		}
		g := newFleet(&gids{})
		g.define(&pass{nodes: g.all.Clone()}, edit{new: &nodeDef{ref: ref{"default", "n"}, id: 5, labels: where.MakePairs(labels)}})
		if got, want := g.matching(g.all.Clone(), s).Contains(5), s.Matches(labels); got != want {
			t.Errorf("%q: index %v, labels %v", text, got, want)
		}
	})
}

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
