package model

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"sync"
)

//go:generate go test . -run TestReferencePageIsUpToDate -update

// Explanation is what there is to know of a kind or of one of its fields.
type Explanation struct {
	Path   string        `json:"path"` // check.spec.alert
	Type   string        `json:"type"` // for people: text, duration, list of text, …
	Text   string        `json:"text"`
	Must   bool          `json:"must,omitempty"` // has to be written
	Fields []Explanation `json:"fields,omitempty"`
}

// Explain says what a kind, or a field of it, is: Explain("check", "spec.alert").
// An empty path means the whole kind; "alert" is enough for spec.alert. It is made of
// the comments in resource.go, routing.go and others, so that there is one place to write them.
func Explain(kind, path string) (*Explanation, error) {
	k, ok := KindOf(kind)
	if !ok {
		return nil, UnknownKind(kind)
	}
	whole := explainKind(k)
	parts := strings.FieldsFunc(path, func(c rune) bool { return c == '.' })
	at := whole
	for i, part := range parts {
		next := at.field(part)
		if next == nil && i == 0 {
			next = whole.field("spec").field(part)
		}
		if spec := whole.field("spec"); next == nil && i == 0 && spec != nil {
			return nil, spec.unknown(part)
		} else if next == nil {
			return nil, at.unknown(part)
		}
		at = next
	}
	return at, nil
}

func (e *Explanation) field(name string) *Explanation {
	for i := range e.Fields {
		if _, last, _ := cutLast(e.Fields[i].Path, '.'); strings.EqualFold(last, name) {
			return &e.Fields[i]
		}
	}
	return nil
}

func (e *Explanation) unknown(name string) error {
	err := Errorf(NotFound, "%s has no field %q", e.Path, name)
	names := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		_, names[i], _ = cutLast(f.Path, '.')
	}
	if len(names) == 0 {
		return err
	}
	if near := Nearest(name, names); near != "" {
		return err.WithHint("did you mean %s?", near)
	}
	return err.WithHint("its fields: %s", strings.Join(names, ", "))
}

func cutLast(text string, sep byte) (before, after string, found bool) {
	i := strings.LastIndexByte(text, sep)
	if i < 0 {
		return "", text, false
	}
	return text[:i], text[i+1:], true
}

func explainKind(k KindInfo) *Explanation {
	spec := reflect.TypeOf(k.New()).Elem()
	root := strings.ToLower(k.Name)
	e := &Explanation{Path: root, Type: "resource", Text: docs().kind(spec, k.Name)}
	e.Fields = []Explanation{
		explainType(reflect.TypeFor[Metadata](), root+".metadata", nil),
		explainType(spec, root+".spec", nil),
	}
	e.Fields[0].Text, e.Fields[0].Must = docs().of("Metadata", ""), true
	e.Fields[1].Text = e.Text
	return e
}

