package model

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// DecodeResources reads what a person wrote: YAML of many documents, or JSON. It is
// strict: an unknown field, a wrong type, a duration without unit are errors with
// file, line and what to write, and all of them are found at once. The error's cause
// is the Flaws; resources without a flaw of form are returned beside it. A status is
// ignored, so that what `get` prints can be applied; a namespace that is left out stays
// empty (see Defaults).
func DecodeResources(file string, data []byte) ([]Located, error) {
	list, flaws := decodeAll(file, data)
	list = slices.DeleteFunc(list, func(l Located) bool { return len(l.flawed) > 0 })
	return list, flaws.Err()
}

// decodeAll returns also what could be read of resources with a flaw of form.
func decodeAll(file string, data []byte) ([]Located, Flaws) {
	r := &reader{file: file}
	var out []Located
	for _, doc := range r.documents(data) {
		switch doc.kind {
		case null: // an empty document
		case list:
			for _, item := range doc.items {
				if r.full() {
					break
				}
				out = r.resource(out, item)
			}
		default:
			out = r.resource(out, doc)
		}
	}
	return out, r.flaws
}

func (r *reader) resource(out []Located, t *tree) []Located {
	before := len(r.flaws)
	if t.kind != mapping {
		r.flaw(t.place, "", "", "want a resource (apiVersion, kind, metadata, spec), not %s", t.kind)
		return out
	}
	d := decoder{reader: r, places: map[string]place{"": t.place}}
	var envelope struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Metadata   Metadata `json:"metadata"`
	}
	info := d.kind(t)
	d.skip = []string{"spec", "status"}
	d.into(t, reflect.ValueOf(&envelope).Elem(), "")
	d.skip = nil
	if envelope.APIVersion != "" && envelope.APIVersion != APIVersion {
		d.flaw(d.places["apiVersion"], "apiVersion", "write "+APIVersion, "%q is not known", envelope.APIVersion)
	}
	if t.get("metadata") == nil {
		d.flaw(t.place, "metadata", "write metadata: {name: …}", "missing")
	}
	if info == nil {
		return out
	}
	spec := info.New()
	d.root, d.base = reflect.TypeOf(spec).Elem(), "spec"
	for _, k := range t.keys {
		if k.name == "spec" {
			d.places["spec"] = k.place
			d.into(k.value, reflect.ValueOf(spec).Elem(), "spec")
		}
	}
	located := Located{Resource{APIVersion: APIVersion, Kind: info.Name, Metadata: envelope.Metadata, Spec: spec}, written{r.file, d.places, nil}}
	for _, f := range r.flaws[before:] {
		located.flawed = append(located.flawed, f.Field)
	}
	return append(out, located)
}

// kind finds what the document is, or is meant to be; nil: nobody knows.
func (d *decoder) kind(t *tree) *KindInfo {
	word := t.get("kind")
	if word == nil || word.kind == null {
		d.flaw(t.place, "kind", "one of "+strings.Join(kindNames(), ", "), "missing")
		return nil
	}
	for _, k := range kinds {
		if k.Name == word.text {
			return &k
		}
	}
	hint := "one of " + strings.Join(kindNames(), ", ")
	meant, ok := KindOf(word.text)
	if ok {
		hint = "write " + meant.Name
	} else if near := Nearest(word.text, kindNames()); near != "" {
		hint = "did you mean " + near + "?"
		meant, ok = KindOf(near)
	}
	d.flaw(word.place, "kind", hint, "there is no kind %q", word.text)
	if !ok {
		return nil
	}
	return &meant
}

// decoder fills Go values from trees and remembers where each field stands.
type decoder struct {
	*reader
	places map[string]place
	skip   []string     // keys of the outermost mapping that are read elsewhere
	root   reflect.Type // of the spec or document, for hints where a field belongs
	base   string       // the field that root is; empty: the document itself
}

var (
	commandType = reflect.TypeFor[Command]()
	rawType     = reflect.TypeFor[json.RawMessage]()
	secretType  = reflect.TypeFor[Secret]()
	timeType    = reflect.TypeFor[Time]()
)

