package model

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ncruces/go-strftime"

	"github.com/muster-fleet/muster/internal/item"
)

// maxMacroResult bounds the result of a macro function in bytes, because templates repeat the groups of a match.
const maxMacroResult = 64 << 10

// maxMacroPatternSteps bounds the instructions of a regular expression in a macro function. Each use of the macro
// compiles the expression.
const maxMacroPatternSteps = 500

// macroFunction is a function of Zabbix over the value of a macro, such as regsub in {{#NAME}.regsub("^(\w+)", "\1")}.
type macroFunction struct {
	name   string
	params []string
}

// parseMacroFunction parses the function behind a macro, such as .regsub("^(\w+)", "\1")}, and returns its length. The
// length is zero if the text begins with no function.
func parseMacroFunction(text string) (f macroFunction, length int) {
	open := strings.IndexByte(text, '(')
	if open < 2 || text[0] != '.' || strings.Trim(text[1:open], "abcdefghijklmnopqrstuvwxyz") != "" {
		return f, 0
	}
	f.name = text[1:open]
	for at := open; at < len(text) && (text[at] == '(' || text[at] == ','); {
		param, end := parseMacroParameter(text, at+1)
		if end >= len(text) {
			return macroFunction{}, 0
		}
		if f.params = append(f.params, param); text[end] == ')' {
			if end == open+1 {
				f.params = nil
			}
			if strings.HasPrefix(text[end+1:], "}") {
				return f, end + 2
			}
		}
		at = end
	}
	return macroFunction{}, 0
}

// parseMacroParameter parses one parameter of a macro's function, and returns the offset after the parameter.
// Quotes around the parameter are left out.
func parseMacroParameter(text string, at int) (param string, end int) {
	for at < len(text) && text[at] == ' ' {
		at++
	}
	if at == len(text) || text[at] != '"' {
		end = at + strings.IndexAny(text[at:], ",)")
		if end < at {
			return "", len(text)
		}
		return text[at:end], end
	}
	var out strings.Builder
	for at++; at < len(text) && text[at] != '"'; at++ {
		if strings.HasPrefix(text[at:], `\"`) {
			at++
		}
		out.WriteByte(text[at])
	}
	for at++; at < len(text) && text[at] == ' '; {
		at++
	}
	return out.String(), at
}

// apply returns the result of the function for a value. ok is false if the function is unknown, or refuses its
// parameters or the value. The macro then stays in its text, as in Zabbix.
func (f *macroFunction) apply(value string) (result string, ok bool) {
	switch f.name {
	case "regsub", "iregsub":
		return f.substitute(value)
	case "regrepl":
		return f.replace(value)
	case "fmtnum":
		return f.formatNumber(value)
	case "fmttime":
		return f.formatTime(value, time.Local)
	case "tr":
		return f.transliterate(value)
	}
	convert := map[string]func(string) string{
		"lowercase": strings.ToLower, "uppercase": strings.ToUpper, "urldecode": decodeURL,
		"urlencode":  func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") },
		"btoa":       func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"htmlencode": strings.NewReplacer("&", "&amp;", `"`, "&quot;", "'", "&#39;", "<", "&lt;", ">", "&gt;").Replace,
		"htmldecode": strings.NewReplacer("&amp;", "&", "&quot;", `"`, "&#39;", "'", "&#039;", "'", "&lt;", "<", "&gt;", ">").Replace,
	}[f.name]
	if convert == nil || len(f.params) > 0 {
		return "", false
	}
	return convert(value), true
}

// substitute fills the output template of the macro functions regsub and iregsub from the regular expression's
// first match.
func (f *macroFunction) substitute(value string) (string, bool) {
	flags := "(?m)"
	if f.name == "iregsub" {
		flags = "(?mi)"
	}
	if len(f.params) != 2 {
		return "", false
	}
	pattern, ok := compileMacroPattern(flags + f.params[0])
	if !ok {
		return "", false
	}
	at := pattern.FindStringSubmatchIndex(value)
	if at == nil {
		return "", true
	}
	out, _ := FillGroups(f.params[1], value, maxMacroResult, GroupsOf(value, at))
	return out, len(out) <= maxMacroResult
}

