package where

import (
	"runtime"
	"slices"
	"weak"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"github.com/muster-fleet/muster/internal/model"
)

// Condition is a compiled condition over a node. The variables are node.name, node.namespace,
// node.labels, node.facts (maps of strings) and node.groups (a list of strings). A missing label or
// fact reads as "": node.labels.env != "prod" holds for a node without the label;
// has(node.labels.env) distinguishes. Safe for concurrent use, each caller with its own Node.
type Condition struct {
	Expr        string
	compiled    *Compiled // without the program (10 kB) where the needs are the whole condition
	readsGroups bool
}

var overNode = Language{
	Of: "node", MaxCost: 100_000,
	Reads:   "node.name, node.namespace, node.labels, node.facts and node.groups",
	Example: `node.labels.env == "prod" && node.name.startsWith("web")`,
}

// Compile checks a condition over a node. An error names the fault and its column. Equal texts
// share one Condition while it is in use.
func Compile(expr string) (*Condition, error) {
	if known, ok := overNode.inUse.Load(expr); ok {
		if c := known.(weak.Pointer[Condition]).Value(); c != nil {
			return c, nil
		}
	}
	compiled, err := overNode.Compile(expr)
	if err != nil {
		return nil, err
	}
	if compiled.whole {
		compiled.Program = nil
	}
	c := &Condition{Expr: expr, compiled: compiled, readsGroups: compiled.Reads("node.groups")}
	known := weak.Make(c)
	overNode.inUse.Store(expr, known)
	runtime.AddCleanup(c, func(expr string) { overNode.inUse.CompareAndDelete(expr, known) }, expr)
	return c, nil
}

// ReadsGroups reports whether the condition reads node.groups, which a group's own `where` must
// not.
func (c *Condition) ReadsGroups() bool { return c.readsGroups }

// Trusted returns an error if the condition reads values that a machine reports about itself; a
// trusted group may read labels of the server only.
func (c *Condition) Trusted() error {
	for _, v := range [...]struct{ name, why string }{
		{"node.facts", "every machine says its own facts"},
		{"node.name", "a machine that joins chooses its name"},
		{"node.groups", "agents may put themselves into groups"},
	} {
		if slices.Contains(c.compiled.names, v.name) {
			return model.Errorf(model.Invalid, "where: a trusted group cannot read %s: %s", v.name, v.why).
				WithHint("write a condition over node.labels (there, those that operators and join tokens set), list nodes:, or list trusted groups: in groups:")
		}
	}
	return nil
}

// Match evaluates the condition. An evaluation error, such as an index out of range, is no match.
func (c *Condition) Match(n *Node) bool {
	if c.compiled.whole { // the common case, at a tenth of the cost
		return !slices.ContainsFunc(c.compiled.needs, func(need Need) bool { return !n.has(need) })
	}
	return c.compiled.Evaluate(n)
}

// Evaluate evaluates the condition. An evaluation error is no match.
func (c *Compiled) Evaluate(vars interpreter.Activation) bool {
	out, _, err := c.Program.Eval(vars)
	return err == nil && out == types.True
}
