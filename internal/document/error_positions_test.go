package document

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// innerTestItem is a struct that testItem contains, for tests of decoding. The struct testItem embeds inner.
type innerTestItem struct {
	Sum   int        `json:"sum"`
	Items []testItem `json:"items,omitempty"`
}

// testItem is a struct with fields of many types, into which tests decode documents.
type testItem struct {
	innerTestItem
	Name string         `json:"name"`
	Wait model.Duration `json:"wait,omitempty"`
	Seed uint64         `json:"seed,omitempty"`
}

// TestDecodeReportsAllFlaws decodes documents with several errors, and expects all errors in file order. Errors that
// only follow from another error are left out.
func TestDecodeReportsAllFlaws(t *testing.T) {
	check := func(v *innerTestItem) func(func(string) bool) model.Flaws {
		return func(written func(string) bool) (list model.Flaws) {
			for i, it := range v.Items {
				at := "items[" + string(rune('0'+i)) + "]"
				if it.Name == "" {
					list = append(list, &model.Flaw{Field: at + ".name", Text: "missing", Absent: true})
				}
				if it.Wait > model.Duration(1e9) {
					list = append(list, &model.Flaw{Field: at + ".wait", Text: "too long"})
				}
				if it.Wait == 0 && written(at+".wait") {
					list = append(list, &model.Flaw{Field: at + ".wait", Text: "no time"})
				}
			}
			return list
		}
	}
	for text, want := range map[string]string{
		"items:\n  - {name: a, sum: 3, wait: 1s, seed: 18446744073709551615}": "",
		"items:\n  - {name: a, wait: 5s}\n  - {wait: 1}":                      "f:2:15: items[0].wait: too long|f:3:12: items[1].wait: duration \"1\" has no unit: write 1s for seconds, 1m for minutes",
		"items: [{name: a, wait: 0s}]":                                        "f:1:19: items[0].wait: no time",
		"items:\n  - {sum: 1}":                                                "f:2:5: items[0].name: missing",
		"items:\n  - {name: a, smu: 1}":                                       "f:2:15: items[0].smu: unknown field; did you mean sum?",
		"wait: 1s":                                                            "f:1:1: wait: unknown field; it belongs to items",
		"sum: 1\n---\nsum: 2":                                                 "f:3:1: expected one document, got a second; put it into a file of its own",
		"items: [{name: a, seed: -1}]":                                        "f:1:25: items[0].seed: expected a whole number from 0 to 18446744073709551615, got -1",
		"- a":                                                                 "f:1:1: expected a mapping, got a list",
		`{"items": [{"name": "a", "wait": "2s"}]}`:                            "f:1:26: items[0].wait: too long",
		"items:\n  - &a {name: a, wait: 2s}\n  - *a":                          "f:2:18: items[0].wait: too long|f:2:18: items[1].wait: too long",
	} {
		var v innerTestItem
		err := Decode("f", []byte(text), &v, check(&v))
		got := ""
		if err != nil {
			got = strings.ReplaceAll(err.Error(), "\n", "|")
		}
		if got != want || err != nil && model.ClassOf(err) != model.Invalid {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
	var v innerTestItem
	if err := Decode("f", []byte("items: [{name: a, sum: 3}]"), &v, check(&v)); err != nil || !reflect.DeepEqual(v.Items, []testItem{{innerTestItem: innerTestItem{Sum: 3}, Name: "a"}}) {
		t.Errorf("%+v %v", v, err)
	}
}

// FuzzDecode decodes random bytes as a document and expects a value or an error of class Invalid
func FuzzDecode(f *testing.F) {
	f.Add([]byte("items:\n  - {name: a, sum: 3, wait: 1s, seed: 7}"))
	f.Add([]byte(`{"items": [{"items": [{"wait": 5}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var v innerTestItem
		err := Decode("f", data, &v, func(func(string) bool) model.Flaws { return nil })
		var flaws model.Flaws
		if err != nil && (model.ClassOf(err) != model.Invalid || !errors.As(err, &flaws)) {
			t.Fatal(err)
		}
	})
}

// TestSyntaxErrors parses invalid YAML and expects the position of the error and a hint
func TestSyntaxErrors(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"tab":               {"kind: Check\nspec:\n\tinterval: 30s\n", "f.yaml:3:1: not YAML: this line is indented with a TAB; indent with spaces"},
		"tab behind spaces": {"kind: Check\nspec:\n  interval: 30s\n \tcommand: date\n", "f.yaml:4:2: not YAML: this line is indented with a TAB; indent with spaces"},
		"tab, second":       {"kind: Check\n---\nkind: Check\nspec:\n\tinterval: 30s\n", "f.yaml:5:1: not YAML: this line is indented with a TAB; indent with spaces"},
		"special":           {"kind: @x\n", "f.yaml:1:7: not YAML: found character that cannot start any token; quote text that begins with a special character"},
		"open quote":        {"kind: Check\nspec:\n  command: \"date\n  interval: 30s\n", "f.yaml:3:12: not YAML: the quote that begins here has no end; add the missing quote"},
		"open bracket":      {"kind: Check\nspec: {command: date\ninterval: 30s\n", "f.yaml:3:9: not YAML: did not find expected ',' or '}'; check quotes"},
		"program":           {"kind: Check\nx: \x7fELF\x02\n", "f.yaml:2:4: not text: "},
		"latin-1":           {"kind: Check\nmetadata: {displayName: M\xfcnchen}\n", "f.yaml:2:26: not text: "},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReader("f.yaml")
			r.Documents([]byte(c.text))
			err := r.Flaws.Err()
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}
