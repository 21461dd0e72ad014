package route

import (
	"cmp"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/where"
)

// Name is a name in a namespace.
type Name struct{ Namespace, Name string }

func (n Name) String() string { return n.Namespace + "/" + n.Name }

// Matter is a problem as a decision sees it.
type Matter struct {
	Node     Name
	Groups   []Name // that the node is in
	Labels   map[string]string
	Facts    map[string]string
	Check    Name // of the node's namespace, or shared
	Status   model.Status
	Severity model.Severity

	node  *where.Node // for conditions; made when first asked
	holds map[*where.Condition]bool
}

// meets says whether the condition holds for the node; many ask the same ones.
func (m *Matter) meets(c *where.Condition) bool {
	holds, asked := m.holds[c]
	if !asked {
		if m.holds == nil {
			m.holds = map[*where.Condition]bool{}
		}
		holds = c.Match(m.shown())
		m.holds[c] = holds
	}
	return holds
}

// shown is the node for a condition.
func (m *Matter) shown() *where.Node {
	if m.node == nil {
		m.node = where.NewNode()
		m.node.Set(m.Node.Namespace, m.Node.Name, where.MakePairs(m.Labels), where.MakePairs(m.Facts))
		names := make([]string, len(m.Groups))
		for i, g := range m.Groups {
			names[i] = g.Name
			if g.Namespace != m.Node.Namespace {
				names[i] = g.String()
			}
		}
		m.node.SetGroups(names)
	}
	return m.node
}

// isOf says whether the problem is of the check that somebody names: NAME, wherever it
// lives, or NAMESPACE/NAME.
func (m *Matter) isOf(check string) bool {
	if namespace, name, ok := strings.Cut(check, "/"); ok {
		return m.Check == Name{namespace, name}
	}
	return m.Check.Name == check
}

func (n Name) compare(other Name) int {
	return cmp.Or(cmp.Compare(n.Namespace, other.Namespace), cmp.Compare(n.Name, other.Name))
}

// Directory is what nodes and checks are called, and what nodes are (the planner).
type Directory interface {
	NodeName(id model.NodeID) (namespace, name string, ok bool)
	NodeLabels(id model.NodeID) map[string]string
	NodeFacts(id model.NodeID) map[string]string
	// NodeGroups are those that the node is in: NAME, or NAMESPACE/NAME of another namespace.
	NodeGroups(id model.NodeID) []string
	CheckName(id model.CheckID) (namespace, name string, ok bool)
}

// About is a problem as routes and silences see it now.
func About(d Directory, node model.NodeID, check model.CheckID, status model.Status, severity model.Severity) *Matter {
	m := &Matter{Status: status, Severity: severity, Labels: d.NodeLabels(node), Facts: d.NodeFacts(node)}
	m.Node.Namespace, m.Node.Name, _ = d.NodeName(node)
	m.Check.Namespace, m.Check.Name, _ = d.CheckName(check)
	for _, g := range d.NodeGroups(node) {
		ns, name := model.SplitRef(m.Node.Namespace, g)
		m.Groups = append(m.Groups, Name{ns, name})
	}
	return m
}
