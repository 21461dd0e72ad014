package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Limits of fields that set no option: see the head of muster.proto.
const (
	maxBytes = 255
	maxItems = 1024
)

// generator generates Go code that encodes and decodes the messages of the .proto files, one after the other.
type generator struct {
	bytes.Buffer
	structs map[string]*goStruct
}

// line adds one line to the generated Go source.
func (g *generator) line(format string, args ...any) { fmt.Fprintf(g, format+"\n", args...) }

// message generates the functions that encode and decode one message.
func (g *generator) message(m protoreflect.MessageDescriptor, inFrame bool) error {
	name := string(m.Name())
	to := g.structs[name]
	if to == nil {
		return errors.New("no struct of this name in packages wire and model")
	}
	var encode, decode bytes.Buffer
	var lists []string
	for i := range m.Fields().Len() {
		f, err := g.field(to, m.Fields().Get(i))
		if err != nil {
			return err
		}
		if f.IsList() {
			lists = append(lists, fmt.Sprintf("%s: x.%s[:0]", f.goName, f.goName))
		}
		if err := f.write(&encode, &decode); err != nil {
			return fmt.Errorf("generate field %s of Go type %s: %w", f.Name(), f.goType, err)
		}
	}
	if inFrame {
		g.line("\n// Append%s appends the frame %s (%s).", name, name, firstSentence(m))
		g.line("func Append%s(dst []byte, x *%s) []byte {", name, to.name)
		g.line("return appendMessage(dst, uint32(Kind%s), x, append%s)\n}", name, name)
		g.line("\n// Decode decodes the body of the %s frame into x. It reuses lists of x; byte slices alias body.", name)
		g.line("func (x *%s) Decode(body []byte) error {", to.name)
		g.line("*x = %s{%s}\nf := fields{message: %q, rest: body}\nread%s(&f, x)\nreturn f.err\n}", to.name, strings.Join(lists, ", "), name, name)
	}
	g.line("\n// append%s appends the encoded fields of the message %s.", name, name)
	g.line("func append%s(dst []byte, x *%s) []byte {\n%sreturn dst\n}", name, to.name, &encode)
	g.line("\n// read%s decodes the fields of the message %s into x.", name, name)
	g.line("func read%s(f *fields, x *%s) {\nfor f.next() {\nswitch f.num {\n%s}\n}\n}", name, to.name, &decode)
	return nil
}

// field pairs a field of a message in the .proto file with the Go struct field that holds it.
type field struct {
	protoreflect.FieldDescriptor
	goName, goType string
	max, maxItems  uint64   // zero: the default of the type
	others         []string // Go fields of the same oneof
}

// field finds the Go struct field for a field of a message in the .proto file and returns the pair.
func (g *generator) field(to *goStruct, f protoreflect.FieldDescriptor) (*field, error) {
	goName, goType := g.find(to, string(f.Name()))
	if goName == "" {
		return nil, fmt.Errorf("field %s: the Go struct %s has no field of this name", f.Name(), to.name)
	}
	r := &field{FieldDescriptor: f, goName: goName, goType: goType, max: limit(f, "max"), maxItems: cmp.Or(limit(f, "max_items"), maxItems)}
	if o := f.ContainingOneof(); o != nil && !o.IsSynthetic() {
		for i := range o.Fields().Len() {
			if other := o.Fields().Get(i); other != f {
				name, _ := g.find(to, string(other.Name()))
				r.others = append(r.others, name)
			}
		}
	}
	return r, nil
}

// find returns the name and type of the Go struct field for a .proto field, such as Timeout for timeout_ns. Inner
// structs count.
func (g *generator) find(to *goStruct, name string) (goName, goType string) {
	for _, unit := range [...]string{"", "_ns", "_unix_ms", "_ms"} {
		want, ok := strings.CutSuffix(name, unit)
		if !ok {
			continue
		}
		for field, typ := range to.fields {
			if strings.EqualFold(field, strings.ReplaceAll(want, "_", "")) {
				return field, typ
			}
		}
	}
	for inner, path := range to.inner {
		if e := g.structs[inner]; e != nil {
			if goName, goType = g.find(e, name); goName != "" {
				return path + goName, goType
			}
		}
	}
	return "", ""
}

