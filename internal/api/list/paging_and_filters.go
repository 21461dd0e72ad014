// Package list filters and pages the lists of the API: by labels (selector), by a condition over
// rows (where), by period, and by limit and page token.
//
// Events and resources have languages of conditions of their own (events/selection_and_conditions.go,
// resources/resources.go). In every other list a condition reads the row as it is in items.
//
// Start reading at Page.
package list

import (
	"context"
	"encoding/json"
	"iter"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/where"
)

// SearchTimeLimit is how long a condition searches a list before it ends the page. The page may be
// short then, or empty, and have a next one.
const SearchTimeLimit = 200 * time.Millisecond

// maxConditionTime is how long the condition of one request may search a list that has no pages.
const maxConditionTime = 10 * time.Second

// LimitConditionTime returns a context that ends after the longest time of a request's condition.
func LimitConditionTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, maxConditionTime, model.Errorf(model.Limited, "the condition (where) did not end within %s", maxConditionTime).
		WithHint("select fewer rows, for example with a namespace or labels, or write a condition that costs less: without nested exists(), all() and long regular expressions"))
}

// searchPageRows is the number of rows that a search reads from a store at a time.
const searchPageRows = 500

// Cursor marks the last returned row of a sorted list, after which the next page starts. The next page of the
// list starts there. The zero Cursor is the beginning.
type Cursor struct {
	Number int64
	ID     string
}

// TimeCursor returns the cursor (page position) after a row with a given time and id. The list is sorted by
// time and then by id.
func TimeCursor(at time.Time, id int64) Cursor {
	return Cursor{at.UnixNano(), strconv.FormatInt(id, 10)}
}

// Time returns the number in the cursor as a time, counted in nanoseconds since 1970.
func (c Cursor) Time() time.Time { return time.Unix(0, c.Number) }

// IsZero reports whether the cursor stands before the first row of a list.
func (c Cursor) IsZero() bool { return c == Cursor{} }

// IntID returns the row id in the cursor as an integer. An id that is no number comes from a forged page token
// and is an error.
func (c Cursor) IntID() (int64, error) {
	if c.ID == "" {
		return 0, nil
	}
	id, err := strconv.ParseInt(c.ID, 10, 64)
	if err != nil {
		return 0, view.BadPageTokenError()
	}
	return id, nil
}

// String encodes the cursor as text for a page token, which ParseCursor parses.
func (c Cursor) String() string { return strconv.FormatInt(c.Number, 10) + "." + c.ID }

// ParseCursor parses a cursor from the text in a page token.
func ParseCursor(place string) (c Cursor, err error) {
	number, id, ok := strings.Cut(place, ".")
	if c.Number, err = strconv.ParseInt(number, 10, 64); !ok || err != nil {
		return c, view.BadPageTokenError()
	}
	c.ID = id
	return c, nil
}

// PagedRows describes how to read one page of a list from a database. It has the limit, page token, filter and read
// function.
type PagedRows[R any] struct {
	Limit  int     // rows of a page
	After  string  // page token of the request
	Filter *Filter // nil: all rows
	// Read returns at most size rows behind a cursor.
	Read   func(behind Cursor, size int) ([]R, error)
	Cursor func(*R) Cursor
}

// ReadPage reads rows from a store until one page of rows matches the filter. It returns the rows as show converts
// them, and the page token of the next page (empty: this page is the last). show also returns the node of the row; 0:
// none.
func ReadPage[R, Row any](v *view.View, l PagedRows[R], show func(*R) (model.NodeID, Row)) (rows []Row, next string, err error) {
	var at Cursor
	if l.After != "" {
		place, err := v.ParsePageToken(l.After)
		if err != nil {
			return nil, "", err
		}
		if at, err = ParseCursor(place); err != nil {
			return nil, "", err
		}
	}
	rows = []Row{}
	for began := v.Now(); ; {
		size := l.Limit - len(rows) + 1
		if l.Filter != nil {
			size = max(size, searchPageRows)
		}
		page, err := l.Read(at, size)
		if err != nil {
			return nil, "", err
		}
		for i := range page {
			if len(rows) == l.Limit {
				return rows, v.NewPageToken(at.String()), nil
			}
			at = l.Cursor(&page[i])
			node, row := show(&page[i])
			matches, err := l.Filter.Match(node, func() any { return &row })
			if err != nil {
				return nil, "", err
			}
			if matches {
				rows = append(rows, row)
			}
			if l.Filter != nil && (i < len(page)-1 || len(page) == size) && v.Now().Sub(began) > SearchTimeLimit {
				return rows, v.NewPageToken(at.String()), nil
			}
		}
		if len(page) < size {
			return rows, "", nil
		}
	}
}

// AllRows yields all rows of a store, page by page. read returns at most size rows behind the row last; nil: the
// first ones.
func AllRows[R any](size int, read func(last *R) ([]R, error)) iter.Seq2[*R, error] {
	return func(yield func(*R, error) bool) {
		for last := (*R)(nil); ; {
			page, err := read(last)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page {
				if !yield(&page[i], nil) {
					return
				}
			}
			if len(page) < size {
				return
			}
			last = &page[len(page)-1]
		}
	}
}

