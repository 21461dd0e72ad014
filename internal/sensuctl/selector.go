package sensuctl

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// selectors holds the terms of a request's field selector and label selector. An object must match all of them, such
// as check.name == "disk" && region in [eu, us] && "db" notin entity.subscriptions.
type selectors []selectorTerm

// selectorTerm is one comparison of a selector, such as check.name == "disk". It has a left operand, an operator and
// right operands. An operand is the path of a field, or a text, which may be in quotation marks.
type selectorTerm struct {
	onLabels    bool // operands are names of labels, not paths of fields
	left        string
	op          string // ==, !=, in, notin, matches
	right       []string
	listOperand bool // right is written as [a, b]
}

// maxSelector bounds the length of a selector, in bytes.
const maxSelector = 4096

// parseSelectors parses the field and label selectors of a list request for a type.
func parseSelectors(query url.Values, kind string) (all selectors, err error) {
	for _, of := range []string{"fieldSelector", "labelSelector"} {
		for _, text := range query[of] {
			if len(text) > maxSelector {
				return nil, model.Errorf(model.Invalid, "the selector is longer than %d characters", maxSelector)
			}
			list, err := parseSelector(text)
			if err != nil {
				return nil, err
			}
			for i := range list {
				list[i].onLabels = of == "labelSelector"
				if err := list[i].checkField(kind); err != nil {
					return nil, err
				}
			}
			all = append(all, list...)
		}
	}
	return all, nil
}

// parseSelector parses a selector, which consists of terms joined by &&.
func parseSelector(text string) (list selectors, err error) {
	words := selectorWord.FindAllString(text, -1)
	if slices.Contains(words, `"`) || slices.Contains(words, "'") {
		return nil, model.Errorf(model.Invalid, "the selector contains a quotation mark that is not closed")
	}
	for len(words) > 0 {
		end := slices.Index(words, "&&")
		if end < 0 {
			end = len(words)
		}
		t, ok := parseTerm(words[:end])
		if !ok || end == len(words)-1 {
			return nil, model.Errorf(model.Invalid, "selector %s: expected NAME == VALUE, !=, in [A, B], notin, or matches, with && between them", model.Shorten(text))
		}
		list, words = append(list, t), words[min(end+1, len(words)):]
	}
	return list, nil
}

// selectorWord matches a text in quotation marks, a mark that is not closed, a sign, or anything up to a blank or sign.
var selectorWord = regexp.MustCompile(`"[^"]*"|'[^']*'|["'\[\],]|==|!=|&&|[^ \t][^ \t\[\],=!&"']*`)

// parseTerm parses one comparison of a selector. The result ok is false if the words form no comparison.
func parseTerm(words []string) (t selectorTerm, ok bool) {
	if len(words) < 3 || !slices.Contains([]string{"==", "!=", "in", "notin", "matches"}, words[1]) {
		return t, false
	}
	t = selectorTerm{left: words[0], op: words[1], right: words[2:]}
	if t.right[0] != "[" {
		return t, len(t.right) == 1
	}
	end := len(t.right) - 1
	ok, t.listOperand = slices.Index(t.right, "]") == end, true
	t.right = slices.DeleteFunc(t.right[1:max(end, 1)], func(w string) bool { return w == "," })
	return t, ok
}

// isQuoted reports whether a word is a text in quotation marks.
func isQuoted(word string) bool { return word[0] == '"' || word[0] == '\'' }

// matches reports whether an object of a type, such as checks, satisfies all terms of the selectors.
func (l selectors) matches(kind string, o object) bool {
	for i := range l {
		if !l[i].matches(kind, o) {
			return false
		}
	}
	return true
}