// explainType describes a type and the fields within; around are the types that lead
// to it, because targets hold targets.
func explainType(t reflect.Type, path string, around []reflect.Type) Explanation {
	e := Explanation{Path: path, Type: typeName(t)}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Slice { // what stands in a list is explained like what stands alone
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == commandType || t == secretType || t == timeType {
		return e
	}
	for _, outer := range around {
		if outer == t {
			return e
		}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Tag.Get("json") == "-" {
			continue
		}
		if f.Anonymous { // its fields are fields of this one
			e.Fields = append(e.Fields, explainType(f.Type, path, around).Fields...)
			continue
		}
		child := explainType(f.Type, path+"."+jsonName(f), append(around, t))
		child.Text = docs().of(t.Name(), f.Name)
		child.Must = !strings.Contains(f.Tag.Get("json"), ",omit")
		e.Fields = append(e.Fields, child)
	}
	return e
}

// typeName says what to write.
func typeName(t reflect.Type) string {
	switch t {
	case commandType:
		return "text or list of text"
	case secretType:
		return "text, {secret: NAME}, {fromFile: PATH} or {fromEnv: NAME}"
	case rawType:
		return "anything"
	case reflect.TypeFor[Duration]():
		return "duration (30s, 5m, 1h30m, 7d)"
	case timeType:
		return "time (2026-12-24T18:00:00Z)"
	case reflect.TypeFor[Size]():
		return "size (65536, 64KiB, 1MiB)"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.Struct:
		return "mapping"
	case reflect.Slice:
		return "list of " + typeName(t.Elem())
	case reflect.Map:
		return "mapping of name to " + typeName(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "whole number"
	case reflect.Float64:
		return "number"
	}
	return "text"
}

//go:embed resource.go
var resourceSource string

//go:embed handlerkinds.go
var handlerSource string

//go:embed routing.go
var routingSource string

//go:embed kept.go
var keptSource string

//go:embed secretkind.go
var secretSource string

//go:embed asset.go
var assetSource string

// comments holds the comments of those files by "Type" and "Type.Field".
type comments map[string]string

// docs parses them once, when first asked.
var docs = sync.OnceValue(func() comments {
	found := comments{}
	for _, source := range []string{resourceSource, handlerSource, routingSource, keptSource, secretSource, assetSource} {
		file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ParseComments)
		if err != nil {
			panic(fmt.Sprintf("BUG: the source of resources does not parse: %v", err))
		}
		found.read(file)
	}
	return found
})

func (c comments) read(file *ast.File) {
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.TYPE {
			continue
		}
		for _, spec := range general.Specs {
			t := spec.(*ast.TypeSpec)
			c[t.Name.Name] = sentence(general.Doc.Text())
			fields, ok := t.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, f := range fields.Fields.List {
				for _, name := range f.Names {
					c[t.Name.Name+"."+name.Name] = sentence(f.Doc.Text() + f.Comment.Text())
				}
			}
		}
	}
}

// sentence puts the first paragraph of a comment into one line.
func sentence(text string) string {
	text, _, _ = strings.Cut(text, "\n\n")
	return strings.Join(strings.Fields(text), " ")
}

func (c comments) of(typ, field string) string {
	if field != "" {
		typ += "." + field
	}
	return c[typ]
}

// kind is the comment of a spec, with the kind for the type's name.
func (c comments) kind(spec reflect.Type, kind string) string {
	return strings.Replace(c[spec.Name()], spec.Name(), "A "+kind, 1)
}

// ReferencePage is docs/reference/resources.md.
func ReferencePage() string {
	var b strings.Builder
	b.WriteString(`# Resources

This page is written by ` + "`make docs`" + ` from the code; ` + "`muster explain KIND`" + ` says the same.

Every resource has the same envelope: ` + "`apiVersion: " + APIVersion + "`, `kind`, `metadata`, `spec`" + `. Durations
carry a unit. Unknown fields are errors. Fields marked * have to be written.

`)
	writeFields(&b, "Metadata", explainType(reflect.TypeFor[Metadata](), "metadata", nil))
	for _, k := range kinds {
		e := explainKind(k)
		fmt.Fprintf(&b, "## %s\n\n%s\n\nOn the command line: `%s`, `%s`, `%s`.\n\n",
			k.Name, e.Text, strings.ToLower(k.Name), k.Plural, k.Short)
		writeTable(&b, e.Fields[1], e.Fields[1].Path+".")
	}
	return b.String()
}

func writeFields(b *strings.Builder, title string, e Explanation) {
	fmt.Fprintf(b, "## %s\n\n", title)
	writeTable(b, e, e.Path+".")
}

func writeTable(b *strings.Builder, e Explanation, cut string) {
	b.WriteString("| field | type | |\n|---|---|---|\n")
	writeRows(b, e, cut)
	b.WriteByte('\n')
}

func writeRows(b *strings.Builder, e Explanation, cut string) {
	escape := strings.NewReplacer("|", `\|`, "{{", "`{{", "}}", "}}`")
	for _, f := range e.Fields {
		must := ""
		if f.Must {
			must = " *"
		}
		fmt.Fprintf(b, "| `%s`%s | %s | %s |\n", strings.TrimPrefix(f.Path, cut), must, f.Type, escape.Replace(f.Text))
		writeRows(b, f, cut)
	}
}