// FilterRows returns the rows of a short list that match a condition.
func FilterRows[R any](ctx context.Context, v *view.View, in Where, rows []R) ([]R, error) {
	f, err := NewRowFilter(ctx, v, in)
	if err != nil || f == nil {
		return rows, err
	}
	matching := []R{}
	for i := range rows {
		matches, err := f.Match(0, func() any { return &rows[i] })
		if err != nil {
			return nil, err
		}
		if matches {
			matching = append(matching, rows[i])
		}
	}
	return matching, nil
}

// FilterLabelledRows returns the rows of a short list that match a condition and a label selector.
func FilterLabelledRows[R any](ctx context.Context, v *view.View, in Labelled, rows []R, labels func(*R) map[string]string) ([]R, error) {
	selector, err := directory.ParseSelector(in.Selector)
	if err != nil {
		return nil, err
	}
	matching := []R{}
	for i := range rows {
		if selector.Matches(labels(&rows[i])) {
			matching = append(matching, rows[i])
		}
	}
	return FilterRows(ctx, v, in.Where, matching)
}

// Period has the query parameters since and until of a request.
type Period struct {
	Since time.Time `query:"since" doc:"Start of the period (RFC 3339)."`
	Until time.Time `query:"until" doc:"End of the period, exclusive."`
}

// Validate refuses a period whose start is not before its end.
func (p Period) Validate() error {
	if !p.Since.IsZero() && !p.Until.IsZero() && !p.Since.Before(p.Until) {
		return model.Errorf(model.Invalid, "since %s is not before until %s", p.Since.Format(time.RFC3339), p.Until.Format(time.RFC3339))
	}
	return nil
}

// Complete fills in a missing start or end of a request's period. A missing end is now, and a missing start is a
// default time before the end; the start must be before the end.
func (p *Period) Complete(now time.Time, length time.Duration) error {
	if p.Until.IsZero() || p.Until.After(now) {
		p.Until = now
	}
	if p.Since.IsZero() {
		p.Since = p.Until.Add(-length)
	}
	return p.Validate()
}

// Where has the query parameter where, a CEL condition that selects rows of a list. (Types that inputs embed are
// exported, because huma reads exported fields only.)
type Where struct {
	Where string `query:"where" maxLength:"4096" doc:"CEL over row, an element of items: row.name == \"ann\""`
}

// Labelled has the query parameters selector and where (a CEL condition), for lists whose rows have labels
type Labelled struct {
	Selector string `query:"selector" maxLength:"4096" doc:"Labels of the element: env=prod,tier!=db"`
	Where
}

// NodeRows has the query parameters selector and where (a CEL condition) for lists whose rows belong to nodes.
// The selector matches labels of the node, and where is a CEL condition.
type NodeRows struct {
	Selector string `query:"selector" maxLength:"4096" doc:"Current labels of the node, and of the row if it is a problem: env=prod,tier!=db. Rows of deleted nodes do not match."`
	Where    string `query:"where" maxLength:"4096" doc:"CEL over row, an element of items, and node.*: row.check == \"disk\" && node.labels.env == \"prod\""`
}

// rowVariablesHelp is the help text about the variables that conditions over rows read.
const rowVariablesHelp = "row (an element of items as in -o json) and now"

// rowConditions is the language of conditions over rows that belong to no node.
var rowConditions = where.Language{
	Of: "row", MaxCost: 1_000_000, WithoutNode: true, Reads: rowVariablesHelp,
	Example: `row.name.startsWith("ci-")`, Options: declareRowVariables,
}

// nodeRowConditions is the language of conditions over rows that belong to a node. Such conditions also read the node
// as it is now.
var nodeRowConditions = where.Language{
	Of: "row", MaxCost: 1_000_000, Reads: rowVariablesHelp + "; node.name, .namespace, .labels, .facts, .groups",
	Example: `row.check == "disk" && node.labels.env == "prod"`, Options: declareRowVariables,
}

// declareRowVariables declares the variables row and now for CEL conditions on the rows of a list
func declareRowVariables() []cel.EnvOption {
	row := cel.MapType(cel.StringType, cel.DynType)
	return append(StatusConstants(), cel.Variable("row", row), cel.Variable("now", cel.TimestampType))
}

// StatusConstants declares OK, WARNING, CRITICAL and UNKNOWN as constants of CEL conditions.
func StatusConstants() (constants []cel.EnvOption) {
	for s := model.OK; s <= model.Unknown; s++ {
		constants = append(constants, cel.Constant(s.String(), cel.IntType, types.Int(s)))
	}
	return constants
}

// Filter selects rows of a list by a label selector and a CEL condition. It is not safe for concurrent use.
type Filter struct {
	ctx      context.Context // of the request, with the time limit of its condition
	view     *view.View
	now      time.Time
	labels   bool
	selector directory.Selector
	where    *where.CompiledCondition // nil: no condition
	readsRow bool

	row  map[string]any
	node *NodeReader // set where the condition reads the node
}

var _ interpreter.Activation = (*Filter)(nil)

