package route

import (
	"cmp"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/where"
)

// Name is the qualified name of a resource, with its namespace.
type Name struct{ Namespace, Name string }

// String returns NAMESPACE/NAME.
func (n Name) String() string { return n.Namespace + "/" + n.Name }

// compare compares two qualified names by namespace, then by name.
func (n Name) compare(other Name) int {
	return cmp.Or(cmp.Compare(n.Namespace, other.Namespace), cmp.Compare(n.Name, other.Name))
}

// Source names the check, trigger or other origin that a problem comes from.
type Source struct {
	Kind     model.SourceKind
	Name     Name // in the node's namespace, or shared
	Instance string
}

// Problem is an open problem with the fields that routes, silences and windows compare. They include the node, source,
// status and severity. Only one goroutine may use it, because conditions cache their results in it.
type Problem struct {
	Node     Name
	Groups   []Name            // groups of the node
	Labels   map[string]string // of the node
	Tags     map[string]string // labels of the problem itself, from its trigger
	Facts    map[string]string
	Source   Source
	Status   model.Status
	Severity model.Severity

	sourceGroups func() []string // groups that the check or Template targets; nil: none

	node  *where.Node // the node as conditions see it; made at first use
	holds map[*where.Condition]bool
}

// label returns the value of a label of the problem, or else of its node. A missing label is empty.
func (p *Problem) label(name string) string {
	if value, ok := p.Tags[name]; ok {
		return value
	}
	return p.Labels[name]
}

// satisfiesCondition evaluates a condition on the problem and caches the result, because many selectors share
// conditions.
func (p *Problem) satisfiesCondition(c *where.Condition) bool {
	holds, asked := p.holds[c]
	if !asked {
		if p.holds == nil {
			p.holds = map[*where.Condition]bool{}
		}
		holds = c.Match(p.conditionNode())
		p.holds[c] = holds
	}
	return holds
}

// conditionNode returns the node of a problem, with the variables that CEL conditions can read.
func (p *Problem) conditionNode() *where.Node {
	if p.node == nil {
		p.node = where.NewNode()
		p.node.Set(p.Node.Namespace, p.Node.Name, where.MakePairs(p.Labels), where.MakePairs(p.Facts))
		names := make([]string, len(p.Groups))
		for i, g := range p.Groups {
			names[i] = g.Name
			if g.Namespace != p.Node.Namespace {
				names[i] = g.String()
			}
		}
		p.node.SetGroups(names)
	}
	return p.node
}

// Check returns the name of the problem's check, or the zero Name without a check.
func (p *Problem) Check() Name {
	if p.Source.Kind != model.SourceCheck {
		return Name{}
	}
	return p.Source.Name
}

// title returns the name of the problem's source for tables, CHECK or TEMPLATE:TRIGGER.
func (p *Problem) title() string {
	return model.Source{Kind: p.Source.Kind, Instance: p.Source.Instance}.CommandName(p.Source.Name.Name)
}

// hasCheck reports whether a name in a selector matches the problem's check or trigger. The name is CHECK or
// TEMPLATE:TRIGGER, perhaps with NAMESPACE/ before it.
func (p *Problem) hasCheck(check string) bool {
	namespace, name := model.SplitRef(p.Source.Name.Namespace, check)
	return p.Source.Name != (Name{}) && namespace == p.Source.Name.Namespace && name == p.title()
}

var _ interpreter.Activation = (*Problem)(nil)

// ResolveName returns the value of a variable in a selector's CEL condition, such as node or severity.
func (p *Problem) ResolveName(name string) (any, bool) {
	switch name {
	case "source.kind":
		return types.String(p.Source.Kind.String()), true
	case "source.name":
		return types.String(p.Source.Name.Name), true
	case "source.namespace":
		return types.String(p.Source.Name.Namespace), true
	case "source.instance":
		return types.String(p.Source.Instance), true
	case "source.groups":
		var groups []string
		if p.sourceGroups != nil {
			groups = p.sourceGroups()
		}
		return types.DefaultTypeAdapter.NativeToValue(groups), true
	case "check":
		return types.String(p.Check().Name), true
	case "labels":
		return where.TextMap(model.MergeTags(p.Labels, p.Tags)), true
	}
	return p.conditionNode().ResolveName(name)
}

// Parent returns nil, because the variables of a problem's condition have no outer scope.
func (p *Problem) Parent() interpreter.Activation { return nil }

