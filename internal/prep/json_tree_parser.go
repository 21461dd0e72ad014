package prep

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	maxJSONDepth = 64      // arrays and objects inside each other
	maxJSON      = 1 << 30 // bytes of a document
)

// jsonTree is a parsed JSON document, stored as a flat list of its values (JSON nodes). It keeps the order of
// members and the text of numbers; maps and floats lose them. Nodes stand in the order of the text, the root
// first; the first child of a container follows it.
type jsonTree struct {
	text    string
	nodes   []jsonNode
	indexes []equalityIndex
	steps   int // values that filters evaluated
	visits  int // values that paths visited, each time
}

// jsonNode is one value (text, number, object, array …) in a JSON document. Positions count bytes of the text.
type jsonNode struct {
	start, end uint32
	next       uint32 // the node behind this one and all its descendants
	key        uint32 // position of the quote of its name; 0: it has none
}

var errJSON = errors.New("invalid JSON")

// parseJSON parses a JSON document into the tree's flat list of values (JSON nodes).
func (t *jsonTree) parseJSON(text string) error {
	clear(t.indexes)
	t.text, t.nodes, t.indexes, t.steps, t.visits = text, t.nodes[:0], t.indexes[:0], 0, 0
	if len(text) > maxJSON {
		return fmt.Errorf("%w: the document has more than %d bytes", errJSON, maxJSON)
	}
	at, err := t.parseValue(skipJSONSpace(text, 0), 0, 0)
	if err != nil {
		return err
	}
	if at = skipJSONSpace(text, at); at != len(text) {
		return t.errorAt(at)
	}
	return nil
}

// errorAt returns the syntax error at a position of the JSON document
func (t *jsonTree) errorAt(at int) error {
	if at >= len(t.text) {
		return fmt.Errorf("%w: unexpected end of text", errJSON)
	}
	return fmt.Errorf("%w: syntax error at %q", errJSON, shorten(strings.ToValidUTF8(t.text[at:min(len(t.text), at+40)], "?"), 32))
}

// skipJSONSpace returns the position of the next character that is not white space
func skipJSONSpace(s string, at int) int {
	for at < len(s) && (s[at] == ' ' || s[at] == '\n' || s[at] == '\r' || s[at] == '\t') {
		at++
	}
	return at
}

// parseValue parses the JSON value at a position, and returns the position after the value
func (t *jsonTree) parseValue(at int, key uint32, depth int) (int, error) {
	s := t.text
	if at >= len(s) {
		return at, t.errorAt(at)
	}
	index := len(t.nodes)
	t.nodes = append(t.nodes, jsonNode{start: uint32(at), key: key})
	end, err := at, error(nil)
	switch c := s[at]; {
	case c == '{' || c == '[':
		if depth == maxJSONDepth {
			return at, fmt.Errorf("%w: the document has more than %d levels of nesting", errJSON, maxJSONDepth)
		}
		end, err = t.parseContainer(at, depth+1)
	case c == '"':
		end, err = t.scanString(at)
	case c == '-' || c >= '0' && c <= '9':
		end = scanNumber(s, at)
	default:
		for _, word := range [...]string{"true", "false", "null"} {
			if strings.HasPrefix(s[at:], word) {
				end = at + len(word)
			}
		}
	}
	if err != nil {
		return end, err
	}
	if end == at {
		return at, t.errorAt(at)
	}
	t.nodes[index].end, t.nodes[index].next = uint32(end), uint32(len(t.nodes))
	return end, nil
}

// parseContainer parses the members of a JSON object or the elements of an array.
func (t *jsonTree) parseContainer(at, depth int) (int, error) {
	s := t.text
	object, closing := s[at] == '{', s[at]+2 // '}' and ']' stand two behind
	for at = skipJSONSpace(s, at+1); at < len(s) && s[at] != closing; {
		key := uint32(0)
		if object {
			if s[at] != '"' {
				return at, t.errorAt(at)
			}
			key = uint32(at)
			end, err := t.scanString(at)
			if err != nil {
				return end, err
			}
			if at = skipJSONSpace(s, end); at == len(s) || s[at] != ':' {
				return at, t.errorAt(at)
			}
			at = skipJSONSpace(s, at+1)
		}
		end, err := t.parseValue(at, key, depth)
		if err != nil {
			return end, err
		}
		at = skipJSONSpace(s, end)
		if at < len(s) && s[at] == ',' {
			if at = skipJSONSpace(s, at+1); at < len(s) && s[at] == closing {
				return at, t.errorAt(at)
			}
		} else if at < len(s) && s[at] != closing {
			return at, t.errorAt(at)
		}
	}
	if at == len(s) {
		return at, t.errorAt(at)
	}
	return at + 1, nil
}

// scanString returns the position after a JSON string that begins at a quote
func (t *jsonTree) scanString(at int) (int, error) {
	s := t.text
	for i := at + 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return i + 1, nil
		case c < ' ':
			return i, t.errorAt(i)
		case c == '\\':
			if i++; i == len(s) {
				return i, t.errorAt(i)
			}
			if s[i] == 'u' {
				r, size := scanUnicode(s[i-1:])
				if size == 0 || r == utf8.RuneError && size == 6 && !strings.EqualFold(s[i-1:i+5], `\ufffd`) {
					return i - 1, t.errorAt(i - 1)
				}
				i += size - 2
			} else if strings.IndexByte(`"\/bfnrt`, s[i]) < 0 {
				return i - 1, t.errorAt(i - 1)
			}
		}
	}
	return len(s), t.errorAt(len(s))
}

