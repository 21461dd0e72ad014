package model

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// FieldReference is a field of a spec in which a resource names other resources. The struct tag ref of the field has
// the kind, and the words optional and chain; the tag "-" excludes a field with all fields in it.
type FieldReference struct {
	Kind     string // of the named resources
	Field    string // spec.alert.handlers
	Optional bool   // the resources may be missing: apply only warns
	Chain    bool   // they are of the same kind: apply refuses a chain that leads back
	value    reflect.Value
}

// EachReference calls visit for each field of a spec that names other resources. The spec may also be a part of one,
// located at a field.
func EachReference(field string, spec any, visit func(FieldReference)) {
	eachReferringField(reflect.ValueOf(spec), field, func(field string, v reflect.Value, tag string) {
		if tag != "" {
			kind, words, _ := strings.Cut(tag, ",")
			visit(FieldReference{Kind: kind, Field: field, Optional: strings.Contains(words, "optional"), Chain: strings.Contains(words, "chain"), value: v})
		}
	})
}

// EachTargets calls visit for each Targets of a spec, with its field, such as spec.targets.except.
func EachTargets(spec Spec, visit func(field string, t *Targets)) {
	eachReferringField(reflect.ValueOf(spec), "spec", func(field string, v reflect.Value, tag string) {
		if t, ok := v.Addr().Interface().(*Targets); ok && tag == "" {
			visit(field, t)
		}
	})
}

// eachReferringField calls visit for each struct in a value, and each field with the struct tag ref. Such a
// field refers to other resources.
func eachReferringField(v reflect.Value, at string, visit func(field string, v reflect.Value, tag string)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			eachReferringField(v.Elem(), at, visit)
		}
	case reflect.Slice:
		for i := 0; v.Type().Elem().Kind() == reflect.Struct && i < v.Len(); i++ {
			eachReferringField(v.Index(i), fmt.Sprintf("%s[%d]", at, i), visit)
		}
	case reflect.Struct:
		visit(at, v, "")
		for i := range v.NumField() {
			f := v.Type().Field(i)
			tag, kind := f.Tag.Get("ref"), f.Type.Kind()
			if tag == "-" || !f.IsExported() || tag == "" && kind != reflect.Pointer && kind != reflect.Slice && kind != reflect.Struct {
				continue
			}
			field := at
			if !f.Anonymous {
				field += "." + jsonName(f)
			}
			if tag != "" {
				visit(field, v.Field(i), tag)
			} else {
				eachReferringField(v.Field(i), field, visit)
			}
		}
	}
}

// Names returns the names in the field in their written form, NAME or NAMESPACE/NAME. An unset field has none.
func (f *FieldReference) Names() []string {
	if f.value.Kind() == reflect.Slice {
		return f.value.Interface().([]string)
	}
	if name := f.value.String(); name != "" {
		return []string{name}
	}
	return nil
}

// IsList reports whether the field is a list of names.
func (f *FieldReference) IsList() bool { return f.value.Kind() == reflect.Slice }

// SetNames replaces the names in the field. A field that is no list gets the last one.
func (f *FieldReference) SetNames(names []string) {
	if f.IsList() {
		f.value.Set(reflect.ValueOf(names))
	} else if len(names) > 0 {
		f.value.SetString(names[len(names)-1])
	}
}

// qualifyReferences adds the namespace to all names of other resources in a spec, which become NAMESPACE/NAME.
func qualifyReferences(spec any, namespace string) {
	EachReference("spec", spec, func(f FieldReference) {
		names := slices.Clone(f.Names())
		for i := range names {
			names[i] = QualifyRef(namespace, names[i])
		}
		f.SetNames(names)
	})
}

// NamedSecret is a field of a handler or mutator that refers to a resource of kind Secret.
type NamedSecret struct {
	Field string // path of the field with the reference
	Ref   string // the reference as written: NAME or NAMESPACE/NAME
}

// NamedSecrets returns every place in a spec that refers to a Secret.
func NamedSecrets(spec Spec) (list []NamedSecret) {
	EachReference("spec", spec, func(f FieldReference) {
		if f.Kind == "Secret" {
			for _, name := range f.Names() {
				list = append(list, NamedSecret{strings.TrimPrefix(f.Field, "spec."), name})
			}
		}
	})
	return list
}

// IsBuiltin reports whether a check, filter or mutator of the given name is built into Muster.
func IsBuiltin(kind, name string) bool {
	switch kind {
	case "Check":
		return BuiltinCheckID(name) != 0
	case "Filter":
		return IsBuiltinFilter(name)
	case "Mutator":
		return IsBuiltinMutator(name)
	}
	return false
}
