package sensuwire

import (
	"bytes"
	"encoding/json"
)

// members calls f with each member of a JSON object: its key without quotes and its value, both not decoded. Values are not
// checked: whoever reads one finds its errors.
func members(object []byte, f func(key, value []byte) bool) bool {
	i := skipSpace(object, 0)
	if i == len(object) || object[i] != '{' {
		return false
	}
	if i = skipSpace(object, i+1); i < len(object) && object[i] == '}' {
		return true
	}
	for {
		key, n := scanString(object, i)
		if n < 0 {
			return false
		}
		if i = skipSpace(object, n); i == len(object) || object[i] != ':' {
			return false
		}
		start := skipSpace(object, i+1)
		end := scanValue(object, start)
		if end < 0 || !f(key[1:len(key)-1], object[start:end]) {
			return false
		}
		i = skipSpace(object, end)
		switch {
		case i == len(object):
			return false
		case object[i] == '}':
			return true
		case object[i] != ',':
			return false
		}
		i = skipSpace(object, i+1)
	}
}

// elements calls f with each element of a JSON array.
func elements(array []byte, f func(value []byte) bool) bool {
	if len(array) == 0 || array[0] != '[' {
		return string(array) == "null"
	}
	i := skipSpace(array, 1)
	if i < len(array) && array[i] == ']' {
		return true
	}
	for {
		end := scanValue(array, i)
		if end < 0 || !f(array[i:end]) {
			return false
		}
		i = skipSpace(array, end)
		if i == len(array) || array[i] != ',' {
			return i < len(array) && array[i] == ']'
		}
		i = skipSpace(array, i+1)
	}
}

// skipSpace returns the index of the first byte from i on that is no white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// scanString returns the string that begins at i, with its quotes, and its end; -1: there is none.
func scanString(b []byte, i int) (string []byte, end int) {
	if i >= len(b) || b[i] != '"' {
		return nil, -1
	}
	for at := i + 1; ; {
		n := bytes.IndexByte(b[at:], '"')
		if n < 0 {
			return nil, -1
		}
		at += n
		slashes := at
		for slashes > i+1 && b[slashes-1] == '\\' {
			slashes--
		}
		if (at-slashes)%2 == 0 {
			return b[i : at+1], at + 1
		}
		at++
	}
}

// scanValue returns the end of the value that begins at i; -1: there is none.
func scanValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch c := b[i]; c {
		case '"':
			if _, i = scanString(b, i); i < 0 {
				return -1
			}
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			if depth == 0 {
				return -1
			}
			depth--
			i++
		case ',', ':', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return -1
			}
			i++
			continue
		default:
			for i < len(b) && !isDelimiter(b[i]) {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
	return -1
}

// isDelimiter reports whether a byte ends a number, true, false or null.
func isDelimiter(c byte) bool {
	switch c {
	case ',', ':', ']', '}', ' ', '\n', '\t', '\r', '"', '{', '[':
		return true
	}
	return false
}

// appendString appends the text of a JSON string; not ok: it is none.
func appendString(dst, value []byte) ([]byte, bool) {
	if string(value) == "null" {
		return dst, true
	}
	if len(value) < 2 || value[0] != '"' {
		return dst, false
	}
	plain := value[1 : len(value)-1]
	if bytes.IndexByte(plain, '\\') < 0 {
		return append(dst, plain...), true
	}
	var s string
	if json.Unmarshal(value, &s) != nil {
		return dst, false
	}
	return append(dst, s...), true
}
