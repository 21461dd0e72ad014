package document

import (
	"reflect"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// rightName returns a hint for an unknown field: the right spelling, or the right place.
func (d *Decoder) rightName(t reflect.Type, word, at string) string {
	names := fieldNames(t)
	if at == "" {
		names = append(names, d.skip...)
	}
	for _, name := range names {
		if strings.EqualFold(strings.ReplaceAll(word, "_", ""), name) {
			return "did you mean " + name + "?"
		}
	}
	if d.Elsewhere != nil && d.root != nil {
		if hint := d.Elsewhere(word, true, fieldNames(d.root)); hint != "" {
			return hint
		}
	}
	if d.root != nil {
		if path := findField(d.root, word, d.base, 0); strings.Contains(path, ".") {
			return "it belongs to " + path[:strings.LastIndexByte(path, '.')]
		} else if path != "" {
			return "write it at the top level, outside of " + at
		}
	}
	if near := model.Nearest(word, names); near != "" {
		return "did you mean " + near + "?"
	}
	if d.Elsewhere != nil && at == "" && d.root == nil {
		if hint := d.Elsewhere(word, false, names); hint != "" {
			return hint
		}
	}
	return "fields here: " + strings.Join(names, ", ")
}

// findField returns the path of a field of this name in a spec, the nearest to its root; empty:
// none.
func findField(t reflect.Type, word, path string, depth int) string {
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	join := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	if t.Kind() != reflect.Struct || t == commandType || t == secretType || depth > 3 {
		return ""
	}
	if _, ok := fieldOf(t, word); ok {
		return join(word)
	}
	for i := range t.NumField() {
		if found := findField(t.Field(i).Type, word, join(jsonName(t.Field(i))), depth+1); found != "" {
			return found
		}
	}
	return ""
}

// HasField reports whether the struct that v points to has a field of this JSON name.
func HasField(v any, name string) bool {
	_, ok := fieldOf(reflect.TypeOf(v).Elem(), name)
	return ok
}