// into decodes t into v. It goes on after a flaw.
func (d *decoder) into(t *tree, v reflect.Value, field string) {
	if t.kind == null || d.full() {
		return // as if left out
	}
	switch {
	case v.Type() == rawType:
		v.SetBytes(t.appendJSON(nil))
		return
	case v.Type() == commandType:
		d.command(t, v.Addr().Interface().(*Command), field)
		return
	}
	if self, ok := v.Addr().Interface().(json.Unmarshaler); ok {
		if err := self.UnmarshalJSON(t.appendJSON(nil)); err != nil {
			d.flaw(t.place, field, "", "%v", err)
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.into(t, v.Elem(), field)
	case reflect.Struct:
		if d.want(t, mapping, field) {
			d.fields(t, v, field)
		}
	case reflect.Map:
		if d.want(t, mapping, field) {
			d.entries(t, v, field)
		}
	case reflect.Slice:
		if d.want(t, list, field) {
			d.elements(t, v, field)
		}
	case reflect.String:
		if d.want(t, text, field) {
			v.SetString(t.text)
		}
	case reflect.Bool:
		if d.want(t, boolean, field) {
			v.SetBool(t.text == "true")
		}
	case reflect.Int:
		d.integer(t, v, field)
	case reflect.Uint64:
		if d.want(t, number, field) {
			n, err := strconv.ParseUint(t.text, 10, 64)
			if err != nil {
				d.flaw(t.place, field, "", "want a whole number from 0 to %d, not %s", uint64(math.MaxUint64), t.text)
			}
			v.SetUint(n)
		}
	case reflect.Float64:
		if d.want(t, number, field) {
			f, err := strconv.ParseFloat(t.text, 64)
			if err != nil {
				d.flaw(t.place, field, "", "%s is too large", t.text)
			}
			v.SetFloat(f)
		}
	default:
		panic(fmt.Sprintf("BUG: no way to decode %s (%s)", v.Type(), field))
	}
}

// want says whether the tree is of the kind wanted, or what to write instead.
func (d *decoder) want(t *tree, kind treeKind, field string) bool {
	if t.kind == kind {
		return true
	}
	hint := ""
	switch {
	case kind == text && (t.kind == number || t.kind == boolean):
		hint = "quote it: " + strconv.Quote(t.text)
	case kind == list && t.kind == text:
		hint = "write [" + t.text + "]"
	case kind == boolean && t.kind == text, kind == number && t.kind == text:
		hint = "without quotes"
	}
	d.flaw(t.place, field, hint, "want %s, not %s", kind, t.kind)
	return false
}

func (d *decoder) integer(t *tree, v reflect.Value, field string) {
	if !d.want(t, number, field) {
		return
	}
	n, err := strconv.ParseInt(t.text, 10, 64)
	if err != nil || v.OverflowInt(n) {
		d.flaw(t.place, field, "", "want a whole number, not %s", t.text)
		return
	}
	v.SetInt(n)
}

func (d *decoder) command(t *tree, c *Command, field string) {
	switch t.kind {
	case text:
		c.Shell = t.text
	case list:
		c.Argv = make([]string, 0, len(t.items))
		d.elements(t, reflect.ValueOf(&c.Argv).Elem(), field)
	default:
		d.flaw(t.place, field, "", "want text (run by the shell) or a list (run without one), not %s", t.kind)
	}
}

func (d *decoder) elements(t *tree, v reflect.Value, field string) {
	v.Set(reflect.MakeSlice(v.Type(), len(t.items), len(t.items)))
	for i, item := range t.items {
		if d.full() {
			return
		}
		name := fmt.Sprintf("%s[%d]", field, i)
		d.places[name] = item.place
		if item.kind == null {
			d.flaw(item.place, name, "", "empty")
			continue
		}
		d.into(item, v.Index(i), name)
	}
}

func (d *decoder) entries(t *tree, v reflect.Value, field string) {
	v.Set(reflect.MakeMapWithSize(v.Type(), len(t.keys)))
	for _, k := range t.keys {
		if d.full() {
			return
		}
		name := field + "." + k.name
		d.places[name] = k.place
		value := reflect.New(v.Type().Elem()).Elem()
		switch {
		case k.value.kind == null && v.Type().Elem() == rawType:
			value.SetBytes([]byte("null"))
		case k.value.kind == null:
			d.flaw(k.place, name, `write "" for an empty text`, "empty")
		default:
			d.into(k.value, value, name)
		}
		v.SetMapIndex(reflect.ValueOf(k.name), value)
	}
}

func (d *decoder) fields(t *tree, v reflect.Value, field string) {
	for _, k := range t.keys {
		if d.full() {
			return
		}
		name := k.name
		if field != "" {
			name = field + "." + k.name
		} else if slices.Contains(d.skip, k.name) {
			continue
		}
		d.places[name] = k.place
		if i, ok := fieldOf(v.Type(), k.name); ok {
			d.into(k.value, v.FieldByIndex(i), name)
			continue
		}
		d.flaw(k.place, name, d.rightName(v.Type(), k.name, field), "unknown field")
	}
}

// fieldOf finds a field by its name in JSON, exactly. Those of an embedded struct are
// fields of what embeds it.
func fieldOf(t reflect.Type, name string) ([]int, bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			if inner, ok := fieldOf(f.Type, name); ok {
				return append([]int{i}, inner...), true
			}
		} else if jsonName(f) == name {
			return []int{i}, true
		}
	}
	return nil, false
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func fieldNames(t reflect.Type) []string {
	names := make([]string, 0, t.NumField())
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous {
			names = append(names, fieldNames(f.Type)...)
		} else {
			names = append(names, jsonName(f))
		}
	}
	return names
}
