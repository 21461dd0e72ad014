package sensuimport

import (
	"regexp"
	"strings"
)

// attributeWords are parts of conditions over nodes with Sensu's form of them.
var attributeWords = []struct {
	ours  *regexp.Regexp
	sensu string
}{
	{regexp.MustCompile(`("(?:[^"\\]|\\.)*") in node\.groups`), `entity.subscriptions.indexOf($1) >= 0`},
	{regexp.MustCompile(`\.matches\("([^"\\/]*)"\)`), `.match(/$1/)`},
	{regexp.MustCompile(`\.contains\(("(?:[^"\\]|\\.)*")\)`), `.indexOf($1) >= 0`},
	{regexp.MustCompile(`node\.labels\[`), `entity.labels[`},
	{regexp.MustCompile(`node\.facts\[`), `entity.system[`},
	{regexp.MustCompile(`node\.(name|namespace)\b`), `entity.$1`},
}

// Attributes writes a condition over proxy nodes as Sensu's expressions over entities. not ok: an import of the
// expressions makes another condition.
func Attributes(where string) (expressions []string, ok bool) {
	expressions = []string{"entity.entity_class == 'proxy'"} // Muster's condition selects proxy nodes only
	for _, part := range conjuncts(where) {
		for _, w := range attributeWords {
			part = w.ours.ReplaceAllString(part, w.sensu)
		}
		expressions = append(expressions, part)
	}
	back, err := condition(expressions)
	return expressions, err == nil && back == where
}

// conjuncts are the parts of a condition that must all hold.
func conjuncts(where string) (parts []string) {
	depth, from, quoted := 0, 0, false
	for i := 0; i < len(where); i++ {
		switch c := where[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '(':
			depth++
		case c == ')':
			depth--
		case depth == 0 && strings.HasPrefix(where[i:], " && "):
			parts = append(parts, where[from:i])
			from = i + len(" && ")
			i = from - 1
		}
	}
	return append(parts, where[from:])
}
