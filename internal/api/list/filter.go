package list

import (
	"encoding/json"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/where"
)

// Where matches rows by a condition. (Types that inputs embed are exported, because huma reads
// exported fields only.)
type Where struct {
	Where string `query:"where" maxLength:"4096" doc:"CEL over row, which is one of items: row.name == \"ann\""`
}

// Labelled matches rows that have labels of their own.
type Labelled struct {
	Selector string `query:"selector" maxLength:"4096" doc:"Their labels: env=prod,tier!=db"`
	Where
}

// OfNode matches rows each of which belongs to a node.
type OfNode struct {
	Selector string `query:"selector" maxLength:"4096" doc:"Labels of the node as it is now: env=prod,tier!=db. Rows of deleted nodes do not match."`
	Where    string `query:"where" maxLength:"4096" doc:"CEL over row, which is one of items, and node.*: row.check == \"disk\" && node.labels.env == \"prod\""`
}

// rowVariable describes the variables of both languages below.
const rowVariable = "row (one of items, as -o json shows it) and now"

// overRows is the language of conditions over rows that belong to no node.
var overRows = where.Language{
	Of: "row", MaxCost: 1_000_000, Alone: true, Reads: rowVariable,
	Example: `row.name.startsWith("ci-")`, Options: rowVariables,
}

// overNodeRows is the language of conditions over rows that belong to a node. It also reads the
// node as it is now.
var overNodeRows = where.Language{
	Of: "row", MaxCost: 1_000_000, Reads: rowVariable + "; node.name, .namespace, .labels, .facts, .groups",
	Example: `row.check == "disk" && node.labels.env == "prod"`, Options: rowVariables,
}

func rowVariables() []cel.EnvOption {
	list := []cel.EnvOption{cel.Variable("row", cel.MapType(cel.StringType, cel.DynType)), cel.Variable("now", cel.TimestampType)}
	for s := model.OK; s <= model.Unknown; s++ {
		list = append(list, cel.Constant(s.String(), cel.IntType, types.Int(s)))
	}
	return list
}

// Filter decides which rows of one request match; nil matches all. It is not safe for concurrent use.
type Filter struct {
	view     *view.View
	now      time.Time
	labels   bool
	selector directory.Selector
	where    *where.Compiled // nil: no condition
	readsRow bool

	row  map[string]any
	node *NodeReader // set where the condition reads the node
}

var _ interpreter.Activation = (*Filter)(nil)

// ByRow returns the filter of rows that belong to no node.
func ByRow(v *view.View, in Where) (*Filter, error) {
	return newFilter(v, &overRows, OfNode{Where: in.Where})
}

// ByNode returns the filter of rows that belong to a node.
func ByNode(v *view.View, in OfNode) (*Filter, error) { return newFilter(v, &overNodeRows, in) }

func newFilter(v *view.View, l *where.Language, in OfNode) (*Filter, error) {
	if in.Selector == "" && in.Where == "" {
		return nil, nil
	}
	f := &Filter{view: v, now: v.Now(), labels: in.Selector != ""}
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

// Match reports whether a row matches; id is its node, 0: none. A field that the row does not have
// makes the condition false, and so does a deleted node where labels or the node are asked for.
func (f *Filter) Match(id model.NodeID, row func() any) bool {
	if f == nil {
		return true
	}
	if f.labels {
		if _, _, ok := f.view.Directory.NodeName(id); !ok || !f.selector.Matches(f.view.Directory.NodeLabels(id)) {
			return false
		}
	}
	if f.node != nil && !f.node.Read(id) {
		return false
	}
	if f.where == nil {
		return true
	}
	if f.readsRow {
		text, err := json.Marshal(row())
		if err != nil {
			return false
		}
		clear(f.row) // Unmarshal keeps old keys
		if json.Unmarshal(text, &f.row) != nil {
			return false
		}
	}
	out, _, err := f.where.Program.Eval(f)
	return err == nil && out == types.True
}

// Parent implements interpreter.Activation.
func (f *Filter) Parent() interpreter.Activation { return nil }

// ResolveName implements interpreter.Activation.
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

// Nodes returns the nodes of a namespace (empty: of all) whose labels match.
func (f *Filter) Nodes(v *view.View, namespace string) []model.NodeID {
	if f == nil || !f.labels {
		return v.Directory.Nodes(namespace)
	}
	f.labels = false // Match need not read them again
	return v.Directory.NodesMatching(namespace, f.selector)
}

// NodeReader reads one node after the other for a condition. It is not safe for concurrent use.
type NodeReader struct {
	*where.Node
	view *view.View
	id   model.NodeID // that Node shows; 0: none
}

// NewNodeReader returns a reader of the nodes of a view.
func NewNodeReader(v *view.View) *NodeReader { return &NodeReader{Node: where.NewNode(), view: v} }

// Read makes a node the one that the condition reads. false: there is no such node, and the
// condition reads an empty one.
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

// NodeMatcher returns a function that evaluates a condition over nodes, for one request.
func NodeMatcher(v *view.View, c *where.Condition) func(model.NodeID) bool {
	r := NewNodeReader(v)
	return func(id model.NodeID) bool { return r.Read(id) && c.Match(r.Node) }
}
