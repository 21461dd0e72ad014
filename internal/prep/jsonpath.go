package prep

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// maxJSONMatches bounds the values that a JSONPath matches in all its segments.
const maxJSONMatches = 1 << 20

// errNoMatch is the error of a JSONPath that matches nothing.
var errNoMatch = errors.New("no data matches the specified path")

// jsonPath is a compiled path in Zabbix's dialect of JSONPath. A definite path names at most one value.
type jsonPath struct {
	segments []pathSegment
	definite bool
	plain    bool // names and indexes only, one per segment
}

// segmentKind is the kind of a JSONPath segment, such as name, index or filter
type segmentKind uint8

const (
	byName     segmentKind = iota // members with one of the names
	byIndex                       // elements with one of the indexes, from the end if negative
	bySlice                       // elements from (inclusive) to (exclusive)
	everyChild                    // *
	byFilter                      // ?(expression)
	nameOf                        // ~: the name or index of a value instead of the value
	aggregate                     // min(), max(), avg(), sum(), length(), first()
)

// pathSegment is one segment of a JSONPath, such as .name or [0]
type pathSegment struct {
	kind     segmentKind
	deep     bool // ..: of all descendants
	names    []memberName
	indexes  []int
	from, to *int
	filter   filterExpr
	function string
}

// jsonMatch is one value that a JSONPath selects from a document or computes. It is a node of the document with its
// position among its siblings, or a text that a function computed.
type jsonMatch struct {
	node     uint32
	position int
	computed bool
	text     string
	number   bool // the computed text is a number
}

// find returns the JSON node that a plain path selects, starting at node n. A plain path has only names and indexes.
func (p *jsonPath) find(t *jsonTree, n uint32) (uint32, bool) {
	for i := range p.segments {
		var ok bool
		if n, _, ok = t.child(n, &p.segments[i], 0); !ok {
			return 0, false
		}
	}
	return n, true
}

// child returns the child of JSON node n with a member name or index of the segment. `at` is the number of the
// name or index in the segment's list. Of members with the same name it is the last one.
func (t *jsonTree) child(n uint32, s *pathSegment, at int) (found uint32, position int, ok bool) {
	want := -1
	if s.kind == byIndex {
		if t.kind(n) != '[' {
			return 0, 0, false
		}
		if want = s.indexes[at]; want < 0 {
			want += t.count(n)
		}
	} else if t.kind(n) != '{' {
		return 0, 0, false
	}
	i := 0
	for c, end := n+1, t.nodes[n].next; c < end; c, i = t.nodes[c].next, i+1 {
		t.visits++
		if s.kind == byIndex {
			if i == want {
				return c, i, true
			}
		} else if t.hasKey(c, s.names[at]) {
			found, position, ok = c, i, true
		}
	}
	return found, position, ok
}

// count returns the number of children of a JSON node.
func (t *jsonTree) count(n uint32) int {
	i := 0
	for c, end := n+1, t.nodes[n].next; c < end; c = t.nodes[c].next {
		i++
	}
	return i
}

// query evaluates a JSONPath on a document, and returns the result as a text. It fails with errNoMatch if nothing
// matches.
func (p *jsonPath) query(t *jsonTree, root uint32) (string, error) {
	if p.plain {
		n, ok := p.find(t, root)
		if !ok {
			return "", errNoMatch
		}
		return t.value(n), nil
	}
	matches, definite, err := p.matches(t, root)
	if err != nil {
		return "", err
	}
	if len(matches) == 0 {
		return "", errNoMatch
	}
	if definite {
		if m := matches[0]; m.computed {
			return m.text, nil
		}
		return t.value(matches[0].node), nil
	}
	out, most := []byte{'['}, maxOutputOf(t.text)
	for i, m := range matches {
		if len(out) > most {
			return "", errOutput
		}
		if i > 0 {
			out = append(out, ',')
		}
		switch {
		case m.computed && !m.number:
			out = appendJSONString(out, m.text)
		case m.computed:
			out = append(out, m.text...)
		default:
			out = append(out, t.compact(m.node)...)
		}
	}
	return string(append(out, ']')), nil
}

// matches returns the values that a JSONPath selects. The bool is true if the path, by its syntax, selects at most one
// value.
func (p *jsonPath) matches(t *jsonTree, root uint32) ([]jsonMatch, bool, error) {
	set, definite := []jsonMatch{{node: root}}, true
	for i := range p.segments {
		s := &p.segments[i]
		var err error
		switch s.kind {
		case nameOf:
			set, err = t.namesOf(set)
		case aggregate:
			set, err = t.aggregate(set, definite, s.function)
			definite = true
		default:
			q := jsonQuery{tree: t, segment: s}
			for _, m := range set {
				if m.computed || err != nil {
					continue
				}
				err = q.selectChildren(m.node)
			}
			set = q.matches
			definite = definite && s.selectsAtMostOne()
		}
		if err != nil {
			return nil, false, err
		}
	}
	return set, definite, nil
}

