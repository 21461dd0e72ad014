package document

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Decoder decodes one parsed YAML or JSON document into Go structs, and records errors with their places. It
// records the line and column of each field.
type Decoder struct {
	*Reader
	// UnknownFieldHint returns a hint for an unknown field of the document itself, or with spec of its spec,
	// which has these fields. Empty: no hint. May be nil.
	UnknownFieldHint func(word string, spec bool, fields []string) string

	places map[string]place
	skip   []string     // keys of the outermost mapping that another Fields call decodes
	root   reflect.Type // spec or document, for hints to the right place of a field
	base   string       // field of root; empty: the document
}

// Decoder returns a decoder for one parsed document of the file.
func (r *Reader) Decoder(t *Tree) *Decoder {
	return &Decoder{Reader: r, places: map[string]place{"": t.place}}
}

// Fields decodes a mapping, without the listed fields, into the struct to which v points.
func (d *Decoder) Fields(t *Tree, v any, except ...string) {
	d.skip = except
	d.decodeValue(t, reflect.ValueOf(v).Elem(), "")
	d.skip = nil
}

// Field decodes one field of a mapping into the struct to which v points. It does nothing if the field is absent.
// Hints for unknown fields within name fields of that struct.
func (d *Decoder) Field(t *Tree, name string, v any) {
	value := reflect.ValueOf(v).Elem()
	d.root, d.base = value.Type(), name
	for _, k := range t.keys {
		if k.name == name {
			d.places[name] = k.place
			d.decodeValue(k.value, value, name)
		}
	}
}

// FieldPlaces returns the line and column of each decoded field, for later errors about the field. Later errors
// about a field can point to this place.
func (d *Decoder) FieldPlaces(from int) FieldPlaces {
	w := FieldPlaces{File: d.file, places: d.places}
	for _, f := range d.Flaws[min(from, len(d.Flaws)):] {
		w.flawed = append(w.flawed, f.Field)
	}
	return w
}

// AddFlawAt records an error about a decoded field, with the field's line and column.
func (d *Decoder) AddFlawAt(field, hint, format string, args ...any) {
	d.recordFlaw(d.places[field], field, hint, format, args...)
}

var (
	commandType = reflect.TypeFor[model.Command]()
	rawType     = reflect.TypeFor[json.RawMessage]()
	secretType  = reflect.TypeFor[model.Secret]()
)