// Directory is the interface that looks up nodes and the checks or triggers of problems. It also has the labels, facts
// and groups of nodes.
type Directory interface {
	NodeName(id model.NodeID) (namespace, name string, ok bool)
	NodeLabels(id model.NodeID) map[string]string
	NodeFacts(id model.NodeID) map[string]string
	// NodeGroups lists the node's groups: NAME, or NAMESPACE/NAME of another namespace.
	NodeGroups(id model.NodeID) []string
	SourceName(s model.Source) (namespace, name string, ok bool)
	// SourceGroups lists the groups that the check or Template of a problem targets, as NodeGroups does.
	SourceGroups(s model.Source) []string
}

// NewProblem returns a Problem about a check or other source on a node, for matching with selectors. It has the
// node's present labels, facts and groups. tags are the labels of the problem itself.
func NewProblem(d Directory, node model.NodeID, source model.Source, status model.Status, severity model.Severity, tags map[string]string) *Problem {
	p := &Problem{Status: status, Tags: tags, Severity: severity, Labels: d.NodeLabels(node), Facts: d.NodeFacts(node), sourceGroups: func() []string { return d.SourceGroups(source) }}
	p.Node.Namespace, p.Node.Name, _ = d.NodeName(node)
	p.Source = Source{Kind: source.Kind, Instance: source.Instance}
	p.Source.Name.Namespace, p.Source.Name.Name, _ = d.SourceName(source)
	for _, g := range d.NodeGroups(node) {
		ns, name := model.SplitRef(p.Node.Namespace, g)
		p.Groups = append(p.Groups, Name{ns, name})
	}
	return p
}

// problemConditions is the condition language for `where` in a selector: conditions over the node and the source of a
// problem.
var problemConditions = where.Language{
	Of: "problem", MaxCost: 100_000,
	Reads:   "source.kind, .name, .namespace, .instance, .groups; check; labels; node.name, .namespace, .labels, .facts, .groups",
	Example: `source.kind == "check" && source.name.startsWith("disk")`,
	Options: func() []cel.EnvOption {
		return []cel.EnvOption{
			cel.Variable("source.kind", cel.StringType),
			cel.Variable("source.name", cel.StringType),
			cel.Variable("source.namespace", cel.StringType),
			cel.Variable("source.instance", cel.StringType),
			cel.Variable("source.groups", cel.ListType(cel.StringType)),
			cel.Variable("check", cel.StringType),
			cel.Variable("labels", cel.MapType(cel.StringType, cel.StringType)),
		}
	},
}

// CheckCondition compiles a selector's CEL condition (`where`) and returns its error, or nil.
func CheckCondition(expr string) error {
	_, err := problemConditions.Compile(expr)
	return err
}

// These holds come from a dependency of the problem.
const (
	Unreachable HoldKind = "unreachable" // a node on which the problem's node depends is down
	Dependent   HoldKind = "dependent"   // a check that the problem's check depends on fails, or a trigger
)

// Dependency is an event that, while failing, delays messages about other events, such as an upstream node's
// keepalive.
type Dependency struct {
	Node       model.NodeID
	Source     model.Source
	Name       Name          // namespace of the event, and NODE/CHECK
	OnUpstream bool          // the event is the keepalive of the node's upstream node; false: an event of a check on the same node
	Settle     time.Duration // the longest time until a failure of the check is detected
}

// Hold returns the reason to delay messages about a dependent problem while the dependency fails.
func (m *Dependency) Hold(reason string, until time.Time) *Hold {
	h := &Hold{Kind: Dependent, By: m.Name, Reason: reason, Until: until}
	if m.OnUpstream {
		h.Kind = Unreachable
	}
	return h
}

// DependencyHold returns the reason to delay a message because a dependency fails, if any dependency does. A
// dependency fails if it is CRITICAL or UNKNOWN, or is a trigger with a problem; without a failure both are
// nil. problem returns the open problem of an event with its present status.
func DependencyHold(dependencies []Dependency, problem func(model.NodeID, model.Source) *model.Problem) (*Hold, *model.Problem) {
	for i := range dependencies {
		m := &dependencies[i]
		if p := problem(m.Node, m.Source); p != nil && (p.Status >= model.Critical || m.Source.Kind == model.SourceTrigger) {
			first, _, _ := strings.Cut(p.Output, "\n")
			return m.Hold(first, time.Time{}), p
		}
	}
	return nil, nil
}

// Declaration is a declared or deleted Route, Silence or Window, with which the route table is updated. Routes
// and windows are such resources.
type Declaration struct {
	Kind string
	Name
	Zone string     // time zone of the namespace, for times without a zone
	Spec model.Spec // nil: the resource was deleted
}
