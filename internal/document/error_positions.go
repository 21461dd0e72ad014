// Package document parses files that people write, YAML and JSON, and decodes them strictly into
// Go values. Every flaw names file, line, column and field, with a hint. JSON is parsed as YAML,
// so there is one parser with positions.
//
// In: bytes and a Go type. Out: values, model.Flaws, the place of each field (FieldPlaces). The package
// starts no goroutine and holds no lock. Start reading at Decode; internal/kind decodes resources
// with Reader and Decoder; YAML writes the other way.
package document

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/muster-fleet/muster/internal/model"
)

// Decode decodes a file with one YAML or JSON document into the value to which v points. It is strict: an
// unknown field, a wrong type, a duration without unit are flaws with file, line and a hint. check then
// validates the value and names fields as decoding does: agents[0].checks[1].ttl; its argument tells a field
// that is written (count: 0) from one that is left out. All flaws come in one Invalid error, in the order of
// the file; they are its cause.
func Decode(file string, data []byte, v any, check func(written func(field string) bool) model.Flaws) error {
	r := NewReader(file)
	docs := slices.DeleteFunc(r.Documents(data), func(t *Tree) bool { return t.kind == null })
	if len(docs) == 0 && len(r.Flaws) == 0 { // empty: check reports missing fields
		docs = append(docs, &Tree{place: place{1, 1}, kind: mapping})
	}
	switch {
	case len(docs) > 1:
		r.recordFlaw(docs[1].place, "", "put it into a file of its own", "expected one document, got a second")
	case len(docs) == 1:
		value := reflect.ValueOf(v).Elem()
		d := r.Decoder(docs[0])
		d.root = value.Type()
		d.decodeValue(docs[0], value, "")
		w := d.FieldPlaces(0)
		if !slices.Contains(w.flawed, "") && !r.Full() { // otherwise nothing of the document is decoded
			r.Flaws = append(r.Flaws, w.Place(check(w.hasField))...)
		}
	}
	SortFlaws(r.Flaws)
	return r.Flaws.Err()
}

// place is the line and column of a value in a YAML or JSON file.
type place struct{ line, column int }

// FieldPlaces has the positions (line and column) of all fields in one decoded document.
type FieldPlaces struct {
	File   string
	places map[string]place // by field: spec.alert, spec.targets.groups[1]
	flawed []string         // fields that could not be decoded
}

// Place adds the file, line and column of the field to each validation error in a list. For a missing field it
// takes the nearest field around it. It drops flaws that only follow from a field that could not be decoded.
func (w *FieldPlaces) Place(flaws model.Flaws) model.Flaws {
	flaws = slices.DeleteFunc(flaws, w.followsFromUndecodedField)
	for _, f := range flaws {
		w.Locate(f)
	}
	return flaws
}

// Locate adds the file, line and column of the field to one validation error.
func (w *FieldPlaces) Locate(f *model.Flaw) *model.Flaw {
	at := w.nearestPlace(f.Field)
	f.File, f.Line, f.Column = w.File, at.line, at.column
	return f
}

