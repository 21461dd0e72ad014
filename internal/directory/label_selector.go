package directory

import (
	"slices"
	"strings"
	"unique"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/where"
)

// Selector is a parsed label selector, which is a list of requirements. A node must fulfil all requirements.
//
//	env=prod   env!=prod (also without the label)   os in (linux,bsd)   os notin (a,b)
//	owner (there is such a label)   !owner (there is none)
type Selector struct{ requirements []requirement }

// requirement is one requirement of a label selector, such as env=prod. It has a key and values; negated means that
// the values are excluded.
type requirement struct {
	key     string
	values  []string // none: the requirement is about the key alone
	negated bool
}

// ParseSelector parses a label selector such as env=prod,tier!=db. An empty text selects everything.
func ParseSelector(text string) (Selector, error) {
	var s Selector
	for _, part := range splitOutsideParentheses(text) {
		part = strings.TrimSpace(part)
		r, ok := parseRequirement(part)
		if !ok {
			return Selector{}, model.Errorf(model.Invalid, "label selector %q: cannot parse the part %q", text, part).
				WithHint("write KEY=VALUE, KEY!=VALUE, KEY in (A,B), KEY notin (A,B), KEY or !KEY, with commas between")
		}
		s.requirements = append(s.requirements, r)
	}
	return s, nil
}

// splitOutsideParentheses splits a text at commas outside parentheses.
func splitOutsideParentheses(text string) (parts []string) {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	depth, start := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				parts = append(parts, text[start:i])
				start = i + 1
			}
		}
	}
	return append(parts, text[start:])
}

// parseRequirement parses one requirement of a label selector, such as tier!=db or env in (test, prod).
func parseRequirement(part string) (requirement, bool) {
	if key, list, ok := strings.Cut(part, "("); ok {
		list, closed := strings.CutSuffix(strings.TrimSpace(list), ")")
		words := strings.Fields(key)
		if !closed || len(words) != 2 || words[1] != "in" && words[1] != "notin" {
			return requirement{}, false
		}
		r := requirement{key: words[0], negated: words[1] == "notin"}
		for v := range strings.SplitSeq(list, ",") {
			r.values = append(r.values, strings.TrimSpace(v))
		}
		return r, isLabelKey(r.key)
	}
	if key, value, ok := strings.Cut(part, "!="); ok {
		return newRequirement(key, value, true)
	}
	if key, value, ok := strings.Cut(part, "=="); ok {
		return newRequirement(key, value, false)
	}
	if key, value, ok := strings.Cut(part, "="); ok {
		return newRequirement(key, value, false)
	}
	key, not := strings.CutPrefix(part, "!")
	return requirement{key: strings.TrimSpace(key), negated: not}, isLabelKey(strings.TrimSpace(key))
}

// newRequirement makes the selector requirement key=value, or key!=value if `not` is true
func newRequirement(key, value string, not bool) (requirement, bool) {
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	return requirement{key: key, values: []string{value}, negated: not}, isLabelKey(key) && !strings.ContainsAny(value, "=!()")
}

// isLabelKey reports whether a text may be the key of a label.
func isLabelKey(key string) bool { return key != "" && !strings.ContainsAny(key, " \t=!(),") }

// Matches reports whether a set of labels fulfils the selector.
func (s Selector) Matches(labels map[string]string) bool {
	for _, r := range s.requirements {
		value, found := labels[r.key]
		if len(r.values) > 0 {
			found = found && slices.Contains(r.values, value)
		}
		if found == r.negated {
			return false
		}
	}
	return true
}

// Filter removes from a set of nodes all nodes whose labels do not match the selector. It reads the node sets
// of labels and label keys, and visits no single node.
func (s Selector) Filter(nodes *roaring.Bitmap, byLabel func(where.Pair) *roaring.Bitmap, byKey func(unique.Handle[string]) *roaring.Bitmap) *roaring.Bitmap {
	for _, r := range s.requirements {
		selected := roaring.New()
		add := func(with *roaring.Bitmap) {
			if with != nil {
				selected.Or(with)
			}
		}
		key := unique.Make(r.key)
		if len(r.values) == 0 {
			add(byKey(key))
		}
		for _, v := range r.values {
			add(byLabel(where.Pair{Key: key, Value: unique.Make(v)}))
		}
		if r.negated {
			nodes.AndNot(selected)
		} else {
			nodes.And(selected)
		}
	}
	return nodes
}
