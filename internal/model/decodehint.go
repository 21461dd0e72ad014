package model

import (
	"reflect"
	"slices"
	"strings"
)

// otherWords are what people coming from elsewhere, or from YAML 1.1, write.
var otherWords = map[string]string{
	"on":               "targets",
	"subscriptions":    "targets: {groups: […]}",
	"round_robin":      "targets",
	"check_hooks":      "command",
	"proxy_entity":     "targets: {nodes: […]}",
	"max_output_size":  "maxOutput",
	"low_flap":         "alert.failAfter",
	"entity_class":     "metadata.labels",
	"keepalive_window": "keepalive: {timeout: …}",
	"attempts":         "alert: {failAfter: …}",
	"value":            "agentFile: NAME, or another place where it is: a Secret holds no value",
}

// rightName says what to write instead of an unknown field.
func (d *decoder) rightName(t reflect.Type, word, at string) string {
	names := fieldNames(t)
	if at == "" {
		names = append(names, d.skip...)
	}
	for _, name := range names {
		if strings.EqualFold(strings.ReplaceAll(word, "_", ""), name) {
			return "did you mean " + name + "?"
		}
	}
	if other, ok := otherWords[word]; ok && d.base == "spec" && slices.Contains(fieldNames(d.root), strings.SplitN(strings.SplitN(other, ":", 2)[0], ".", 2)[0]) {
		return "write " + other
	}
	if d.root != nil {
		if path := findField(d.root, word, d.base, 0); strings.Contains(path, ".") {
			return "it belongs to " + path[:strings.LastIndexByte(path, '.')]
		} else if path != "" {
			return "it belongs to the beginning of a line, outside of " + at
		}
	}
	if near := Nearest(word, names); near != "" {
		return "did you mean " + near + "?"
	}
	if at == "" && d.root == nil {
		if _, ok := fieldOf(reflect.TypeFor[Metadata](), word); ok {
			return "it belongs to metadata"
		}
		for _, k := range kinds {
			if _, ok := fieldOf(reflect.TypeOf(k.New()).Elem(), word); ok {
				return "it belongs to spec"
			}
		}
	}
	return "fields here: " + strings.Join(names, ", ")
}

// findField looks for a field of this name anywhere in a spec, the nearest to its
// root first.
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
