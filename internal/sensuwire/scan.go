package sensuwire

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/muster-fleet/muster/internal/model"
)

// members calls f with each member of a JSON object: its key, without quotes and as it
// stands there, and its value, as it stands there. Values are not looked into: what is no
// JSON within one is found by who reads it, if anybody does.
func members(object []byte, f func(key, value []byte) bool) bool {
	i := space(object, 0)
	if i == len(object) || object[i] != '{' {
		return false
	}
	if i = space(object, i+1); i < len(object) && object[i] == '}' {
		return true
	}
	for {
		key, n := text(object, i)
		if n < 0 {
			return false
		}
		if i = space(object, n); i == len(object) || object[i] != ':' {
			return false
		}
		start := space(object, i+1)
		end := value(object, start)
		if end < 0 || !f(key[1:len(key)-1], object[start:end]) {
			return false
		}
		i = space(object, end)
		switch {
		case i == len(object):
			return false
		case object[i] == '}':
			return true
		case object[i] != ',':
			return false
		}
		i = space(object, i+1)
	}
}

// elements calls f with each element of a JSON array.
func elements(array []byte, f func(value []byte) bool) bool {
	if len(array) == 0 || array[0] != '[' {
		return string(array) == "null"
	}
	i := space(array, 1)
	if i < len(array) && array[i] == ']' {
		return true
	}
	for {
		end := value(array, i)
		if end < 0 || !f(array[i:end]) {
			return false
		}
		i = space(array, end)
		if i == len(array) || array[i] != ',' {
			return i < len(array) && array[i] == ']'
		}
		i = space(array, i+1)
	}
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// text is the string that begins at i, with its quotes, and where it ends; -1: there is none.
func text(b []byte, i int) (string []byte, end int) {
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

// value is where the value that begins at i ends; -1: there is none.
func value(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch c := b[i]; c {
		case '"':
			if _, i = text(b, i); i < 0 {
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
			for i < len(b) && !ends(b[i]) {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
	return -1
}

// ends says whether a byte ends a number, true, false or null.
func ends(c byte) bool {
	switch c {
	case ',', ':', ']', '}', ' ', '\n', '\t', '\r', '"', '{', '[':
		return true
	}
	return false
}

// appendString appends what a JSON string says; not ok: it is none.
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

func stringOf(value []byte) string {
	s, _ := appendString(nil, value)
	return string(s)
}

// integer reads a whole number; a fraction is cut off, as nobody sends one.
func integer(value []byte) int64 {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		f, _ := strconv.ParseFloat(string(value), 64)
		return int64(f)
	}
	return n
}

func notJSON(what string) error { return model.Errorf(model.Invalid, "%s: not JSON", what) }