// selectsAtMostOne reports whether a JSONPath segment selects at most one value.
func (s *pathSegment) selectsAtMostOne() bool {
	return !s.deep && (s.kind == byName && len(s.names) == 1 || s.kind == byIndex && len(s.indexes) == 1)
}

// jsonQuery collects the values that one JSONPath segment selects.
type jsonQuery struct {
	tree    *jsonTree
	segment *pathSegment
	matches []jsonMatch
}

// selectChildren collects the children of a JSON node that the segment selects. A recursive segment selects all
// matching descendants. children of all descendants, in the order of the document.
func (q *jsonQuery) selectChildren(n uint32) error {
	t, s := q.tree, q.segment
	if !t.isContainer(n) {
		return nil
	}
	if !s.deep && (s.kind == byName || s.kind == byIndex) {
		for at := range len(s.names) + len(s.indexes) {
			if c, position, ok := t.child(n, s, at); ok {
				q.matches = append(q.matches, jsonMatch{node: c, position: position})
			}
		}
		return nil
	}
	if s.kind == byFilter && s.filter.equality != nil && !s.deep {
		if children, ok := t.candidates(n, s.filter.equality); ok {
			return q.filterCandidates(children)
		}
	}
	from, to := 0, -1
	count := -1
	if s.kind == bySlice || s.kind == byIndex {
		count = t.count(n)
		from, to = s.bounds(count)
	}
	i := 0
	for c, end := n+1, t.nodes[n].next; c < end; c, i = t.nodes[c].next, i+1 {
		if err := t.countVisit(); err != nil {
			return err
		}
		ok := s.kind == everyChild
		switch s.kind {
		case byName:
			ok = slices.ContainsFunc(s.names, func(m memberName) bool { return t.hasKey(c, m) })
		case byIndex:
			ok = t.kind(n) == '[' && (slices.Contains(s.indexes, i) || slices.Contains(s.indexes, i-count))
		case bySlice:
			ok = t.kind(n) == '[' && i >= from && i < to
		case byFilter:
			var err error
			if ok, err = q.passes(c); err != nil {
				return err
			}
		}
		if ok {
			if err := q.add(jsonMatch{node: c, position: i}); err != nil {
				return err
			}
		}
		if s.deep {
			if err := q.selectChildren(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// filterCandidates adds to the result all children that pass the filter of the path segment.
func (q *jsonQuery) filterCandidates(children []jsonMatch) error {
	for _, m := range children {
		ok, err := q.passes(m.node)
		if err == nil && ok {
			err = q.add(m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// passes reports whether a JSON value passes the segment's filter, and counts the evaluation
func (q *jsonQuery) passes(n uint32) (bool, error) {
	if q.tree.steps++; q.tree.steps > maxFilterSteps {
		return false, fmt.Errorf("the JSONPath filters evaluate more than %d values of the document", maxFilterSteps)
	}
	if err := q.tree.countVisit(); err != nil {
		return false, err
	}
	v, err := q.segment.filter.eval(q.tree, n)
	return v.isTrue(), err
}

// maxVisits bounds how often the paths of a document visit its values. The limit is a second of processor time.
const maxVisits = 1 << 26

// countVisit counts one more visited value of the JSON document, and fails above the limit.
func (t *jsonTree) countVisit() error {
	if t.visits++; t.visits > maxVisits {
		return fmt.Errorf("all paths visit more than %d values of this document", maxVisits)
	}
	return nil
}

// add adds a value to the result of the path segment, or fails at the limit of values.
func (q *jsonQuery) add(m jsonMatch) error {
	if len(q.matches) == maxJSONMatches {
		return fmt.Errorf("the JSONPath matches more than %d values", maxJSONMatches)
	}
	q.matches = append(q.matches, m)
	return nil
}

// bounds returns the first and last array index that a JSONPath slice selects. The last position is exclusive;
// the array has n elements.
func (s *pathSegment) bounds(n int) (from, to int) {
	from, to = 0, n
	if s.from != nil {
		if from = *s.from; from < 0 {
			from = max(from+n, 0)
		}
	}
	if s.to != nil {
		if to = *s.to; to < 0 {
			to += n
		}
	}
	return from, min(to, n)
}

// namesOf replaces selected values by their member names or array indexes, for the JSONPath operator tilde (~).
// The JSONPath operator ~ does this.
func (t *jsonTree) namesOf(set []jsonMatch) ([]jsonMatch, error) {
	out := make([]jsonMatch, 0, len(set))
	for _, m := range set {
		switch {
		case m.computed || m.node == 0:
			return nil, errors.New("cannot get the name of a value that has none")
		case t.nodes[m.node].key != 0:
			out = append(out, jsonMatch{computed: true, text: t.key(m.node)})
		default:
			out = append(out, jsonMatch{computed: true, text: strconv.Itoa(m.position)})
		}
	}
	return out, nil
}

// aggregate applies a function such as sum to the selected values. For a definite path it applies the function to the
// elements of the one selected array.
func (t *jsonTree) aggregate(set []jsonMatch, definite bool, function string) ([]jsonMatch, error) {
	if definite {
		if len(set) == 0 {
			return nil, errNoMatch
		}
		n := set[0].node
		if set[0].computed || t.kind(n) != '[' && !(function == "length" && t.kind(n) == '{') {
			return nil, fmt.Errorf("cannot apply function %s() to a value that is not an array", function)
		}
		set = nil
		for c, end := n+1, t.nodes[n].next; c < end; c = t.nodes[c].next {
			set = append(set, jsonMatch{node: c, position: len(set)})
		}
	}
	switch {
	case function == "length":
		return []jsonMatch{{computed: true, number: true, text: strconv.Itoa(len(set))}}, nil
	case len(set) == 0:
		return nil, errNoMatch
	case function == "first":
		return set[:1], nil
	}
	var sum, low, high float64
	for i, m := range set {
		text := m.text
		if !m.computed {
			text = t.value(m.node)
		}
		f, ok := parseFloat(text)
		if !ok {
			return nil, fmt.Errorf("cannot apply function %s() to %q, which is not a number", function, shorten(text, maxFailureValue))
		}
		if sum += f; i == 0 {
			low, high = f, f
		}
		low, high = min(low, f), max(high, f)
	}
	result := map[string]float64{"min": low, "max": high, "sum": sum, "avg": sum / float64(len(set))}[function]
	return []jsonMatch{{computed: true, number: true, text: textOf(item.FromFloat(result))}}, nil
}

// parseJSONPath parses a path in Zabbix's dialect of JSONPath
func parseJSONPath(source string) (*jsonPath, error) {
	r := pathReader{source: strings.TrimSpace(source)}
	if !r.accept("$") {
		return nil, model.Errorf(model.Invalid, "invalid path %q: it does not begin with $", source)
	}
	p, err := r.readPath()
	if err == nil && r.at < len(r.source) {
		err = r.unexpected()
	}
	if err == nil && len(p.segments) == 0 {
		err = errors.New("it has no segment")
	}
	if err != nil {
		return nil, model.Errorf(model.Invalid, "invalid path %q: %w", source, err)
	}
	return p, nil
}

// pathReader parses the text of a JSONPath from left to right
type pathReader struct {
	source string
	at     int
	depth  int // parentheses and paths inside each other
}

// accept skips the given text and returns true, if the unread part starts with the given text
func (r *pathReader) accept(text string) bool {
	if strings.HasPrefix(r.source[r.at:], text) {
		r.at += len(text)
		return true
	}
	return false
}

// skipSpace skips white space in the reader's text
func (r *pathReader) skipSpace() {
	for r.at < len(r.source) && (r.source[r.at] == ' ' || r.source[r.at] == '\t') {
		r.at++
	}
}

// unexpected returns the syntax error at the next character of a path
func (r *pathReader) unexpected() error {
	if r.at >= len(r.source) {
		return errors.New("it ends too early")
	}
	return fmt.Errorf("unexpected text at character %d: %s", r.at+1, shorten(r.source[r.at:], 40))
}

// readPath parses the segments of a path after $ or @
func (r *pathReader) readPath() (*jsonPath, error) {
	p := &jsonPath{definite: true, plain: true}
	for r.at < len(r.source) {
		var s pathSegment
		var err error
		dot := false
		switch {
		case r.accept(".."):
			s.deep, dot = true, true
		case r.accept("."):
			dot = true
		case r.accept("~"):
			s.kind = nameOf
		case r.source[r.at] != '[':
			return p, nil
		}
		if s.kind != nameOf {
			if r.accept("[") {
				err = r.readBracket(&s)
			} else if dot {
				err = r.readDotted(&s)
			}
		}
		if err != nil {
			return nil, err
		}
		if n := len(p.segments); n > 0 && p.segments[n-1].kind >= nameOf && s.kind != aggregate {
			return nil, fmt.Errorf("JSONPath, character %d: only a function may follow a function or ~", r.at)
		}
		p.segments = append(p.segments, s)
		p.plain = p.plain && s.selectsAtMostOne()
		p.definite = s.kind == aggregate || p.definite && (s.kind == nameOf || s.selectsAtMostOne())
	}
	return p, nil
}

// readDotted parses the part of a JSONPath after a dot, such as a name or a function
func (r *pathReader) readDotted(s *pathSegment) error {
	if r.accept("*") {
		s.kind = everyChild
		return nil
	}
	start := r.at
	for r.at < len(r.source) {
		c := r.source[r.at]
		if c != '_' && c != '$' && c < 0x80 && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			break
		}
		r.at++
	}
	name := r.source[start:r.at]
	if name == "" {
		return r.unexpected()
	}
	if !r.accept("(") {
		s.names = []memberName{newMemberName(name)}
		return nil
	}
	s.kind, s.function = aggregate, name
	if !slices.Contains([]string{"min", "max", "avg", "sum", "length", "first"}, name) || s.deep {
		return fmt.Errorf("unknown function %s()", name)
	}
	if !r.accept(")") {
		return r.unexpected()
	}
	return nil
}

// readBracket parses the content of square brackets in a JSONPath. The content is *, names, indexes, a slice or a
// filter.
func (r *pathReader) readBracket(s *pathSegment) error {
	r.skipSpace()
	switch {
	case r.accept("*"):
		s.kind = everyChild
	case r.accept("?"):
		r.skipSpace()
		if !r.accept("(") {
			return r.unexpected()
		}
		s.kind = byFilter
		var err error
		if s.filter, err = r.readFilter(0); err != nil {
			return err
		}
		if !r.accept(")") {
			return r.unexpected()
		}
	case r.at < len(r.source) && (r.source[r.at] == '\'' || r.source[r.at] == '"'):
		for {
			name, err := r.readQuoted()
			if err != nil {
				return err
			}
			if name == "" {
				return errors.New("a name is empty")
			}
			if m := newMemberName(name); !slices.Contains(s.names, m) {
				s.names = append(s.names, m)
			}
			if r.skipSpace(); !r.accept(",") {
				break
			}
			r.skipSpace()
		}
	default:
		if err := r.readPositions(s); err != nil {
			return err
		}
	}
	if r.skipSpace(); !r.accept("]") {
		return r.unexpected()
	}
	return nil
}

// readPositions parses a list of array indexes or a slice
func (r *pathReader) readPositions(s *pathSegment) error {
	s.kind = byIndex
	for {
		r.skipSpace()
		n, ok := r.readInteger()
		r.skipSpace()
		if len(s.indexes) == 0 && r.accept(":") {
			s.kind = bySlice
			if ok {
				s.from = &n
			}
			r.skipSpace()
			if to, ok := r.readInteger(); ok {
				s.to = &to
			}
			return nil
		}
		if !ok {
			return r.unexpected()
		}
		if !slices.Contains(s.indexes, n) {
			s.indexes = append(s.indexes, n)
		}
		if !r.accept(",") {
			return nil
		}
	}
}

// readInteger parses an array index
func (r *pathReader) readInteger() (int, bool) {
	end := r.at
	for end < len(r.source) && (r.source[end] >= '0' && r.source[end] <= '9' || end == r.at && r.source[end] == '-') {
		end++
	}
	n, err := strconv.ParseInt(r.source[r.at:end], 10, 32)
	if err != nil {
		return 0, false
	}
	r.at = end
	return int(n), true
}

// readQuoted parses a text in quotes in a path. A backslash escapes itself and both quotes.
func (r *pathReader) readQuoted() (string, error) {
	if r.at == len(r.source) || r.source[r.at] != '\'' && r.source[r.at] != '"' {
		return "", r.unexpected()
	}
	quote := r.source[r.at]
	var b strings.Builder
	for r.at++; r.at < len(r.source); r.at++ {
		c := r.source[r.at]
		if c == quote {
			r.at++
			return b.String(), nil
		}
		if c == '\\' {
			if r.at++; r.at == len(r.source) || strings.IndexByte(`'"\`, r.source[r.at]) < 0 {
				return "", r.unexpected()
			}
			c = r.source[r.at]
		}
		b.WriteByte(c)
	}
	return "", errors.New("a closing quote is missing")
}
