package follow

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/wire"
)

// Line is the JSON form of one check result, as one line for a stream handler. docs/result-stream.md explains
// the fields.
type Line struct {
	Version   int               `json:"version"` // 1; raised when a field changes its meaning, not by new ones
	Kind      string            `json:"kind"`    // result: routes send notifications the same way
	ID        string            `json:"id"`      // place in the journal: the same however often the line comes
	Namespace string            `json:"namespace"`
	Node      string            `json:"node"`
	Labels    map[string]string `json:"labels,omitempty"`
	Check     string            `json:"check"`
	Status    string            `json:"status"`
	Severity  string            `json:"severity"`
	Output    string            `json:"output"`
	Executed  time.Time         `json:"executed"`
	Received  time.Time         `json:"received"`
	Duration  float64           `json:"duration,omitempty"` // seconds
	Stream    string            `json:"stream,omitempty"`   // stream (numbering of signals) of the node that sent the result
	Number    uint64            `json:"number,omitempty"`   // sequence number in that stream
	Late      bool              `json:"late,omitempty"`     // spooled while the server was away
	RanBy     string            `json:"ranBy,omitempty"`    // the node that ran it for a proxy node
	Values    []Value           `json:"values,omitempty"`
	Event     *Event            `json:"event,omitempty"`
}

// Value is one measured value of a result, in the JSON line that handlers of every result receive.
type Value struct {
	Name  string            `json:"name"`
	Tags  map[string]string `json:"tags,omitempty"`
	Value float64           `json:"value"`
	At    time.Time         `json:"at,omitzero"`
}

// Event is the JSON form of an event's state right after a check result. The line of a result has none if a
// newer result changed the event before the line was written.
type Event struct {
	State        string    `json:"state"` // passing, failing or flapping
	Occurrences  uint32    `json:"occurrences"`
	Watermark    uint32    `json:"watermark"`
	Since        time.Time `json:"since"`
	Problem      string    `json:"problem,omitempty"`
	Acknowledged bool      `json:"acknowledged,omitempty"`
}

// streamedResult is a check result together with the node, check and event fields of its JSON line. Its bytes
// are valid until the reader reads the next entry.
type streamedResult struct {
	at       journal.Position
	index    int // among the results of its commit
	received int64
	node     *nodeText
	nodeID   model.NodeID
	check    *checkText
	status   model.Status
	output   []byte
	executed int64
	duration uint32 // ms
	key      wire.StreamKey
	number   uint64
	ranBy    *nodeText
	extra    []byte
	verdict  event.ResultState
	isNewest bool
}

// appendLine appends the JSON line of a check result, ended by a line feed, to dst.
func appendLine(dst []byte, r *streamedResult) []byte {
	dst = append(dst, `{"version":1,"kind":"result","id":"`...)
	dst = appendHex(dst, r.at.Log)
	dst = strconv.AppendUint(append(dst, '-'), r.at.Number, 10)
	dst = strconv.AppendInt(append(dst, '-'), int64(r.index), 10)
	dst = append(dst, `",`...)
	dst = append(dst, r.node.text...)
	dst = append(dst, r.check.text...)
	dst = append(dst, `,"status":"`...)
	dst = append(dst, r.status.String()...)
	dst = append(dst, `","severity":"`...)
	dst = append(dst, min(r.check.severities[r.status&3], model.Disaster).String()...)
	dst = appendText(append(dst, `","output":`...), r.output)
	dst = appendTime(append(dst, `,"executed":`...), r.executed)
	dst = appendTime(append(dst, `,"received":`...), r.received)
	if r.duration > 0 {
		dst = strconv.AppendFloat(append(dst, `,"duration":`...), float64(r.duration)/1000, 'f', -1, 64)
	}
	if r.number > 0 {
		dst = appendHex(append(dst, `,"stream":"`...), uint64(r.key.Stream))
		dst = strconv.AppendUint(append(dst, `","number":`...), r.number, 10)
	}
	if r.key.Lane == wire.Backlog {
		dst = append(dst, `,"late":true`...)
	}
	if r.ranBy != nil {
		dst = appendText(append(dst, `,"ranBy":`...), r.ranBy.name)
	}
	if len(r.extra) > 0 {
		dst = appendValues(dst, r.extra)
	}
	if r.isNewest {
		dst = appendEvent(dst, &r.verdict)
	}
	return append(dst, "}\n"...)
}