// followsFromUndecodedField reports whether an error is only a consequence of a field that could not be decoded. Such
// an error need not be shown.
func (w *FieldPlaces) followsFromUndecodedField(f *model.Flaw) bool {
	within := func(inner, outer string) bool {
		rest, ok := strings.CutPrefix(inner, outer)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	return len(w.flawed) > 0 && f.Absent && !(f.Zero && w.hasField(f.Field)) || slices.ContainsFunc(w.flawed, func(field string) bool {
		return within(field, f.Field) || within(f.Field, field)
	})
}

// Complete reports whether all fields of the document were decoded without errors.
func (w *FieldPlaces) Complete() bool { return len(w.flawed) == 0 }

// hasField reports whether the document contains the field.
func (w *FieldPlaces) hasField(field string) bool {
	_, ok := w.places[field]
	return ok
}

// nearestPlace returns the line and column of a field, or of the nearest field around an absent field.
func (w *FieldPlaces) nearestPlace(field string) place {
	for {
		if at, ok := w.places[field]; ok || field == "" {
			return at
		}
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
}

// SortFlaws sorts errors about a file by their line and column.
func SortFlaws(flaws model.Flaws) {
	slices.SortStableFunc(flaws, func(a, b *model.Flaw) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
}

// explainYAMLError converts a syntax error of the YAML library to a readable text with a hint.
func explainYAMLError(message string, line []byte) (text, hint string) {
	text = "not YAML: " + message
	indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
	switch {
	case bytes.IndexByte(indent, '\t') >= 0 && (strings.Contains(message, "cannot start any token") || strings.Contains(message, "tab character")):
		return "not YAML: this line is indented with a TAB", "indent with spaces"
	case strings.Contains(message, "tab character"):
		hint = "replace TABs with spaces"
	case strings.Contains(message, "cannot start any token"):
		hint = "quote text that begins with a special character"
	case strings.Contains(message, "did not find expected"), strings.Contains(message, "mapping values are not allowed"):
		hint = "check quotes and indentation, here and in the line above; put text with quotes, : or # between single quotes"
	}
	return text, hint
}

// lineOfText returns the line of a text with a given number, counted from 1. It returns nil if the text has fewer
// lines.
func lineOfText(data []byte, number int) []byte {
	for line := range bytes.Lines(data) {
		if number--; number == 0 {
			return line
		}
	}
	return nil
}

// placeAt converts a byte offset to line and column.
func placeAt(data []byte, offset int) place {
	before := data[:min(max(offset, 0), len(data))]
	return place{bytes.Count(before, []byte("\n")) + 1, len(before) - bytes.LastIndexByte(before, '\n')}
}

// findBinaryByte returns the line and column of the first byte that only binary files contain. Such a byte
// shows that the file is a program or an archive.
func findBinaryByte(data []byte) (at place, hint string) {
	number := 0
	for line := range bytes.Lines(data) {
		number++
		for i := 0; i < len(line); {
			r, size := utf8.DecodeRune(line[i:])
			bad := r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f
			if broken := r == utf8.RuneError && size < 2; bad || broken {
				return place{number, i + 1}, fmt.Sprintf("the file has the byte 0x%02x here: is it the right file? Text is written in UTF-8", line[i])
			}
			i += size
		}
	}
	return place{}, ""
}

// spellingHint suggests, for an unknown field, the known field with the most similar name. The hint names the
// correct spelling, or the field in which it belongs.
func (d *Decoder) spellingHint(t reflect.Type, word, at string) string {
	names := fieldNames(t)
	if at == "" {
		names = append(names, d.skip...)
	}
	for _, name := range names {
		if strings.EqualFold(strings.ReplaceAll(word, "_", ""), name) {
			return "did you mean " + name + "?"
		}
	}
	if d.UnknownFieldHint != nil && d.root != nil {
		if hint := d.UnknownFieldHint(word, true, fieldNames(d.root)); hint != "" {
			return hint
		}
	}
	if d.root != nil {
		if path := findFieldPath(d.root, word, d.base, 0); strings.Contains(path, ".") {
			return "it belongs to " + path[:strings.LastIndexByte(path, '.')]
		} else if path != "" {
			return "write it at the top level, outside of " + at
		}
	}
	if near := model.Nearest(word, names); near != "" {
		return "did you mean " + near + "?"
	}
	if d.UnknownFieldHint != nil && at == "" && d.root == nil {
		if hint := d.UnknownFieldHint(word, false, names); hint != "" {
			return hint
		}
	}
	return "fields here: " + strings.Join(names, ", ")
}

// findFieldPath searches a specification's struct type for a field by name, and returns its full path. It
// returns "" if no field has the name.
func findFieldPath(t reflect.Type, word, path string, depth int) string {
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	join := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	if t.Kind() != reflect.Struct || t == commandType || t == secretType || depth > 3 {
		return ""
	}
	if fieldNamed(reflect.VisibleFields(t), word) >= 0 {
		return join(word)
	}
	for i := range t.NumField() {
		if found := findFieldPath(t.Field(i).Type, word, join(JSONName(t.Field(i))), depth+1); found != "" {
			return found
		}
	}
	return ""
}

// HasField reports whether the struct to which v points has a field with the given JSON name.
func HasField(v any, name string) bool {
	return fieldNamed(reflect.VisibleFields(reflect.TypeOf(v).Elem()), name) >= 0
}

// YAML converts one JSON document to YAML with the fields in the same order. Documents parses the YAML back to the
// same values. Commands show stored JSON this way: get -o yaml, edit, differences.
func YAML(document []byte) ([]byte, error) {
	r := &Reader{}
	docs := r.Documents(document)
	if err := r.Flaws.Err(); err != nil || len(docs) != 1 {
		return nil, fmt.Errorf("turn JSON into YAML: %w", cmp.Or(err, errNotOneDocument))
	}
	var out bytes.Buffer
	dumper, err := yaml.NewDumper(&out, yaml.WithIndent(2), yaml.WithCompactSeqIndent(false), yaml.WithLineWidth(-1), yaml.WithQuotePreference(yaml.QuoteDouble))
	if err == nil {
		err = dumper.Dump(docs[0].toYAML())
	}
	if err == nil {
		err = dumper.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return EscapeControls(out.Bytes()), nil
}

// isControl reports whether JSON encoders leave a character unescaped that could manipulate a terminal. Such
// characters change the output of a terminal. Encoders of JSON and YAML escape the others.
func isControl(r rune) bool { return r >= 0x7f && r < 0xa0 || unicode.Is(unicode.Bidi_Control, r) }

// EscapeControls escapes characters in JSON or YAML that could manipulate a terminal. Then a terminal shows them. The
// values stay the same.
func EscapeControls(data []byte) []byte {
	if bytes.IndexFunc(data, isControl) < 0 {
		return data
	}
	var b bytes.Buffer
	for rest := data; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if isControl(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.Write(rest[:n])
		}
		rest = rest[n:]
	}
	return b.Bytes()
}

var errNotOneDocument = errors.New("not one document")

// yaml11Booleans lists words that parsers of YAML 1.1 read as true or false.
var yaml11Booleans = map[string]bool{"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true}

// toYAML converts the parsed tree to a node of the YAML library.
func (t *Tree) toYAML() *yaml.Node {
	scalar := func(tag string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: t.text} }
	switch t.kind {
	case text:
		n := scalar("!!str")
		if yaml11Booleans[strings.ToLower(t.text)] || strings.IndexFunc(t.text, isControl) >= 0 {
			n.Style = yaml.DoubleQuotedStyle
		}
		return n
	case number:
		if strings.ContainsAny(t.text, ".eE") {
			return scalar("!!float")
		}
		return scalar("!!int")
	case boolean:
		return scalar("!!bool")
	case list:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		if len(t.items) == 0 {
			n.Style = yaml.FlowStyle
		}
		for _, item := range t.items {
			n.Content = append(n.Content, item.toYAML())
		}
		return n
	case mapping:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		if len(t.keys) == 0 {
			n.Style = yaml.FlowStyle
		}
		for _, k := range t.keys {
			n.Content = append(n.Content, (&Tree{kind: text, text: k.name}).toYAML(), k.value.toYAML())
		}
		return n
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
}