// NewRowFilter returns a filter by CEL condition for rows that belong to no node.
func NewRowFilter(ctx context.Context, v *view.View, in Where) (*Filter, error) {
	return newFilter(ctx, v, &rowConditions, NodeRows{Where: in.Where})
}

// NewNodeRowFilter returns a filter by label selector and CEL condition for rows that belong to nodes.
func NewNodeRowFilter(ctx context.Context, v *view.View, in NodeRows) (*Filter, error) {
	return newFilter(ctx, v, &nodeRowConditions, in)
}

// newFilter compiles the label selector and the condition of a request, or returns nil if both are empty.
func newFilter(ctx context.Context, v *view.View, l *where.Language, in NodeRows) (*Filter, error) {
	if in.Selector == "" && in.Where == "" {
		return nil, nil
	}
	limited, cancel := LimitConditionTime(ctx)
	context.AfterFunc(ctx, cancel)
	f := &Filter{ctx: limited, view: v, now: v.Now(), labels: in.Selector != ""}
	var err error
	if f.selector, err = directory.ParseSelector(in.Selector); err != nil || in.Where == "" {
		return f, err
	}
	if f.where, err = l.Compile(in.Where); err != nil {
		return nil, err
	}
	f.readsRow = f.where.Reads("row")
	if f.where.Reads("node.") {
		f.node = NewNodeReader(v)
	}
	return f, nil
}

// Match reports whether a row matches the label selector and the CEL condition. Parameter id is the row's node, or 0.
// A field that the row does not have makes the condition false, and so does a deleted node where labels or the node
// are asked for. It returns an error after the time limit of the condition.
func (f *Filter) Match(id model.NodeID, row func() any) (bool, error) {
	if f == nil {
		return true, nil
	}
	if f.labels {
		labels := f.view.Directory.NodeLabels(id)
		if of, ok := row().(interface{ OwnLabels() map[string]string }); ok { // of a problem
			labels = model.MergeTags(labels, of.OwnLabels())
		}
		if _, _, ok := f.view.Directory.NodeName(id); !ok || !f.selector.Matches(labels) {
			return false, nil
		}
	}
	if f.node != nil && !f.node.Read(id) {
		return false, nil
	}
	if f.where == nil {
		return true, nil
	}
	if f.readsRow {
		text, err := json.Marshal(row())
		if err != nil {
			return false, nil
		}
		clear(f.row) // Unmarshal keeps old keys
		if json.Unmarshal(text, &f.row) != nil {
			return false, nil
		}
	}
	return f.where.EvaluateWithin(f.ctx, f)
}

// Parent returns nil, because a row's variables in CEL have no outer scope.
func (f *Filter) Parent() interpreter.Activation { return nil }

// ResolveName returns the value of a variable for the row that the CEL condition is evaluated on
func (f *Filter) ResolveName(name string) (any, bool) {
	switch name {
	case "row":
		return f.row, true
	case "now":
		return types.Timestamp{Time: f.now}, true
	}
	if f.node == nil {
		return nil, false
	}
	return f.node.ResolveName(name)
}

// Nodes returns the nodes of a namespace whose labels match the selector. An empty namespace means all.
func (f *Filter) Nodes(v *view.View, namespace string) []model.NodeID {
	if f == nil || !f.labels {
		return v.Directory.Nodes(namespace)
	}
	f.labels = false // Match need not compare labels again
	return v.Directory.NodesMatching(namespace, f.selector)
}

// NodeReader loads the labels, facts and groups of nodes, one node at a time, for CEL conditions. It is not safe for
// concurrent use.
type NodeReader struct {
	*where.Node
	view *view.View
	id   model.NodeID // node whose labels and facts Node holds; 0: none
}

// NewNodeReader returns a reader of labels, facts and groups of the nodes that the caller may see.
func NewNodeReader(v *view.View) *NodeReader { return &NodeReader{Node: where.NewNode(), view: v} }

// Read loads labels, facts and groups of a node for a CEL condition. It returns false where the node does not exist;
// the condition then reads an empty node.
func (r *NodeReader) Read(id model.NodeID) bool {
	if id != 0 && r.id == id {
		return true
	}
	d := r.view.Directory
	namespace, name, ok := d.NodeName(id)
	r.Set(namespace, name, where.MakePairs(d.NodeLabels(id)), where.MakePairs(d.NodeFacts(id)))
	r.SetGroups(d.NodeGroups(id))
	if r.id = id; !ok {
		r.id = 0
	}
	return ok
}

// NodeMatcher returns a function that reports whether a node matches a CEL condition.
// The condition may read inventories. The function returns an error after the end of ctx.
func NodeMatcher(ctx context.Context, v *view.View, c *where.Condition) func(model.NodeID) (bool, error) {
	r := NewNodeReader(v)
	if len(c.EntryTerms()) > 0 && v.Search != nil {
		hasEntry := v.Search(ctx)
		r.SetInventory(func(t *where.EntryTerm) (found, known bool) { return hasEntry(r.id, t) })
	}
	return func(id model.NodeID) (bool, error) {
		matches := r.Read(id) && c.Match(r.Node)
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		return matches, nil
	}
}
