package sensuctl

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// selectors are the terms of a field selector and a label selector, all of which an object must match:
// check.name == "disk" && region in [eu, us] && "db" notin entity.subscriptions.
type selectors []term

// term compares one operand with others.
type term struct {
	label bool // the names are labels
	left  operand
	op    string // ==, !=, in, notin, matches
	right []operand
	list  bool // right is written as [a, b]
}

type operand struct {
	text   string
	quoted bool
}

const maxSelector = 4096

func parseSelectors(query url.Values, kind string) (all selectors, err error) {
	for _, of := range []string{"fieldSelector", "labelSelector"} {
		for _, text := range query[of] {
			if len(text) > maxSelector {
				return nil, model.Errorf(model.Invalid, "a selector has at most %d characters", maxSelector)
			}
			list, err := parseSelector(text)
			if err != nil {
				return nil, err
			}
			for i := range list {
				list[i].label = of == "labelSelector"
				if err := list[i].checkField(kind); err != nil {
					return nil, err
				}
			}
			all = append(all, list...)
		}
	}
	return all, nil
}

// parseSelector reads terms with && between them.
func parseSelector(text string) (list selectors, err error) {
	words, err := selectorWords(text)
	if err != nil || len(words) == 0 {
		return nil, err
	}
	bad := func() error {
		return model.Errorf(model.Invalid, "selector %s: expected NAME == VALUE, !=, in [A, B], notin, or matches, with && between them", model.Shorten(text))
	}
	for {
		if len(words) < 3 {
			return nil, bad()
		}
		t := term{left: words[0], op: words[1].text}
		if words[1].quoted || !slices.Contains([]string{"==", "!=", "in", "notin", "matches"}, t.op) {
			return nil, bad()
		}
		words = words[2:]
		if words[0] == (operand{text: "["}) {
			end := slices.Index(words, operand{text: "]"})
			if end < 0 {
				return nil, bad()
			}
			for _, w := range words[1:end] {
				if w != (operand{text: ","}) {
					t.right = append(t.right, w)
				}
			}
			t.list, words = true, words[end+1:]
		} else {
			t.right, words = words[:1], words[1:]
		}
		list = append(list, t)
		if len(words) == 0 {
			return list, nil
		}
		if words[0] != (operand{text: "&&"}) {
			return nil, bad()
		}
		words = words[1:]
	}
}

// selectorWords splits a selector at blanks and signs, but not inside quotation marks.
func selectorWords(text string) (words []operand, err error) {
	for text = strings.TrimLeft(text, " \t"); text != ""; text = strings.TrimLeft(text, " \t") {
		switch {
		case text[0] == '"' || text[0] == '\'':
			end := strings.IndexByte(text[1:], text[0])
			if end < 0 {
				return nil, model.Errorf(model.Invalid, "selector: a quotation mark is not closed")
			}
			words, text = append(words, operand{text[1 : 1+end], true}), text[end+2:]
		case strings.ContainsRune("[],", rune(text[0])):
			words, text = append(words, operand{text: text[:1]}), text[1:]
		case len(text) > 1 && slices.Contains([]string{"==", "!=", "&&"}, text[:2]):
			words, text = append(words, operand{text: text[:2]}), text[2:]
		default:
			end := strings.IndexAny(text[1:], " \t[],=!&\"'")
			if end < 0 {
				end = len(text) - 1
			}
			words, text = append(words, operand{text: text[:end+1]}), text[end+1:]
		}
	}
	return words, nil
}

// match reports whether an object of a type (checks) matches all terms.
func (l selectors) match(kind string, o object) bool {
	for i := range l {
		if !l[i].match(kind, o) {
			return false
		}
	}
	return true
}

func (t *term) match(kind string, o object) bool {
	left := t.values(t.left, kind, o, false)
	var right []string
	for _, w := range t.right {
		right = append(right, t.values(w, kind, o, true)...)
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

// values returns the values at the path of an operand, or its text. An unknown path is a text on the right and empty on
// the left.
func (t *term) values(w operand, kind string, o object, right bool) []string {
	if w.quoted {
		return []string{w.text}
	}
	if t.label {
		if right {
			return []string{w.text}
		}
		return labelOf(o, w.text)
	}
	if got := valuesAt(kind, o, w.text); got != nil {
		return got
	}
	first, _, dotted := strings.Cut(w.text, ".")
	if right || !dotted || first != types[kind].word {
		return []string{w.text}
	}
	return []string{""}
}

// labelOf returns a label of an object; of an event, also one of its entity or check.
func labelOf(o object, name string) []string {
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

// valuesAt returns the values at a path in Sensu's form: check.name, event.entity.name. nil: there is no such field.
func valuesAt(kind string, o object, path string) []string {
	first, rest, ok := strings.Cut(path, ".")
	if !ok || first == "" || !strings.HasPrefix(kind, first[:min(3, len(first))]) { // entity: entities
		return nil
	}
	if label, ok := strings.CutPrefix(rest, "labels."); ok && kind == "events" {
		return labelOf(o, label) // its own, its entity's and its check's
	}
	var value any = o
	for _, part := range strings.Split(rest, ".") {
		of, ok := value.(object)
		if !ok {
			if labels, ok := value.(map[string]string); ok {
				return []string{labels[part]}
			}
			return nil
		}
		next, ok := of[part]
		if meta, isMeta := of["metadata"].(object); !ok && isMeta {
			next, ok = meta[part]
		}
		if spec, isWrapped := of["spec"].(object); !ok && isWrapped {
			next, ok = spec[part]
		}
		if !ok {
			if part == "is_silenced" {
				check, _ := of["check"].(object)
				next = check[part]
			} else {
				return nil
			}
		}
		value = next
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
	return []string{fmt.Sprintf("%s", data)}
}

// checkField refuses a field that a type does not have: its term would match nothing, or everything.
func (t *term) checkField(kind string) error {
	field := t.left
	if (t.op == "in" || t.op == "notin") && !t.list { // db in entity.subscriptions
		field = t.right[0]
	}
	if t.label || field.quoted {
		return nil
	}
	word, rest, _ := strings.Cut(field.text, ".")
	parts := strings.Split(rest, ".")
	if word != types[kind].word || rest == "" {
		return model.Errorf(model.Invalid, "selector: %s is no field of this list", model.Shorten(field.text)).WithHint("type %[1]s.name, %[1]s.labels.NAME, …: fields begin with %[1]s", types[kind].word)
	}
	has := types[kind].fields
	if kind == "events" && len(parts) > 1 && (parts[0] == "check" || parts[0] == "entity") {
		has, word = types[map[string]string{"check": "checks", "entity": "entities"}[parts[0]]].fields, word+"."+parts[0]
		if parts = parts[1:]; word == "event.check" {
			has += " " + resultFields
		}
	}
	if parts[0] == "metadata" && len(parts) > 1 {
		parts = parts[1:]
	}
	all := append(strings.Fields(everyField), strings.Fields(has)...)
	if !slices.Contains(all, parts[0]) {
		return model.Errorf(model.Invalid, "selector: %s is no field of this list", model.Shorten(field.text)).WithHint("type %s. and one of: %s", word, strings.Join(all, ", "))
	}
	return nil
}