// appendEvent appends the state of the event right after a check result to the result's JSON line.
func appendEvent(dst []byte, s *event.ResultState) []byte {
	state := "passing"
	switch {
	case s.Flapping:
		state = "flapping"
	case s.Failing:
		state = "failing"
	}
	dst = append(append(dst, `,"event":{"state":"`...), state...)
	dst = strconv.AppendUint(append(dst, `","occurrences":`...), uint64(s.Occurrences), 10)
	dst = strconv.AppendUint(append(dst, `,"watermark":`...), uint64(s.Watermark), 10)
	dst = appendTime(append(dst, `,"since":`...), s.Changed)
	if s.Problem != "" {
		dst = append(append(append(dst, `,"problem":"`...), s.Problem...), '"')
	}
	if s.Acked {
		dst = append(dst, `,"acknowledged":true`...)
	}
	return append(dst, '}')
}

// appendValues appends the measured values in a result's field Extra to dst as JSON. The results of hooks are left
// out.
func appendValues(dst []byte, extra []byte) []byte {
	x, err := wire.DecodeExtra(extra)
	if err != nil || len(x.Values) == 0 {
		return dst
	}
	dst = append(dst, `,"values":[`...)
	for i := range x.Values {
		v := &x.Values[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(append(dst, `{"name":`...), v.Name)
		if len(v.Tags) > 0 {
			dst = appendMap(append(dst, `,"tags":`...), v.Tags)
		}
		dst = strconv.AppendFloat(append(dst, `,"value":`...), v.Value, 'g', -1, 64)
		if !v.At.IsZero() {
			dst = appendTime(append(dst, `,"at":`...), v.At.UnixNano())
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// appendTime appends a time, in nanoseconds since 1970, as a JSON string.
func appendTime(dst []byte, ns int64) []byte {
	dst = time.Unix(0, ns).UTC().AppendFormat(append(dst, '"'), time.RFC3339Nano)
	return append(dst, '"')
}

// appendHex appends a number as 16 hexadecimal digits.
func appendHex(dst []byte, n uint64) []byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	return hex.AppendEncode(dst, b[:])
}

// appendText appends text to dst as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendText[T string | []byte](dst []byte, text T) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	done := 0
	for i := 0; i < len(text); {
		b := text[i]
		if b >= ' ' && b < utf8.RuneSelf && b != '"' && b != '\\' {
			i++
			continue
		}
		if b >= utf8.RuneSelf {
			size := runeLen(text[i:])
			if size > 0 {
				i += size
				continue
			}
		}
		dst = append(dst, text[done:i]...)
		i++
		done = i
		switch {
		case b >= utf8.RuneSelf:
			dst = append(dst, "\uFFFD"...)
		case b == '"', b == '\\':
			dst = append(dst, '\\', b)
		case b == '\n':
			dst = append(dst, `\n`...)
		case b == '\t':
			dst = append(dst, `\t`...)
		case b == '\r':
			dst = append(dst, `\r`...)
		default:
			dst = append(dst, '\\', 'u', '0', '0', digits[b>>4], digits[b&15])
		}
	}
	return append(append(dst, text[done:]...), '"')
}

// runeLen returns the length in bytes of the first UTF-8 character of a text. For invalid bytes it returns zero.
func runeLen[T string | []byte](text T) int {
	var b [utf8.UTFMax]byte
	r, size := utf8.DecodeRune(b[:copy(b[:], text)])
	if r == utf8.RuneError && size < 2 {
		return 0
	}
	return size
}

// Directory is the interface by which readers of results look up nodes, checks and handlers.
type Directory interface {
	route.Directory
	// Revision returns a number that changes whenever any other method would return another answer.
	Revision() int64
	CheckDefinition(id model.DefinitionID, instance string) *model.CheckDefinition
	// Shadow reports whether a namespace has notifications: shadow, so that no results of its nodes are sent.
	Shadow(namespace string) bool
	// StreamHandlers returns the handlers with stream.results: all.
	StreamHandlers() map[route.Name]*model.HandlerSpec
}

// nameCache caches the encoded JSON fields of nodes and checks for result lines, until a declared resource
// changes.
type nameCache struct {
	directory Directory
	namespace string                    // of the handler
	matches   func(*route.Problem) bool // nil: all results
	revision  int64
	nodes     map[model.NodeID]*nodeText
	checks    map[model.DefinitionID]*checkText
}

// nodeText has the JSON fields that describe a node in a result line, encoded once for many lines.
type nodeText struct {
	name     string // with the namespace in front, if that is not the handler's
	text     []byte // "namespace":…,"node":…,"labels":…
	selected bool   // the handler gets results of this node
	shadow   bool   // the handler gets none, because the namespace has notifications: shadow
	problem  *route.Problem
}

// checkText has the JSON fields that describe a check in a result line, encoded once for many lines.
type checkText struct {
	id         model.CheckID
	name       route.Name
	text       []byte // ,"check":…
	severities [4]model.Severity
}

// newNameCache returns an empty cache of encoded node and check fields for the lines to one handler. The
// handler's selector limits the results.
func newNameCache(d Directory, namespace string, only *model.Selector) (*nameCache, error) {
	w := &nameCache{directory: d, namespace: namespace}
	if only != nil {
		var err error
		if w.matches, err = route.MatchFunc(namespace, only); err != nil {
			return nil, err
		}
	}
	w.clear()
	return w, nil
}

// clear empties the cache, and stores the present revision of the declared resources to detect later changes.
func (w *nameCache) clear() {
	w.revision = w.directory.Revision()
	w.nodes, w.checks = map[model.NodeID]*nodeText{}, map[model.DefinitionID]*checkText{}
}

// refresh empties the cache if the declared resources have changed.
func (w *nameCache) refresh() {
	if w.directory.Revision() != w.revision {
		w.clear()
	}
}

// nodeText returns the encoded JSON fields of a node for result lines, or nil for a deleted node.
func (w *nameCache) nodeText(id model.NodeID) *nodeText {
	if n, ok := w.nodes[id]; ok {
		return n
	}
	var n *nodeText
	if ns, name, ok := w.directory.NodeName(id); ok {
		n = &nodeText{name: name}
		if ns != w.namespace {
			n.name = ns + "/" + name
		}
		n.text = appendText(append(n.text, `"namespace":`...), ns)
		n.text = appendText(append(n.text, `,"node":`...), name)
		if labels := w.directory.NodeLabels(id); len(labels) > 0 {
			n.text = appendMap(append(n.text, `,"labels":`...), labels)
		}
		ours := ns == w.namespace || w.namespace == model.SharedNamespaceName
		n.shadow = ours && w.directory.Shadow(ns)
		n.selected = ours && !n.shadow
	}
	w.nodes[id] = n
	return n
}

// checkText returns the encoded JSON fields of a check for result lines, or nil for an unknown check.
func (w *nameCache) checkText(id model.DefinitionID) *checkText {
	if c, ok := w.checks[id]; ok {
		return c
	}
	var c *checkText
	if definition := w.directory.CheckDefinition(id, ""); definition != nil {
		c = &checkText{id: definition.Unit, severities: definition.Severities}
		ns, name, ok := w.directory.SourceName(model.CheckSource(definition.Unit))
		if !ok {
			name = definition.Name // the check was deleted
		}
		c.name = route.Name{Namespace: ns, Name: name}
		c.text = appendText(append(c.text, `,"check":`...), name)
	}
	w.checks[id] = c
	return c
}

// selectsResult reports whether the handler's selector stream.only includes a check result.
func (w *nameCache) selectsResult(r *streamedResult) bool {
	if !r.node.selected || w.matches == nil {
		return r.node.selected
	}
	if r.node.problem == nil {
		r.node.problem = route.NewProblem(w.directory, r.nodeID, model.CheckSource(r.check.id), r.status, 0, nil)
	}
	p := r.node.problem
	p.Source.Name, p.Status, p.Severity = r.check.name, r.status, r.check.severities[r.status&3]
	return w.matches(p)
}

// appendMap appends a map as a JSON object with sorted keys.
func appendMap(dst []byte, m map[string]string) []byte {
	dst = append(dst, '{')
	for i, key := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(dst, key)
		dst = appendText(append(dst, ':'), m[key])
	}
	return append(dst, '}')
}