// scanUnicode decodes \uXXXX at the start of s, and returns the character and its length. Two that form a surrogate
// pair are one character. Length 0 says that four hexadecimal digits are missing; half a pair gives utf8.RuneError.
func scanUnicode(s string) (r rune, size int) {
	first, ok := scanHex(s)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(first) {
		return first, 6
	}
	second, ok := scanHex(s[6:])
	if pair := utf16.DecodeRune(first, second); ok && pair != utf8.RuneError {
		return pair, 12
	}
	return utf8.RuneError, 6
}

// scanHex decodes the four hexadecimal digits of \uXXXX at the start of s
func scanHex(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	r := rune(0)
	for _, c := range []byte(s[2:6]) {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// scanNumber returns the position after the JSON number at a position. Without a number it returns the same position.
func scanNumber(s string, at int) int {
	digits := func(i int) int {
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			i++
		}
		return i
	}
	i := at
	if s[i] == '-' {
		i++
	}
	whole := i
	if i = digits(i); i == whole || s[whole] == '0' && i > whole+1 {
		return at
	}
	if i < len(s) && s[i] == '.' {
		fraction := i + 1
		if i = digits(fraction); i == fraction {
			return at
		}
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		exponent := i
		if i = digits(exponent); i == exponent {
			return at
		}
	}
	return i
}

// unquoteJSON decodes a JSON string with its quotes to plain text
func unquoteJSON(s string) string {
	s = s[1 : len(s)-1]
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '\\' {
			i++
			if s[i] == 'u' {
				r, size := scanUnicode(s[i-1:])
				b.WriteRune(r)
				i += size - 2
				continue
			}
			if at := strings.IndexByte("bfnrt", s[i]); at >= 0 {
				c = "\b\f\n\r\t"[at]
			} else {
				c = s[i]
			}
		}
		b.WriteByte(c)
	}
	return b.String()
}

// raw returns the text of a JSON value exactly as in the document
func (t *jsonTree) raw(n uint32) string { return t.text[t.nodes[n].start:t.nodes[n].end] }

// kind returns the first character of a JSON value, which shows the value's type. It shows whether the node is a
// string, number, object or array.
func (t *jsonTree) kind(n uint32) byte { return t.text[t.nodes[n].start] }

// isContainer reports whether a JSON node is an object or an array.
func (t *jsonTree) isContainer(n uint32) bool { return t.kind(n) == '{' || t.kind(n) == '[' }

// memberName is the name of a JSON member, prepared for comparisons in a search.
type memberName struct {
	name    string
	escaped bool // it has characters that JSON escapes
}

// newMemberName prepares a name for comparisons with the member names of a JSON text
func newMemberName(name string) memberName {
	return memberName{name, strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' })}
}

// hasKey reports whether a JSON node is its object's member with the given name.
func (t *jsonTree) hasKey(n uint32, m memberName) bool {
	key := t.nodes[n].key
	if key == 0 {
		return false
	}
	rest := t.text[key+1:]
	if !m.escaped && len(rest) > len(m.name) && rest[len(m.name)] == '"' && rest[:len(m.name)] == m.name {
		return true
	}
	rest = rest[:strings.IndexByte(rest, '"')] // of a name with an escaped quote it is the beginning
	return strings.IndexByte(rest, '\\') >= 0 && t.key(n) == m.name
}

// key returns the name under which a JSON node is a member of its object.
func (t *jsonTree) key(n uint32) string {
	at := int(t.nodes[n].key)
	end, err := t.scanString(at)
	if err != nil {
		return "" // never: the parser has seen it
	}
	return unquoteJSON(t.text[at:end])
}

// value returns a JSON value as text for an item, without the quotes of a string. A string has no quotes, an
// object or array no white space.
func (t *jsonTree) value(n uint32) string {
	if t.kind(n) == '"' {
		return unquoteJSON(t.raw(n))
	}
	return t.compact(n)
}

// compact returns the JSON text of a JSON node without white space.
func (t *jsonTree) compact(n uint32) string {
	s := t.raw(n)
	if !t.isContainer(n) || !strings.ContainsAny(s, " \n\r\t") {
		return s
	}
	out := make([]byte, 0, len(s))
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			out = append(out, c)
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ' ' || c == '\n' || c == '\r' || c == '\t'):
			continue
		}
		out = append(out, s[i])
	}
	return string(out)
}

// appendJSONString appends a text as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendJSONString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r >= ' ':
			dst = utf8.AppendRune(dst, r)
		default:
			if at := strings.IndexRune("\b\f\n\r\t", r); at >= 0 {
				dst = append(dst, '\\', "bfnrt"[at])
			} else {
				dst = fmt.Appendf(dst, "\\u%04x", r)
			}
		}
	}
	return append(dst, '"')
}