// matches reports whether a term of a selector is true for an object.
func (t *selectorTerm) matches(kind string, o object) bool {
	left := t.operandValues(t.left, kind, o, false)
	var right []string
	for _, w := range t.right {
		right = append(right, t.operandValues(w, kind, o, true)...)
	}
	common := slices.ContainsFunc(left, func(v string) bool { return slices.Contains(right, v) })
	switch t.op {
	case "!=", "notin":
		return !common
	case "matches":
		return slices.ContainsFunc(left, func(v string) bool {
			return slices.ContainsFunc(right, func(part string) bool { return strings.Contains(v, part) })
		})
	}
	return common
}

// operandValues returns the values that an operand of a selector has in an object. An operand that is no field is
// itself the value. A path that the object does not have is a text on the right side of a term and empty on the left
// side.
func (t *selectorTerm) operandValues(word, kind string, o object, right bool) []string {
	path, isPath := strings.CutPrefix(word, sensuTypes[kind].word+".")
	switch {
	case isQuoted(word):
		return []string{word[1 : len(word)-1]}
	case t.onLabels && !right:
		return labelValues(o, word)
	case t.onLabels || !isPath:
		return []string{word}
	}
	got := fieldValues(kind, o, path)
	switch {
	case got != nil:
		return got
	case right:
		return []string{word}
	}
	return []string{""}
}

// labelValues returns the values of a label of an object. For an event it also looks at the entity and the check.
func labelValues(o object, name string) []string {
	for _, of := range []any{o, o["entity"], o["check"]} {
		of, _ := of.(object)
		meta, _ := of["metadata"].(object)
		labels, _ := meta["labels"].(map[string]string)
		if v, ok := labels[name]; ok {
			return []string{v}
		}
	}
	return []string{""}
}

// fieldValues returns the values of an object's field by its path, such as entity.name. It returns nil if the object
// has no such field.
func fieldValues(kind string, o object, path string) []string {
	if label, ok := strings.CutPrefix(path, "labels."); ok && kind == "events" {
		return labelValues(o, label) // an event also has the labels of its entity and its check
	}
	var value any = o
	for _, part := range strings.Split(path, ".") {
		of, ok := value.(object)
		if !ok {
			if labels, ok := value.(map[string]string); ok {
				return []string{labels[part]}
			}
			return nil
		}
		found := false
		for _, in := range []any{of, of["metadata"], of["spec"], of["check"]} { // an event's is_silenced is its check's
			if in, _ := in.(object); !found {
				value, found = in[part]
			}
		}
		if !found {
			return nil
		}
	}
	switch v := value.(type) {
	case string:
		return []string{v}
	case []string:
		return append([]string{}, v...)
	}
	data, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	return []string{string(data)}
}

// checkField returns an error if the field in a selector's term is unknown. Such a term would match nothing or
// everything.
func (t *selectorTerm) checkField(kind string) error {
	field := t.left
	if (t.op == "in" || t.op == "notin") && !t.listOperand { // db in entity.subscriptions
		field = t.right[0]
	}
	if t.onLabels || isQuoted(field) {
		return nil
	}
	word, rest, _ := strings.Cut(field, ".")
	parts, has := strings.Split(rest, "."), sensuTypes[kind].fields
	unknown := model.Errorf(model.Invalid, "the selector is invalid: this list has no field %s", model.Shorten(field))
	if word != sensuTypes[kind].word || rest == "" {
		return unknown.WithHint("type %[1]s.name, %[1]s.labels.NAME, …: fields begin with %[1]s", sensuTypes[kind].word)
	}
	if inner := map[string]string{"check": "checks", "entity": "entities"}[parts[0]]; kind == "events" && inner != "" && len(parts) > 1 {
		has, word, parts = sensuTypes[inner].fields, word+"."+parts[0], parts[1:]
		if inner == "checks" {
			has += " " + eventCheckFields
		}
	}
	if parts[0] == "metadata" && len(parts) > 1 {
		parts = parts[1:]
	}
	if all := strings.Fields(commonFields + " " + has); !slices.Contains(all, parts[0]) {
		return unknown.WithHint("type %s. and one of: %s", word, strings.Join(all, ", "))
	}
	return nil
}
