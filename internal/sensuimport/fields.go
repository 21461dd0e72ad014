package sensuimport

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// fields are the values of an object by name. Those that nobody took are left at the end.
type fields struct {
	path   string
	values map[string]any
	taken  map[string]bool
	inner  []*fields
}

func newFields(path string, v map[string]any) *fields {
	return &fields{path: path, values: v, taken: map[string]bool{}}
}

// take is a value, whatever it is; nil: there is none.
func (f *fields) take(name string) any {
	f.taken[name] = true
	return f.values[name]
}

func (f *fields) text(name string) string {
	switch v := f.take(name).(type) {
	case string:
		return v
	case nil:
	default:
		delete(f.taken, name) // it is something else, and is reported
	}
	return ""
}

func (f *fields) truth(name string) bool {
	v, ok := f.take(name).(bool)
	if !ok && f.values[name] != nil {
		delete(f.taken, name)
	}
	return v
}

func (f *fields) number(name string) float64 {
	v, ok := numberOf(f.take(name))
	if !ok && f.values[name] != nil {
		delete(f.taken, name)
	}
	return v
}

// whole is a number without a fraction that an int holds.
func (f *fields) whole(name string) int {
	v := f.number(name)
	if v != math.Trunc(v) || math.Abs(v) > 1<<40 {
		delete(f.taken, name)
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
	items, ok := f.take(name).([]any)
	if !ok && f.values[name] != nil {
		delete(f.taken, name)
	}
	for _, item := range items {
		if s, ok := item.(string); ok {
			list = append(list, s)
		} else {
			delete(f.taken, name)
		}
	}
	return list
}

// labels are texts by name.
func (f *fields) labels(name string) map[string]string {
	of, ok := f.take(name).(map[string]any)
	if !ok && f.values[name] != nil {
		delete(f.taken, name)
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
	if len(out) == 0 {
		return nil
	}
	return out
}

// object is what stands below a name; empty if nothing does.
func (f *fields) object(name string) *fields {
	v, ok := f.take(name).(map[string]any)
	if !ok && f.values[name] != nil {
		delete(f.taken, name)
	}
	inner := newFields(strings.TrimPrefix(f.path+"."+name, "."), v)
	f.inner = append(f.inner, inner)
	return inner
}

// objects are those of a list.
func (f *fields) objects(name string) (list []*fields) {
	items, ok := f.take(name).([]any)
	if !ok && f.values[name] != nil {
		delete(f.taken, name)
	}
	for i, item := range items {
		if v, ok := item.(map[string]any); ok {
			inner := newFields(fmt.Sprintf("%s[%d]", strings.TrimPrefix(f.path+"."+name, "."), i), v)
			f.inner, list = append(f.inner, inner), append(list, inner)
		} else {
			delete(f.taken, name)
		}
	}
	return list
}

// left are the names and values that nobody took and that say something.
func (f *fields) left() (list []string) {
	for name, v := range f.values {
		if !f.taken[name] && !nothing(v) {
			list = append(list, strings.TrimPrefix(f.path+"."+name, ".")+": "+short(v))
		}
	}
	for _, inner := range f.inner {
		list = append(list, inner.left()...)
	}
	slices.Sort(list)
	return list
}

// nothing says whether a value is what is there when nobody wrote it.
func nothing(v any) bool {
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
			if !nothing(one) {
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