// write generates the code that encodes the field, and the case that decodes it.
func (f *field) write(encode, decode *bytes.Buffer) error {
	enc := func(format string, args ...any) { fmt.Fprintf(encode, format+"\n", args...) }
	dec := func(format string, args ...any) { fmt.Fprintf(decode, format+"\n", args...) }
	n, x := f.Number(), "x."+f.goName
	dec("case %d:", n)
	switch {
	case f.IsMap():
		enc("dst = appendMap(dst, %d, %s)", n, x)
		dec("f.entry(%q, &%s, %d)", f.Name(), x, f.maxItems)
	case f.IsList() && f.IsPacked():
		enc("dst = appendNumbers(dst, %d, %s)", n, x)
		dec("%s = numbers(f, %q, %s, %d)", x, f.Name(), x, f.maxItems)
	case f.IsList() && f.Kind() == protoreflect.MessageKind:
		m := f.Message().Name()
		enc("dst = appendMessages(dst, %d, %s, append%s)", n, x, m)
		dec("%s = nestedList(f, %q, %q, %s, %d, read%s)", x, f.Name(), m, x, f.maxItems, m)
	case f.IsList() && f.Kind() == protoreflect.StringKind:
		enc("dst = appendStrings(dst, %d, %s)", n, x)
		dec("%s = f.stringList(%q, %s, %d, %d)", x, f.Name(), x, f.maxItems, cmp.Or(f.max, maxBytes))
	case f.IsList():
		return fmt.Errorf("the generator cannot encode a list of kind %s", f.Kind())
	case f.Kind() == protoreflect.MessageKind:
		f.single(x, enc, dec)
	default:
		return f.scalar(x, enc, dec)
	}
	return nil
}

// nested returns the Go expression that decodes a nested message field.
func (f *field) nested() string {
	m := f.Message().Name()
	return fmt.Sprintf("nested(f, %q, %q, read%s)", f.Name(), m, m)
}

// single generates the code that encodes and decodes a single nested message field.
func (f *field) single(x string, enc, dec func(string, ...any)) {
	value, absent := x, ""
	if strings.HasPrefix(f.goType, "*") {
		absent = "nil"
		dec("v := %s", f.nested())
		dec("%s = &v", x)
	} else {
		value, absent = "&"+x, "("+f.goType+"{})"
		dec("%s = %s", x, f.nested())
	}
	enc("if %s != %s {\ndst = appendMessage(dst, %d, %s, append%s)\n}", x, absent, f.Number(), value, f.Message().Name())
	for _, other := range f.others {
		dec("x.%s = nil // one of them: the last counts", other)
	}
}

