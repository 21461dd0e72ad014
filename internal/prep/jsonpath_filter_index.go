package prep

import (
	"math"
	"strings"
)

// maxFilterSteps bounds how many values the JSONPath filters evaluate in one document. The limit is about half a
// second of processor time. The dependents of a master share the document, and so the bound.
const maxFilterSteps = 1 << 22

// indexedUses is how often a container is filtered before an index is made. The filters are JSONPath filters by
// equality. An index pays only for dependents that look for one element each.
const indexedUses = 2

// filterEquality is a comparison in a JSONPath filter with a constant, such as @.name == "eth0"
type filterEquality struct {
	member *jsonPath
	name   string // the member's path as a text
	key    equalityKey
}

// equalityKey is a map key for values that the operator == calls equal. Numbers are equal by value, all others by
// text.
type equalityKey struct {
	number bool
	bits   uint64 // of the float64
	text   string
}

// equalityIndex finds the elements of a JSON array or object by the value of one member. An example of a member is
// @.name. The elements have the value. It is made when paths have filtered the container by this member indexedUses
// times.
type equalityIndex struct {
	container uint32
	name      string
	uses      int
	children  map[equalityKey][]jsonMatch // in the order of the document; nil: not made yet
}

// equalityOf finds a comparison (path == constant) that must be true for a filter expression to be true. It
// returns nil if there is none. The expression is an operator with two operands.
func equalityOf(operator string, left, right filterExpr) *filterEquality {
	switch {
	case operator == "&&":
		return left.equality
	case operator != "==":
		return nil
	case left.member == nil:
		left, right = right, left
	}
	if left.member == nil || right.constant == nil {
		return nil
	}
	var name strings.Builder
	for i := range left.member.segments {
		s := &left.member.segments[i]
		if s.kind != byName {
			return nil
		}
		name.WriteString(s.names[0].name)
		name.WriteByte(0)
	}
	return &filterEquality{member: left.member, name: name.String(), key: right.constant.equalityKey()}
}

// equalityKey returns a key for a map, equal for all values that the operator == calls equal
func (v filterValue) equalityKey() equalityKey {
	if f, ok := v.numeric(); ok {
		return equalityKey{number: true, bits: math.Float64bits(f + 0)} // + 0 makes 0 of -0
	}
	return equalityKey{text: v.text}
}

// candidates uses an index to find the JSON elements that may pass a filter (path == constant). It uses an
// index. ok is false if no index exists yet.
func (t *jsonTree) candidates(container uint32, e *filterEquality) (children []jsonMatch, ok bool) {
	var x *equalityIndex
	for i := range t.indexes {
		if t.indexes[i].container == container && t.indexes[i].name == e.name {
			x = &t.indexes[i]
		}
	}
	if x == nil {
		if len(t.indexes) == maxIndexes {
			return nil, false
		}
		t.indexes = append(t.indexes, equalityIndex{container: container, name: e.name})
		x = &t.indexes[len(t.indexes)-1]
	}
	if x.uses++; x.uses <= indexedUses {
		return nil, false
	}
	if x.children == nil {
		x.children = map[equalityKey][]jsonMatch{}
		i := 0
		for c, end := container+1, t.nodes[container].next; c < end; c, i = t.nodes[c].next, i+1 {
			if v := e.member.filterValue(t, c); v.kind != filterMissing {
				key := v.equalityKey()
				x.children[key] = append(x.children[key], jsonMatch{node: c, position: i})
			}
		}
	}
	return x.children[e.key], true
}

// maxIndexes bounds the equality indexes of a JSON document.
const maxIndexes = 16
