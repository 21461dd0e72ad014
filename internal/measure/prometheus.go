package measure

import (
	"strconv"
	"strings"
)

// prometheus reads the text form of exporters: name{label="value",…} value [time], where
// time counts milliseconds. Comments are passed over before.
func (s *scan) prometheus(line string) bool {
	end := strings.IndexAny(line, "{ \t")
	if end <= 0 {
		return false
	}
	name, rest := line[:end], line[end:]
	var tags map[string]string
	if rest[0] == '{' {
		var ok bool
		if tags, rest, ok = labels(rest[1:]); !ok {
			return false
		}
	}
	words := strings.Fields(rest)
	if len(words) != 1 && len(words) != 2 {
		return false
	}
	value, err := strconv.ParseFloat(words[0], 64)
	at, ok := clock("0", 1)
	if len(words) == 2 {
		at, ok = clock(words[1], 1000)
	}
	return ok && err == nil && s.add(name, value, at, tags)
}

// labels reads name="value" pairs up to the closing brace, and what follows it.
func labels(text string) (tags map[string]string, rest string, ok bool) {
	for {
		text = strings.TrimLeft(text, " \t,")
		if strings.HasPrefix(text, "}") {
			return tags, text[1:], true
		}
		k, after, found := strings.Cut(text, "=")
		k, after = strings.TrimSpace(k), strings.TrimLeft(after, " \t")
		if !found || k == "" || !strings.HasPrefix(after, `"`) {
			return nil, "", false
		}
		value, n := quoted(after[1:])
		if n < 0 {
			return nil, "", false
		}
		if tags == nil {
			tags = map[string]string{}
		}
		tags[k], text = value, after[1+n:]
	}
}

// quoted reads up to the closing quote; n is how many bytes that took, negative: there is
// none.
func quoted(text string) (value string, n int) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			return b.String(), i + 1
		case '\\':
			if i++; i == len(text) {
				return "", -1
			}
			if c = text[i]; c == 'n' {
				c = '\n'
			}
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return "", -1
}