// replace returns the macro's value after the replacements of regrepl, whose parameters are regular expressions
// with replacements.
func (f *macroFunction) replace(value string) (string, bool) {
	if len(f.params) == 0 || len(f.params)%2 != 0 {
		return "", false
	}
	for i := 0; i < len(f.params); i += 2 {
		pattern, ok := compileMacroPattern("(?m)" + f.params[i])
		if !ok {
			return "", false
		}
		var out strings.Builder
		end := 0
		for _, at := range pattern.FindAllStringSubmatchIndex(value, -1) {
			replacement := ""
			if f.params[i+1] != "" {
				replacement, _ = FillGroups(f.params[i+1], value, maxMacroResult, GroupsOf(value, at))
			}
			out.WriteString(value[end:at[0]] + replacement)
			end = at[1]
			if out.Len() > maxMacroResult {
				return "", false
			}
		}
		value = out.String() + value[end:]
	}
	return value, true
}

// compileMacroPattern compiles a regular expression of a macro function. It refuses invalid and large expressions.
func compileMacroPattern(source string) (*regexp.Regexp, bool) {
	pattern, steps, err := item.CompilePattern(source)
	return pattern, err == nil && steps <= maxMacroPatternSteps
}

// formatNumber formats a number with the decimal places that the macro function fmtnum requests. An integer
// stays as written.
func (f *macroFunction) formatNumber(value string) (string, bool) {
	if len(f.params) != 1 {
		return "", false
	}
	if _, err := strconv.ParseUint(value, 10, 64); err == nil {
		return value, true
	}
	number, err := strconv.ParseFloat(value, 64)
	places, placesErr := strconv.Atoi(f.params[0])
	if err != nil || placesErr != nil || places < 0 || places > 20 {
		return "", false
	}
	return strconv.FormatFloat(number, 'f', places, 64), true
}

// formatTime formats a time by the macro function fmttime, whose parameters are strftime's format and a time shift. The
// value is a Unix time, or a time of the wall clock with or without a date. A time without a date is of 1 January 1970.
func (f *macroFunction) formatTime(value string, zone *time.Location) (string, bool) {
	if len(f.params) != 1 && len(f.params) != 2 {
		return "", false
	}
	at, ok := parseMacroTime(value, zone)
	if !ok {
		return "", false
	}
	if len(f.params) == 2 {
		shift, problem := item.ParseTimeShift(f.params[1])
		if problem != "" {
			return "", false
		}
		for _, step := range shift {
			if step.Unit == 's' || step.Unit == 'm' {
				return "", false
			}
		}
		at = shift.Apply(at)
	}
	out := strftime.Format(f.params[0], at)
	return out, out != "" && len(out) <= maxMacroResult
}

// parseMacroTime parses a value of the macro function fmttime. A time zone behind a date with time does not count, as in
// Zabbix.
func parseMacroTime(value string, zone *time.Location) (at time.Time, ok bool) {
	value = strings.TrimLeft(value, " \t")
	for _, form := range []string{"15:4:5", "2006-1-2T15:4:5"} {
		for n := min(len(value), len("2006-01-02T15:04:05")); n >= len("1:2:3"); n-- { // further text does not count
			t, err := time.ParseInLocation(form, value[:n], zone)
			if err != nil || strings.Contains(value[:n], ".") {
				continue
			}
			if t.Year() == 0 {
				t = time.Date(1970, 1, 1, t.Hour(), t.Minute(), t.Second(), 0, zone)
			}
			return t, true
		}
	}
	digits := value[:len(value)-len(strings.TrimLeft(value, "0123456789"))]
	seconds, err := strconv.ParseInt(digits, 10, 32)
	return time.Unix(seconds, 0).In(zone), err == nil && seconds != 0
}

