package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Limits of fields without an option. See the head of muster.proto.
const (
	maxBytes = 255
	maxItems = 1024
)

// generator generates Go code that encodes and decodes the messages of the .proto files.
type generator struct {
	bytes.Buffer
	structs map[string]*goStruct
}

// writeLine writes one line of the generated Go code.
func (g *generator) writeLine(format string, args ...any) { fmt.Fprintf(g, format+"\n", args...) }

// generateMessage generates the function that encodes or decodes the fields of one .proto message.
func (g *generator) generateMessage(m protoreflect.MessageDescriptor, inFrame bool) error {
	name := string(m.Name())
	to := g.structs[name]
	if to == nil {
		return errors.New("no struct of this name in packages wire and model")
	}
	var body strings.Builder
	var lists []string
	for i := range m.Fields().Len() {
		f, err := g.pairField(to, m.Fields().Get(i))
		if err != nil {
			return err
		}
		if f.IsList() {
			lists = append(lists, fmt.Sprintf("%s: x.%s[:0]", f.goName, f.goName))
		}
		code, err := f.statement()
		if err != nil {
			return fmt.Errorf("generate field %s of Go type %s: %w", f.Name(), f.goType, err)
		}
		fmt.Fprintln(&body, code)
		for _, other := range f.others {
			fmt.Fprintf(&body, "if c.decoded(%d) {\nx.%s = nil // one of them: the last counts\n}\n", f.Number(), other)
		}
	}
	if inFrame {
		g.writeLine("\n// Append%s appends the message %s as an encoded frame of the agent protocol. %s.", name, name, firstSentence(m))
		g.writeLine("func Append%s(dst []byte, x *%s) []byte {", name, to.name)
		g.writeLine("return appendMessage(dst, uint32(Kind%s), x, code%s)\n}", name, name)
		g.writeLine("\n// Decode decodes the body of the %s frame into x. It reuses lists of x; byte slices alias body.", name)
		g.writeLine("func (x *%s) Decode(body []byte) error {", to.name)
		g.writeLine("*x = %s{%s}\nreturn decodeMessage(%q, body, x, code%s)\n}", to.name, strings.Join(lists, ", "), name, name)
	}
	g.writeLine("\n// code%s encodes or decodes the fields of the message %s.", name, name)
	g.writeLine("func code%s(c *coder, x *%s) {\n%s}", name, to.name, &body)
	return nil
}

// field pairs a field of a .proto message with its Go struct field.
type field struct {
	protoreflect.FieldDescriptor
	goName, goType string
	max, maxItems  uint64   // zero: the default of the type
	others         []string // Go fields of the same oneof
}

// pairField finds the Go struct field for a field of a .proto message.
func (g *generator) pairField(to *goStruct, f protoreflect.FieldDescriptor) (*field, error) {
	goName, goType := g.findGoField(to, string(f.Name()))
	if goName == "" {
		return nil, fmt.Errorf("field %s: the Go struct %s has no field of this name", f.Name(), to.name)
	}
	r := &field{FieldDescriptor: f, goName: goName, goType: goType, max: limitOption(f, "max"), maxItems: cmp.Or(limitOption(f, "max_items"), maxItems)}
	if o := f.ContainingOneof(); o != nil && !o.IsSynthetic() {
		for i := range o.Fields().Len() {
			if other := o.Fields().Get(i); other != f {
				name, _ := g.findGoField(to, string(other.Name()))
				r.others = append(r.others, name)
			}
		}
	}
	return r, nil
}

// findGoField returns the name and type of the Go struct field for a .proto field. An example is Timeout for
// timeout_ns. Inner structs count.
func (g *generator) findGoField(to *goStruct, name string) (goName, goType string) {
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
			if goName, goType = g.findGoField(e, name); goName != "" {
				return path + goName, goType
			}
		}
	}
	return "", ""
}