// decodeValue decodes one parsed value (text, list or mapping) into a Go value. After an error it continues.
func (d *Decoder) decodeValue(t *Tree, v reflect.Value, field string) {
	if t.kind == null || d.Full() {
		return // as if left out
	}
	switch {
	case v.Type() == rawType:
		v.SetBytes(t.AppendJSON(nil))
		return
	case v.Type() == commandType:
		d.decodeCommand(t, v.Addr().Interface().(*model.Command), field)
		return
	}
	if self, ok := v.Addr().Interface().(json.Unmarshaler); ok {
		if err := self.UnmarshalJSON(t.AppendJSON(nil)); err != nil {
			d.recordFlaw(t.place, field, "", "%v", err)
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.decodeValue(t, v.Elem(), field)
	case reflect.Struct:
		if d.requireType(t, mapping, field) {
			d.decodeStruct(t, v, field)
		}
	case reflect.Map:
		if d.requireType(t, mapping, field) {
			d.decodeMap(t, v, field)
		}
	case reflect.Slice:
		if d.requireType(t, list, field) {
			d.decodeList(t, v, field)
		}
	case reflect.String:
		if d.requireType(t, text, field) {
			v.SetString(t.text)
		}
	case reflect.Bool:
		if d.requireType(t, boolean, field) {
			v.SetBool(t.text == "true")
		}
	case reflect.Int:
		if d.requireType(t, number, field) {
			n, err := strconv.ParseInt(t.text, 10, 64)
			if err != nil || v.OverflowInt(n) {
				d.recordFlaw(t.place, field, "", "expected a whole number, got %s", t.text)
				return
			}
			v.SetInt(n)
		}
	case reflect.Uint64:
		if d.requireType(t, number, field) {
			n, err := strconv.ParseUint(t.text, 10, 64)
			if err != nil {
				d.recordFlaw(t.place, field, "", "expected a whole number from 0 to %d, got %s", uint64(math.MaxUint64), t.text)
			}
			v.SetUint(n)
		}
	case reflect.Float64:
		if d.requireType(t, number, field) {
			f, err := strconv.ParseFloat(t.text, 64)
			if err != nil {
				d.recordFlaw(t.place, field, "", "%s is too large", t.text)
			}
			v.SetFloat(f)
		}
	default:
		panic(fmt.Sprintf("BUG: cannot decode %s (%s)", v.Type(), field))
	}
}

// requireType reports whether a parsed value has the expected type, and records an error if not. If not, it
// records an error with a hint.
func (d *Decoder) requireType(t *Tree, kind valueType, field string) bool {
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
	d.recordFlaw(t.place, field, hint, "expected %s, got %s", kind, t.kind)
	return false
}

// decodeCommand decodes the command line of a check or handler from a text or a list. A command is a text for the
// shell or a list of arguments.
func (d *Decoder) decodeCommand(t *Tree, c *model.Command, field string) {
	switch t.kind {
	case text:
		c.Shell = t.text
	case list:
		c.Argv = make([]string, 0, len(t.items))
		d.decodeList(t, reflect.ValueOf(&c.Argv).Elem(), field)
	default:
		d.recordFlaw(t.place, field, "", "expected text (run by the shell) or a list (run without a shell), got %s", t.kind)
	}
}

// decodeList decodes a list into a slice.
func (d *Decoder) decodeList(t *Tree, v reflect.Value, field string) {
	v.Set(reflect.MakeSlice(v.Type(), len(t.items), len(t.items)))
	for i, item := range t.items {
		if d.Full() {
			return
		}
		name := fmt.Sprintf("%s[%d]", field, i)
		d.places[name] = item.place
		if item.kind == null {
			d.recordFlaw(item.place, name, "", "empty")
			continue
		}
		d.decodeValue(item, v.Index(i), name)
	}
}

// decodeMap decodes a mapping into a Go map.
func (d *Decoder) decodeMap(t *Tree, v reflect.Value, field string) {
	v.Set(reflect.MakeMapWithSize(v.Type(), len(t.keys)))
	for _, k := range t.keys {
		if d.Full() {
			return
		}
		name := field + "." + k.name
		d.places[name] = k.place
		value := reflect.New(v.Type().Elem()).Elem()
		switch {
		case k.value.kind == null && v.Type().Elem() == rawType:
			value.SetBytes([]byte("null"))
		case k.value.kind == null:
			d.recordFlaw(k.place, name, `write "" for an empty text`, "empty")
		default:
			d.decodeValue(k.value, value, name)
		}
		v.SetMapIndex(reflect.ValueOf(k.name), value)
	}
}

// decodeStruct decodes a mapping into a struct, each key into the field with the same JSON name. An unknown key
// is an error.
func (d *Decoder) decodeStruct(t *Tree, v reflect.Value, field string) {
	fields := d.structFields(v.Type())
	for _, k := range t.keys {
		if d.Full() {
			return
		}
		name := k.name
		if field != "" {
			name = field + "." + k.name
		} else if slices.Contains(d.skip, k.name) {
			continue
		}
		d.places[name] = k.place
		if i := fieldNamed(fields, k.name); i >= 0 {
			d.decodeValue(k.value, v.FieldByIndex(fields[i].Index), name)
			continue
		}
		d.recordFlaw(k.place, name, d.spellingHint(v.Type(), k.name, field), "unknown field")
	}
}

// structFields returns the fields of a struct type and of its embedded structs, cached for each type.
// Reflection allocates each field, so the reader lists the fields of a type once.
func (r *Reader) structFields(t reflect.Type) []reflect.StructField {
	fields, known := r.fields[t]
	if !known {
		if r.fields == nil {
			r.fields = map[reflect.Type][]reflect.StructField{}
		}
		fields = reflect.VisibleFields(t)
		r.fields[t] = fields
	}
	return fields
}

// fieldNamed returns the index of the struct field with exactly the given JSON name, or -1 without one. It
// returns -1 if no field has the name.
func fieldNamed(fields []reflect.StructField, name string) int {
	return slices.IndexFunc(fields, func(f reflect.StructField) bool { return !f.Anonymous && JSONName(f) == name })
}

// JSONName returns the name of a struct field in JSON and YAML.
func JSONName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// fieldNames returns the JSON names of all fields of a struct. Fields of embedded structs are included.
func fieldNames(t reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(t) {
		if !f.Anonymous {
			names = append(names, JSONName(f))
		}
	}
	return names
}
