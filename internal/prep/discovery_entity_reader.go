package prep

import (
	"fmt"

	"github.com/muster-fleet/muster/internal/model"
)

// EntityReader reads the discovered entities, such as disks, in the values of a discovery rule. It is immutable.
type EntityReader struct {
	paths map[string]*jsonPath // by macro
}

// NewEntityReader returns an EntityReader with the JSONPath for the value of each discovery macro.
func NewEntityReader(paths map[string]string) (*EntityReader, error) {
	r := &EntityReader{paths: map[string]*jsonPath{}}
	for macro, source := range paths {
		path, err := parseJSONPath(source)
		if err != nil {
			return nil, model.Errorf(model.ClassOf(err), "JSONPath of macro %s: %w", macro, err)
		}
		r.paths[macro] = path
	}
	return r, nil
}

// Read calls a function for every entity in a discovered list, until the function returns false. The list is a
// JSON list, or the field data of a JSON object. macro returns the value of a macro in the object. Other
// elements of the list are left out, as in Zabbix.
func (r *EntityReader) Read(text string, each func(macro func(name string) (string, bool)) bool) error {
	var t jsonTree
	if err := t.parseJSON(text); err != nil {
		return err
	}
	list := uint32(0)
	if t.kind(list) == '{' {
		list, _ = t.member(0, "data")
	}
	if t.kind(list) != '[' {
		return fmt.Errorf("expected a JSON list of entities such as [{\"{#NAME}\": \"a\"}], or an object with such a list in the field \"data\"")
	}
	for n, end := list+1, t.nodes[list].next; n < end; n = t.nodes[n].next {
		if t.kind(n) != '{' {
			continue
		}
		if !each(func(name string) (string, bool) { return r.macro(&t, n, name) }) {
			break
		}
	}
	return nil
}

// macro returns the value of a discovery macro, such as {#NAME}, for one discovered entity. It is the value at
// the macro's JSONPath or, without a path, of the member with the macro's name.
func (r *EntityReader) macro(t *jsonTree, n uint32, name string) (string, bool) {
	if path := r.paths[name]; path != nil {
		value, err := path.query(t, n)
		return value, err == nil
	}
	c, ok := t.member(n, name)
	switch {
	case !ok:
		return "", false
	case t.raw(c) == "null":
		return "", true
	}
	return t.value(c), true
}

// member returns the member of a JSON object by its name.
func (t *jsonTree) member(n uint32, name string) (uint32, bool) {
	m := newMemberName(name)
	for c, end := n+1, t.nodes[n].next; c < end; c = t.nodes[c].next {
		if t.hasKey(c, m) {
			return c, true
		}
	}
	return n, false
}

// Matcher is a compiled regular expression that matches like PCRE.
type Matcher struct{ of *pattern }

// CompileMatcher compiles a regular expression.
func CompileMatcher(source string) (Matcher, error) {
	p, err := compilePattern(source, matchLines)
	return Matcher{p}, err
}

// Match reports whether the regular expression matches a text. It fails if that takes too long.
func (m Matcher) Match(text string) (bool, error) { return m.of.match(text) }
