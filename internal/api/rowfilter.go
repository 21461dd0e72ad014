package api

import (
	"encoding/json"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/where"
)

// Events have a language of conditions of their own (eventcondition.go), and resources another (resourcecondition.go). Of
// every other list, a condition reads the row as it is in items.

const (
	// searchPage is how many rows of the store one look at a list takes, where a condition chooses among them.
	searchPage = 500
	overEach   = "row (one of items, as -o json shows it) and now"
)

// overRows is the language of conditions over rows that are of no node.
var overRows = where.Language{
	Of: "row", MaxCost: 1_000_000, Alone: true, Reads: overEach,
	Example: `row.name.startsWith("ci-")`, Options: rowVariables,
}

// overNodeRows is that over rows that are of a node, which it reads too: as it is now.
var overNodeRows = where.Language{
	Of: "row", MaxCost: 1_000_000, Reads: overEach + "; node.name, .namespace, .labels, .facts, .groups",
	Example: `row.check == "disk" && node.labels.env == "prod"`, Options: rowVariables,
}

func rowVariables() []cel.EnvOption {
	list := []cel.EnvOption{cel.Variable("row", cel.MapType(cel.StringType, cel.DynType)), cel.Variable("now", cel.TimestampType)}
	for s := model.OK; s <= model.Unknown; s++ {
		list = append(list, cel.Constant(s.String(), cel.IntType, types.Int(s)))
	}
	return list
}

// WhereInput picks rows of a list by a condition.
type WhereInput struct {
	Where string `query:"where" maxLength:"4096" doc:"CEL over row, which is one of items: row.name == \"ann\""`
}

// NarrowInput picks rows of a list, each of which is of a node.
type NarrowInput struct {
	Selector string `query:"selector" maxLength:"4096" doc:"Labels of the node as it is now: env=prod,tier!=db. What is of nodes that are gone is left out."`
	Where    string `query:"where" maxLength:"4096" doc:"CEL over row, which is one of items, and node.*: row.check == \"disk\" && node.labels.env == \"prod\""`
}

// narrowed is the condition of a request on rows; nil passes all. Of one request, and not safe for concurrent use.
type narrowed struct {
	server   *server
	now      time.Time
	labels   bool
	selector directory.Selector
	where    *where.Compiled // nil: none
	readsRow bool

	row  map[string]any
	node *where.Node // set where the condition reads it
	id   model.NodeID
}

var _ interpreter.Activation = (*narrowed)(nil)

func (s *server) narrowRows(in WhereInput) (*narrowed, error) {
	return s.narrow(&overRows, NarrowInput{Where: in.Where})
}

func (s *server) narrow(l *where.Language, in NarrowInput) (*narrowed, error) {
	if in.Selector == "" && in.Where == "" {
		return nil, nil
	}
	n := &narrowed{server: s, now: s.Now(), labels: in.Selector != ""}
	var err error
	if n.selector, err = directory.ParseSelector(in.Selector); err != nil || in.Where == "" {
		return n, err
	}
	if n.where, err = l.Compile(in.Where); err != nil {
		return nil, err
	}
	n.readsRow = n.where.Reads("row")
	if n.where.Reads("node.") {
		n.node = where.NewNode()
	}
	return n, nil
}

// picks says whether a row is picked; id is the node that it is of, 0: of none. What a condition does not find in
// a row (a field that is left out, say) is no match, and neither is a node that is gone where labels are asked for.
func (n *narrowed) picks(id model.NodeID, row func() any) bool {
	if n == nil {
		return true
	}
	if n.labels || n.node != nil {
		namespace, name, ok := n.server.Directory.NodeName(id)
		if !ok {
			return false
		}
		labels := n.server.Directory.NodeLabels(id)
		if n.labels && !n.selector.Matches(labels) {
			return false
		}
		if n.node != nil && n.id != id {
			n.node.Set(namespace, name, where.MakePairs(labels), where.MakePairs(n.server.Directory.NodeFacts(id)))
			n.node.SetGroups(n.server.Directory.NodeGroups(id))
			n.id = id
		}
	}
	if n.where == nil {
		return true
	}
	if n.readsRow {
		text, err := json.Marshal(row())
		if err != nil {
			return false
		}
		clear(n.row) // Unmarshal adds to what is there
		if json.Unmarshal(text, &n.row) != nil {
			return false
		}
	}
	out, _, err := n.where.Program.Eval(n)
	return err == nil && out == types.True
}

// Parent implements interpreter.Activation.
func (n *narrowed) Parent() interpreter.Activation { return nil }

// ResolveName implements interpreter.Activation.
func (n *narrowed) ResolveName(name string) (any, bool) {
	switch name {
	case "row":
		return n.row, true
	case "now":
		return types.Timestamp{Time: n.now}, true
	}
	if n.node == nil {
		return nil, false
	}
	return n.node.ResolveName(name)
}

// theseRows leaves the picked rows of a short list.
func theseRows[R any](s *server, in WhereInput, rows []R) ([]R, error) {
	n, err := s.narrowRows(in)
	if err != nil || n == nil {
		return rows, err
	}
	left := []R{}
	for i := range rows {
		if n.picks(0, func() any { return &rows[i] }) {
			left = append(left, rows[i])
		}
	}
	return left, nil
}

// paged reads a list that a store pages, until limit rows are picked. read returns the rows behind one (nil: the
// first ones). behind is the row that the next page begins after; nil: this is the last. A list with a condition
// is searched for a while, and the page may be short, or empty, with more behind it.
func paged[R, Row any](s *server, n *narrowed, limit int, read func(behind *R, size int) ([]R, error), show func(*R) (model.NodeID, Row)) (rows []Row, behind *R, err error) {
	rows = []Row{}
	began := s.Now()
	for {
		size := limit - len(rows) + 1
		if n != nil {
			size = max(size, searchPage)
		}
		page, err := read(behind, size)
		if err != nil {
			return nil, nil, err
		}
		for i := range page {
			if len(rows) == limit {
				return rows, behind, nil
			}
			behind = &page[i]
			id, row := show(behind)
			if n.picks(id, func() any { return &row }) {
				rows = append(rows, row)
			}
		}
		switch {
		case len(page) < size:
			return rows, nil, nil
		case n != nil && s.Now().Sub(began) > searchWithin:
			return rows, behind, nil
		}
	}
}

// LabelledInput picks rows of a list that have labels of their own.
type LabelledInput struct {
	Selector string `query:"selector" maxLength:"4096" doc:"Their labels: env=prod,tier!=db"`
	WhereInput
}

// labelled leaves the picked rows of a short list of rows with labels.
func labelled[R any](s *server, in LabelledInput, rows []R, labels func(*R) map[string]string) ([]R, error) {
	chosen, err := directory.ParseSelector(in.Selector)
	if err != nil {
		return nil, err
	}
	left := []R{}
	for i := range rows {
		if chosen.Matches(labels(&rows[i])) {
			left = append(left, rows[i])
		}
	}
	return theseRows(s, in.WhereInput, left)
}
