package route

import (
	"slices"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/where"
)

// selector is a compiled model.Selector of one namespace. All of its criteria must hold.
type selector struct {
	namespace string
	targets   *targets // nil: every node that the namespace reaches
	checks    []string // nil: all
	statuses  [4]bool  // all false: all
	severity  model.Severity
	labels    map[string]string
	where     *where.Compiled // over the problem; nil: all
}

// targets is a compiled model.Targets.
type targets struct {
	groups []Name
	nodes  []Name // without a namespace: a node of that name in any namespace
	where  *where.Condition
	except *targets
}

func compile(namespace string, s *model.Selector) (*selector, error) {
	c := &selector{namespace: namespace}
	if s == nil {
		return c, nil
	}
	c.checks, c.labels = s.Checks, s.Labels
	for _, word := range s.Statuses {
		status, ok := model.ParseStatus(word)
		if !ok {
			return nil, model.Errorf(model.Invalid, "%q is no status", word).WithHint("write warning, critical or unknown")
		}
		c.statuses[status] = true
	}
	if s.Severity != "" {
		severity, ok := model.ParseSeverity(s.Severity)
		if !ok {
			return nil, model.Errorf(model.Invalid, "%q is no severity", s.Severity)
		}
		c.severity = severity
	}
	var err error
	if s.Where != "" {
		if c.where, err = problemConditions.Compile(s.Where); err != nil {
			return nil, err
		}
	}
	c.targets, err = compileTargets(namespace, s.Targets)
	return c, err
}

func compileTargets(namespace string, t *model.Targets) (*targets, error) {
	if t == nil {
		return nil, nil
	}
	c := &targets{}
	for _, g := range t.Groups {
		ns, name := model.SplitRef(namespace, g)
		c.groups = append(c.groups, Name{ns, name})
	}
	for _, n := range t.Nodes {
		ns, name := model.SplitRef(namespace, n)
		if namespace == model.SharedNamespaceName && ns == namespace {
			ns = ""
		}
		c.nodes = append(c.nodes, Name{ns, name})
	}
	var err error
	if t.Where != "" {
		if c.where, err = where.Compile(t.Where); err != nil {
			return nil, err
		}
	}
	c.except, err = compileTargets(namespace, t.Except)
	return c, err
}

// matches reports whether the selector matches the problem.
func (s *selector) matches(m *Problem) bool {
	if s.namespace != m.Node.Namespace && s.namespace != model.SharedNamespaceName {
		return false
	}
	if m.Severity < s.severity || s.statuses != [4]bool{} && !s.statuses[m.Status&3] {
		return false
	}
	if s.checks != nil && !slices.ContainsFunc(s.checks, m.hasCheck) {
		return false
	}
	for key, value := range s.labels {
		if m.Labels[key] != value {
			return false
		}
	}
	return (s.targets == nil || s.targets.include(m)) && (s.where == nil || s.where.Evaluate(m))
}

func (t *targets) include(m *Problem) bool {
	chosen := slices.ContainsFunc(t.nodes, func(n Name) bool {
		return n.Name == m.Node.Name && (n.Namespace == "" || n.Namespace == m.Node.Namespace)
	}) ||
		slices.ContainsFunc(t.groups, func(g Name) bool { return slices.Contains(m.Groups, g) }) ||
		t.where != nil && m.satisfies(t.where)
	return chosen && (t.except == nil || !t.except.include(m))
}