// transliterate replaces single bytes of a value by the macro function tr. Its parameters are lists of bytes with ranges
// such as a-z, as in the program tr; the last byte of a shorter second list replaces all further ones of the first.
func (f *macroFunction) transliterate(value string) (string, bool) {
	if len(f.params) != 2 {
		return "", false
	}
	from, ok := expandBytes(f.params[0])
	to, okTo := expandBytes(f.params[1])
	if !ok || !okTo {
		return "", false
	}
	if len(from) == 0 || len(to) == 0 {
		return value, true
	}
	var table [256]byte
	for i := range table {
		table[i] = byte(i)
	}
	for i, c := range from {
		table[c] = to[min(i, len(to)-1)]
	}
	out := []byte(value)
	for i, c := range out {
		out[i] = table[c]
	}
	return replaceInvalid(string(out)), true
}

// maxTransliteration bounds a list of bytes of the macro function tr, with its ranges written out.
const maxTransliteration = 511

// controls has the control characters that the macro function tr writes as a backslash with a letter.
var controls = map[byte]byte{'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}

// expandBytes writes out the ranges and escapes in a list of bytes for the macro function tr. ok is false for a
// descending range and for a long list.
func expandBytes(list string) (out []byte, ok bool) {
	first, ranged := byte(0), false
	for i := 0; i < len(list); i++ {
		c := list[i]
		if c == '\\' {
			if i++; i == len(list) {
				return append(out, '\\'), len(out) < maxTransliteration
			}
			c = list[i]
			if control, ok := controls[c]; ok {
				c = control
			}
		}
		if !ranged && i+2 < len(list) && list[i+1] == '-' {
			first, ranged = c, true
			i++
			continue
		}
		if !ranged {
			first = c
		}
		if first > c {
			return nil, false
		}
		for n := int(first); n <= int(c); n++ {
			out = append(out, byte(n))
		}
		if ranged = false; len(out) > maxTransliteration {
			return nil, false
		}
	}
	return out, true
}

// replaceInvalid replaces each byte that is not part of a character by a question mark.
func replaceInvalid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if r == utf8.RuneError {
			r = '?'
		}
		out.WriteRune(r)
	}
	return out.String()
}

// decodeURL decodes %41 and + in a value. A value with an invalid escape stays as it is, as in Zabbix.
func decodeURL(value string) string {
	out, err := url.QueryUnescape(value)
	if err != nil {
		return value
	}
	return replaceInvalid(out)
}

// GroupsOf returns a function that returns the n-th capture group of a regular expression's match. at has the
// positions of the groups in the text.
func GroupsOf(text string, at []int) func(n int) (string, bool) {
	return func(n int) (string, bool) {
		if 2*n+1 >= len(at) || at[2*n] < 0 {
			return "", false
		}
		return text[at[2*n]:at[2*n+1]], true
	}
}

// FillGroups fills an output template of Zabbix, such as \1, with the capture groups of a match. \0 to \9 stand
// for groups, \@ for a required first group, and \\ for a backslash. An empty template stands for the whole
// text. FillGroups stops behind most bytes, which the caller sees by the length of the result.
func FillGroups(template, text string, most int, group func(n int) (string, bool)) (out string, ok bool) {
	if template == "" {
		return text, true
	}
	var b strings.Builder
	for i := 0; i < len(template) && b.Len() <= most; i++ {
		c := template[i]
		if c != '\\' || i+1 == len(template) {
			b.WriteByte(c)
			continue
		}
		switch c = template[i+1]; {
		case c == '\\':
			b.WriteByte(c)
		case c >= '0' && c <= '9':
			part, _ := group(int(c - '0'))
			b.WriteString(part)
		case c == '@':
			part, ok := group(1)
			if !ok {
				return "", false
			}
			b.WriteString(part)
		default:
			b.WriteByte('\\')
			continue
		}
		i++
	}
	return b.String(), true
}
