package screen

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
)

// TestJSONPath evaluates JSONPath templates and expects the results of kubectl
func TestJSONPath(t *testing.T) {
	const list = `{"items": [{"name": "b", "n": 12345678901, "x": 2.5}, {"name": "a", "n": 3, "labels": {"env": "prod"}}]}`
	for _, c := range []struct{ template, value, want string }{
		{"{.items[*].name}", list, "b a"},
		{".items[0].n", list, "12345678901"},
		{`{range .items[*]}{.name}={.n}{"\n"}{end}`, list, "b=12345678901\na=3\n"},
		{"{.items[?(@.n<10)].name}", list, "a"},
		{"{.items[1].labels}", list, `{"env":"prod"}`},
		{"{.items[*].name}", `[{"name": "alone"}]`, "alone"},
		{"{.nope}", list, ""},
	} {
		var b strings.Builder
		if err := writeJSONPath(&b, c.template, json.RawMessage(c.value)); err != nil || b.String() != c.want {
			t.Errorf("%s: %q, %v; want %q", c.template, b.String(), err, c.want)
		}
	}
	var rows []json.RawMessage
	for _, row := range []string{`{"n": 10}`, `{"n": 9.5}`, `{}`, `{"n": -1}`} {
		rows = append(rows, json.RawMessage(row))
	}
	if order, err := SortByPath(rows, ".n"); err != nil || len(order) != 4 || order[0] != 2 || order[1] != 3 || order[2] != 1 || order[3] != 0 {
		t.Errorf("order %v, %v", order, err)
	}
}

// FuzzJSONPath evaluates random JSONPath templates on random values and expects a text or an error, no crash.
func FuzzJSONPath(f *testing.F) {
	f.Add("{.items[*].name}", `{"items": [{"name": "a"}]}`)
	f.Add("{range .a}{@}{end}", `{"a": [1, 2.5, null]}`)
	f.Fuzz(func(t *testing.T, template, value string) {
		if _, err := plainValue(json.RawMessage(value)); err != nil {
			return
		}
		_ = writeJSONPath(io.Discard, template, json.RawMessage(value))
		_, _ = SortByPath([]json.RawMessage{json.RawMessage(value)}, template)
	})
}
