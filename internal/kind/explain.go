package kind

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/model"
)

// Explanation is the documentation of a kind or a field, including its inner fields.
type Explanation struct {
	Path    string        `json:"path"` // check.spec.alert
	Type    string        `json:"type"` // for people: text, duration, list of text, …
	Text    string        `json:"text"`
	Must    bool          `json:"must,omitempty"`    // required
	Example string        `json:"example,omitempty"` // YAML, of a whole kind
	Fields  []Explanation `json:"fields,omitempty"`
}

// Explain returns the explanation of a kind or one of its fields. An example is Explain("check", "spec.alert"). An
// empty path means the whole kind; "alert" is short for spec.alert. The text comes from the comments of the Go types.
func (r *Registry) Explain(kind, path string) (*Explanation, error) {
	k := r.findKind(kind)
	if k == nil {
		return nil, r.UnknownKindError(kind)
	}
	whole := r.parseSpecComments().explainKind(k)
	parts := strings.FieldsFunc(path, func(c rune) bool { return c == '.' })
	at := whole
	for i, part := range parts {
		next, spec := at.findField(part), whole.findField("spec")
		if next == nil && i == 0 {
			if next = spec.findField(part); next == nil {
				return nil, spec.unknownFieldError(part)
			}
		}
		if next == nil {
			return nil, at.unknownFieldError(part)
		}
		at = next
	}
	return at, nil
}

// indefinite returns a name with its article, such as A Check or An Asset.
func indefinite(name string) string {
	if strings.ContainsAny(name[:1], "AEIO") {
		return "An " + name
	}
	return "A " + name
}

// findField returns the inner field with the given name, ignoring upper and lower case, or nil.
func (e *Explanation) findField(name string) *Explanation {
	for i := range e.Fields {
		if strings.EqualFold(e.Fields[i].Name(), name) {
			return &e.Fields[i]
		}
	}
	return nil
}

// unknownFieldError returns the error about an unknown field, with the nearest field as a hint.
func (e *Explanation) unknownFieldError(name string) error {
	err := model.Errorf(model.NotFound, "%s has no field %q", e.Path, name)
	names := make([]string, len(e.Fields))
	for i := range e.Fields {
		names[i] = e.Fields[i].Name()
	}
	if near := model.Nearest(name, names); near != "" {
		return err.WithHint("did you mean %s?", near)
	}
	if len(names) > 0 {
		err = err.WithHint("its fields: %s", strings.Join(names, ", "))
	}
	return err
}

// Name returns the last part of the explained field's path, such as interval of spec.interval.
func (e *Explanation) Name() string { return e.Path[strings.LastIndexByte(e.Path, '.')+1:] }

// explainKind returns the explanation of a kind and all its fields.
func (c sourceComments) explainKind(k *Kind) *Explanation {
	spec := reflect.TypeOf(k.New()).Elem()
	root := strings.ToLower(k.Name)
	e := &Explanation{Path: root, Type: "resource", Text: strings.Replace(c[spec.Name()], spec.Name(), indefinite(k.Name), 1), Example: k.Example}
	e.Fields = []Explanation{
		c.explainFieldType(reflect.TypeFor[model.Metadata](), root+".metadata", nil),
		c.explainFieldType(spec, root+".spec", nil),
	}
	e.Fields[0].Text, e.Fields[0].Must = c["Metadata"], true
	e.Fields[1].Text = e.Text
	return e
}

// explainFieldType explains a field's type with its inner fields. around has the enclosing types, so that a recursive
// type ends.
func (c sourceComments) explainFieldType(t reflect.Type, path string, around []reflect.Type) Explanation {
	e := Explanation{Path: path, Type: typeNameForPeople(t)}
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice && scalars[t] == "" { // a list is explained by its elements
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || scalars[t] != "" {
		return e
	}
	if slices.Contains(around, t) {
		return e
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Tag.Get("json") == "-" {
			continue
		}
		if f.Anonymous { // its fields are fields of this one
			e.Fields = append(e.Fields, c.explainFieldType(f.Type, path, around).Fields...)
			continue
		}
		child := c.explainFieldType(f.Type, path+"."+document.JSONName(f), append(around, t))
		child.Text = c[t.Name()+"."+f.Name]
		child.Must = !strings.Contains(f.Tag.Get("json"), ",omit")
		e.Fields = append(e.Fields, child)
	}
	return e
}

// scalars names types that are written as one value.
var scalars = map[reflect.Type]string{
	reflect.TypeFor[model.Command]():        "text or list of text",
	reflect.TypeFor[model.Secret]():         "text, {secret: NAME}, {fromFile: PATH} or {fromEnv: NAME}",
	reflect.TypeFor[json.RawMessage]():      "anything",
	reflect.TypeFor[model.Duration]():       "duration (30s, 5m, 1h30m, 7d)",
	reflect.TypeFor[model.Interval]():       "duration (30s, 5m, 1h30m, 7d) or text",
	reflect.TypeFor[model.Time]():           "time (2026-12-24T18:00:00Z)",
	reflect.TypeFor[model.Size]():           "size (65536, 64KiB, 1MiB)",
	reflect.TypeFor[model.Scalar]():         "text, number, true or false",
	reflect.TypeFor[model.ParameterValue](): "text, number, true or false, or a list or mapping of them",
	reflect.TypeFor[model.Step]():           "mapping of one step's name to its parameters, and onFail",
}

// typeNameForPeople returns the YAML word for a Go type, such as text or list of text.
func typeNameForPeople(t reflect.Type) string {
	if name := scalars[t]; name != "" {
		return name
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeNameForPeople(t.Elem())
	case reflect.Struct:
		return "mapping"
	case reflect.Slice:
		return "list of " + typeNameForPeople(t.Elem())
	case reflect.Map:
		return "mapping of name to " + typeNameForPeople(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "whole number"
	case reflect.Float64:
		return "number"
	}
	return "text"
}

// sourceComments maps each spec type or its field, such as CheckSpec.Interval, to the Go comment in the source.
type sourceComments map[string]string

// parseSpecComments parses the Go source of all spec types and returns their comments, which explain the fields.
func (r *Registry) parseSpecComments() sourceComments {
	found := sourceComments{}
	files, err := model.SpecSource.ReadDir(".")
	for _, file := range files {
		var source []byte
		if source, err = model.SpecSource.ReadFile(file.Name()); err != nil {
			break
		}
		found.parseSource(string(source))
	}
	if err != nil {
		panic(fmt.Sprintf("BUG: the embedded source of resources cannot be read: %v", err))
	}
	for i := range r.kinds {
		if r.kinds[i].Source != "" {
			found.parseSource(r.kinds[i].Source)
		}
	}
	return found
}

// parseSource reads the comments of one Go source file.
func (c sourceComments) parseSource(source string) {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ParseComments)
	if err != nil {
		panic(fmt.Sprintf("BUG: the source of resources does not parse: %v", err))
	}
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.TYPE {
			continue
		}
		for _, spec := range general.Specs {
			t := spec.(*ast.TypeSpec)
			c[t.Name.Name] = firstParagraph(general.Doc.Text())
			fields, ok := t.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, f := range fields.Fields.List {
				for _, name := range f.Names {
					c[t.Name.Name+"."+name.Name] = firstParagraph(f.Doc.Text() + f.Comment.Text())
				}
			}
		}
	}
}

// firstParagraph returns the first paragraph of a Go comment, joined into one line.
func firstParagraph(text string) string {
	text, _, _ = strings.Cut(text, "\n\n")
	return strings.Join(strings.Fields(text), " ")
}
