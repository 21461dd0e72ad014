package model

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"strconv"
	"strings"

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
	}
	convert := map[string]func(string) string{
		"lowercase": strings.ToLower, "uppercase": strings.ToUpper, "urlencode": url.PathEscape,
		"btoa":       func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"htmlencode": strings.NewReplacer("&", "&amp;", `"`, "&quot;", "'", "&#39;", "<", "&lt;", ">", "&gt;").Replace,
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