// statement returns the Go statement that encodes or decodes the field.
func (f *field) statement() (string, error) {
	call := func(function, value string, limits ...any) (string, error) {
		text := fmt.Sprintf("%s%d, %q, %s", function, f.Number(), f.Name(), value)
		for _, limit := range limits {
			text += fmt.Sprint(", ", limit)
		}
		return text + ")", nil
	}
	x, bytesLimit := "x."+f.goName, cmp.Or(f.max, maxBytes)
	switch {
	case f.IsMap():
		return call("c.texts(", "&"+x, f.maxItems)
	case f.IsList() && f.IsPacked():
		return call("numbers(c, ", "&"+x, f.maxItems)
	case f.IsList() && f.Kind() == protoreflect.MessageKind:
		return call("messages(c, ", fmt.Sprintf("%q, &%s", f.Message().Name(), x), f.maxItems, "code"+f.Message().Name())
	case f.IsList() && f.Kind() == protoreflect.StringKind:
		return call("c.textList(", "&"+x, f.maxItems, bytesLimit)
	case f.IsList():
		return "", fmt.Errorf("the generator cannot encode a list of kind %s", f.Kind())
	}
	pointer := strings.HasPrefix(f.goType, "*")
	switch f.Kind() {
	case protoreflect.MessageKind:
		function := "message(c, "
		if pointer {
			function = "optionalMessage(c, "
		}
		return call(function, fmt.Sprintf("%q, &%s", f.Message().Name(), x), "code"+f.Message().Name())
	case protoreflect.BoolKind:
		if pointer {
			return call("c.optionalFlag(", "&"+x)
		}
		return call("c.flag(", "&"+x)
	case protoreflect.StringKind:
		if pointer {
			return call("c.optionalText(", "&"+x, bytesLimit)
		}
		if f.goType != "string" {
			return call("c.text(", "(*string)(&"+x+")", bytesLimit)
		}
		return call("c.text(", "&"+x, bytesLimit)
	case protoreflect.DoubleKind:
		if pointer {
			return call("c.optionalDouble(", "&"+x)
		}
		return call("c.double(", "&"+x)
	case protoreflect.Fixed64Kind:
		return call("fixed64(c, ", "&"+x)
	case protoreflect.EnumKind:
		if f.goType == "string" {
			return call("c."+lowerFirst(string(f.Enum().Name()))+"Name(", "&"+x)
		}
		return call("number(c, ", "&"+x, f.Enum().Values().Len()-1)
	case protoreflect.BytesKind:
		switch {
		case f.goType == "[]byte":
			return call("c.bytes(", "&"+x, bytesLimit)
		case f.goType == "uuid.UUID", strings.HasSuffix(f.goType, "]byte"):
			return call("c.fixed(", x+"[:]")
		case f.goType == "string":
			return call("c.hex(", "&"+x, f.max)
		case strings.HasPrefix(f.goType, "["):
			element := f.goType[strings.LastIndexAny(f.goType, "].")+1:]
			return call("c."+lowerFirst(element)+"List(", x+"[:]")
		}
		return "", errors.New("no rule for these bytes")
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Int64Kind:
		duration := f.goType == "time.Duration" || f.goType == "model.Duration"
		millis := strings.HasSuffix(string(f.Name()), "_ms")
		limit := strconv.FormatUint(f.max, 10)
		switch {
		case f.max > 0:
		case duration && f.Kind() == protoreflect.Int64Kind:
			limit = "1<<63-1"
		case f.Kind() == protoreflect.Uint32Kind:
			limit = "1<<32-1"
		default:
			limit = "1<<64-1"
		}
		switch {
		case f.goType == "time.Time" && millis:
			return call("c.time(", "&"+x, limit)
		case duration && millis:
			return call("millis(c, ", "&"+x, limit)
		}
		return call("number(c, ", "&"+x, limit)
	}
	return "", fmt.Errorf("the generator cannot encode a field of kind %s", f.Kind())
}

// firstSentence returns the first sentence of a message's comment in the .proto file.
func firstSentence(m protoreflect.MessageDescriptor) string {
	text := m.ParentFile().SourceLocations().ByDescriptor(m).LeadingComments
	sentence, _, _ := strings.Cut(strings.Join(strings.Fields(text), " ")+" ", ". ")
	return sentence
}

// lowerFirst returns a text with its first letter in lower case.
func lowerFirst(text string) string { return strings.ToLower(text[:1]) + text[1:] }

// limitOption returns the value of a numeric option of a .proto field, such as max. It returns zero if the
// field does not set the option.
func limitOption(f protoreflect.FieldDescriptor, option protoreflect.Name) (value uint64) {
	f.Options().ProtoReflect().Range(func(x protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if x.IsExtension() && x.Name() == option {
			value = v.Uint()
		}
		return true
	})
	return value
}
