package screen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"k8s.io/client-go/util/jsonpath"

	"github.com/muster-fleet/muster/internal/model"
)

// jsonPathPrefix begins a format with a template: jsonpath={.items[*].metadata.name}.
const jsonPathPrefix = "jsonpath="

// newJSONPath compiles a JSONPath template like kubectl. A template without braces is a path.
func newJSONPath(template string) (*jsonpath.JSONPath, error) {
	if !strings.Contains(template, "{") {
		template = "{." + strings.TrimPrefix(template, ".") + "}"
	}
	path := jsonpath.New("output").AllowMissingKeys(true)
	if err := path.Parse(template); err != nil {
		return nil, model.Errorf(model.Invalid, "jsonpath %s: %w", template, err).WithHint("for example: -o jsonpath='{.metadata.name}', or of a list: '{.items[*].metadata.name}'")
	}
	return path, nil
}

// plainValue converts a Go value to the maps, lists, texts and numbers that JSON has.
func plainValue(v any) (plain any, err error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode output: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&plain); err != nil {
		return nil, fmt.Errorf("read output: %w", err)
	}
	return plainNumbers(plain), nil
}

// plainNumbers converts json.Number values inside a value to int64 or float64. Whole numbers become int64, and all
// others float64.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			v[name] = plainNumbers(v[name])
		}
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case json.Number:
		if whole, err := v.Int64(); err == nil {
			return whole
		}
		broken, _ := v.Float64()
		return broken
	}
	return v
}

// writeJSONPath writes the parts of a value that a JSONPath template selects. A bare list has its rows in items, as
// other lists do.
func writeJSONPath(w io.Writer, template string, v any) error {
	path, err := newJSONPath(template)
	if err != nil {
		return err
	}
	plain, err := plainValue(v)
	if err != nil {
		return err
	}
	if list, ok := plain.([]any); ok {
		plain = map[string]any{"items": list}
	}
	if err := path.Execute(w, plain); err != nil {
		return model.Errorf(model.Invalid, "jsonpath %s: %w", template, err)
	}
	return nil
}

// SortByPath sorts items by the value at a JSON path such as .metadata.name, and returns the sorted indexes.
// Items without the value come first.
func SortByPath[T any](items []T, template string) ([]int, error) {
	path, err := newJSONPath(template)
	if err != nil {
		return nil, err
	}
	keys, order, found := make([]any, len(items)), make([]int, len(items)), len(items) == 0
	for i := range items {
		order[i] = i
		plain, err := plainValue(items[i])
		if err != nil {
			return nil, err
		}
		results, err := path.FindResults(plain)
		if err == nil && len(results) > 0 && len(results[0]) > 0 {
			keys[i], found = pathValue(results[0][0]), true
		}
	}
	if !found {
		return nil, model.Errorf(model.Invalid, "--sort-by %s: no row has this field", template).WithHint("fields of a row: -o json. For example: --sort-by .metadata.name")
	}
	slices.SortStableFunc(order, func(a, b int) int { return compareValues(keys[a], keys[b]) })
	return order, nil
}

// pathValue returns the first of the values that a JSONPath template selected, as a plain Go value.
func pathValue(v reflect.Value) any {
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if !v.IsValid() {
		return nil
	}
	return v.Interface()
}

// compareValues compares two JSON values for sorting, with absent values first, then numbers, then texts.
// Absent values come first, then numbers, then all other values as text.
func compareValues(a, b any) int {
	number := func(v any) (float64, bool) {
		switch v := v.(type) {
		case int64:
			return float64(v), true
		case float64:
			return v, true
		}
		return 0, false
	}
	x, isNumber := number(a)
	y, both := number(b)
	switch {
	case a == nil || b == nil:
		return boolRank(a != nil) - boolRank(b != nil)
	case isNumber && both && x < y:
		return -1
	case isNumber && both && x > y:
		return 1
	case isNumber && both:
		return 0
	}
	return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
}

// boolRank converts true to 1 and false to 0, so that boolean values can be sorted.
func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}
