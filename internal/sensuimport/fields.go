package sensuimport

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// fields are the values of an object by name. It remembers which were read: unread returns the others.
type fields struct {
	path   string
	values map[string]any
	read   map[string]bool
	inner  []*fields
}

func newFields(path string, v map[string]any) *fields {
	return &fields{path: path, values: v, read: map[string]bool{}}
}

// value returns a value of any type; nil: there is none.
func (f *fields) value(name string) any {
	f.read[name] = true
	return f.values[name]
}

func (f *fields) text(name string) string {
	switch v := f.value(name).(type) {
	case string:
		return v
	case nil:
	default:
		delete(f.read, name) // it has another type, and is reported
	}
	return ""
}

func (f *fields) boolean(name string) bool {
	v, ok := f.value(name).(bool)
	if !ok && f.values[name] != nil {
		delete(f.read, name)
	}
	return v
}

func (f *fields) number(name string) float64 {
	v, ok := numberOf(f.value(name))
	if !ok && f.values[name] != nil {
		delete(f.read, name)
	}
	return v
}

// whole is a number without a fraction that an int holds.
func (f *fields) integer(name string) int {
	v := f.number(name)
	if v != math.Trunc(v) || math.Abs(v) > 1<<40 {
		delete(f.read, name)
		return 0
	}
	return int(v)
}

func numberOf(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case uint64:
		return float64(v), true
	case float64:
		return v, !math.IsNaN(v) && !math.IsInf(v, 0)
	case string:
		n, err := strconv.ParseFloat(v, 64)
		return n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
	}
	return 0, false
}

// texts is a list of texts.
func (f *fields) texts(name string) (list []string) {
	items, ok := f.value(name).([]any)
	if !ok && f.values[name] != nil {
		delete(f.read, name)
	}
	for _, item := range items {
		if s, ok := item.(string); ok {
			list = append(list, s)
		} else {
			delete(f.read, name)
		}
	}
	return list
}

// labels are texts by name.
func (f *fields) labels(name string) map[string]string {
	of, ok := f.value(name).(map[string]any)
	if !ok && f.values[name] != nil {
		delete(f.read, name)
	}
	out := map[string]string{}
	for k, v := range of {
		switch v := v.(type) {
		case string:
			out[k] = v
		case nil:
		default:
			out[k] = fmt.Sprint(v)
		}
	}
	return nonEmpty(out)
}

// object returns the object of a name; empty: there is none.
func (f *fields) object(name string) *fields {
	v, ok := f.value(name).(map[string]any)
	if !ok && f.values[name] != nil {
		delete(f.read, name)
	}
	inner := newFields(strings.TrimPrefix(f.path+"."+name, "."), v)
	f.inner = append(f.inner, inner)
	return inner
}

// objects returns the objects of a list.
func (f *fields) objects(name string) (list []*fields) {
	items, ok := f.value(name).([]any)
	if !ok && f.values[name] != nil {
		delete(f.read, name)
	}
	for i, item := range items {
		if v, ok := item.(map[string]any); ok {
			inner := newFields(fmt.Sprintf("%s[%d]", strings.TrimPrefix(f.path+"."+name, "."), i), v)
			f.inner, list = append(f.inner, inner), append(list, inner)
		} else {
			delete(f.read, name)
		}
	}
	return list
}

// unread returns the names and values of fields that nobody read, without empty ones.
func (f *fields) unread() (list []string) {
	for name, v := range f.values {
		if !f.read[name] && !isEmpty(v) {
			list = append(list, strings.TrimPrefix(f.path+"."+name, ".")+": "+short(v))
		}
	}
	for _, inner := range f.inner {
		list = append(list, inner.unread()...)
	}
	slices.Sort(list)
	return list
}

// isEmpty reports whether a value is the default of its type.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case int:
		return v == 0
	case float64:
		return v == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		for _, one := range v {
			if !isEmpty(one) {
				return false
			}
		}
		return true
	}
	return false
}

func short(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if r := []rune(string(data)); len(r) > 80 {
		return string(r[:80]) + "…"
	}
	return string(data)
}