// scalar generates the code that encodes and decodes a field with a single number, text or bytes value. Which
// conversion it takes follows from both types.
func (f *field) scalar(x string, enc, dec func(string, ...any)) error {
	n, name, goType := f.Number(), f.Name(), f.goType
	duration := goType == "time.Duration" || goType == "model.Duration"
	millis := strings.HasSuffix(string(name), "_ms")
	switch f.Kind() {
	case protoreflect.BoolKind:
		if goType == "*bool" {
			enc("dst = appendOptionalBool(dst, %d, %s)", n, x)
			dec("v := f.bool(%q)\n%s = &v", name, x)
			break
		}
		enc("dst = appendBool(dst, %d, %s)", n, x)
		dec("%s = f.bool(%q)", x, name)
	case protoreflect.StringKind:
		if goType == "*string" {
			enc("dst = appendOptionalString(dst, %d, %s)", n, x)
			dec("v := f.string(%q, %d)\n%s = &v", name, cmp.Or(f.max, maxBytes), x)
			break
		}
		enc("dst = appendString(dst, %d, %s)", n, x)
		dec("%s = f.string(%q, %d)", x, name, cmp.Or(f.max, maxBytes))
	case protoreflect.BytesKind:
		switch {
		case goType == "[]byte":
			enc("dst = appendBytes(dst, %d, %s)", n, x)
			dec("%s = f.raw(%q, %d)", x, name, cmp.Or(f.max, maxBytes))
		case goType == "uuid.UUID", strings.HasSuffix(goType, "]byte"):
			enc("dst = appendFixed(dst, %d, %s[:])", n, x)
			dec("f.fixed(%q, %s[:])", name, x)
		case goType == "string":
			enc("dst = appendHex(dst, %d, %s)", n, x)
			dec("%s = f.hex(%q, %d)", x, name, f.max)
		case strings.HasPrefix(goType, "["):
			element := goType[strings.LastIndexAny(goType, "].")+1:]
			enc("dst = append%sList(dst, %d, %s[:])", element, n, x)
			dec("f.read%sList(%q, %s[:])", element, name, x)
		default:
			return errors.New("no rule for these bytes")
		}
	case protoreflect.EnumKind:
		last := f.Enum().Values().Len() - 1
		if goType == "string" {
			enc("dst = append%sName(dst, %d, %s)", f.Enum().Name(), n, x)
			dec("%s = f.read%sName(%q)", x, f.Enum().Name(), name)
			break
		}
		enc("dst = appendUint(dst, %d, uint64(%s))", n, x)
		dec("%s = %s(f.uint(%q, %d))", x, goType, name, last)
	case protoreflect.Fixed64Kind:
		enc("dst = appendFixed64(dst, %d, %s)", n, convert("uint64", goType, x))
		dec("%s = %s", x, convert(goType, "uint64", fmt.Sprintf("f.fixed64(%q)", name)))
	case protoreflect.DoubleKind:
		if goType == "*float64" {
			enc("dst = appendOptionalDouble(dst, %d, %s)", n, x)
			dec("v := f.double(%q)\n%s = &v", name, x)
			break
		}
		enc("dst = appendDouble(dst, %d, %s)", n, x)
		dec("%s = f.double(%q)", x, name)
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Int64Kind:
		read := fmt.Sprintf("f.uint(%q, %d)", name, f.max)
		from := "uint64"
		switch {
		case f.max > 0:
		case duration && f.Kind() == protoreflect.Int64Kind:
			read = fmt.Sprintf("f.uint(%q, 1<<63-1)", name)
		case f.Kind() == protoreflect.Uint32Kind:
			read, from = fmt.Sprintf("f.uint32(%q)", name), "uint32"
		case f.Kind() == protoreflect.Uint64Kind:
			read = fmt.Sprintf("f.uint64(%q)", name)
		default:
			read, from = fmt.Sprintf("f.int64(%q)", name), "int64"
		}
		switch {
		case goType == "time.Time" && millis:
			enc("dst = appendTime(dst, %d, %s)", n, x)
			dec("%s = f.time(%q, %d)", x, name, f.max)
		case duration && millis:
			enc("dst = appendUint(dst, %d, uint64(time.Duration(%s).Milliseconds()))", n, x)
			dec("%s = %s(%s) * %s(time.Millisecond)", x, goType, read, goType)
		default:
			enc("dst = appendUint(dst, %d, %s)", n, convert("uint64", goType, x))
			dec("%s = %s", x, convert(goType, from, read))
		}
	default:
		return fmt.Errorf("the generator cannot encode a field of kind %s", f.Kind())
	}
	return nil
}

// firstSentence returns the first sentence of a message's comment in the .proto file, to be put into brackets.
func firstSentence(m protoreflect.MessageDescriptor) string {
	text := m.ParentFile().SourceLocations().ByDescriptor(m).LeadingComments
	sentence, _, _ := strings.Cut(strings.Join(strings.Fields(text), " ")+" ", ". ")
	return strings.ToLower(sentence[:1]) + sentence[1:]
}

// convert returns a Go expression that converts another expression to a type, if its type differs.
func convert(to, from, expression string) string {
	if to == from {
		return expression
	}
	return to + "(" + expression + ")"
}

// limit returns the value of a numeric option of a .proto field, such as max, or zero if the field does not set the
// option.
func limit(f protoreflect.FieldDescriptor, option protoreflect.Name) (value uint64) {
	f.Options().ProtoReflect().Range(func(x protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if x.IsExtension() && x.Name() == option {
			value = v.Uint()
		}
		return true
	})
	return value
}
