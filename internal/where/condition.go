package where

import (
	"runtime"
	"slices"
	"weak"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"github.com/muster-fleet/muster/internal/model"
)

// Condition is a compiled condition over a node. The variables are node.name,
// node.namespace, node.labels, node.facts (maps of strings) and node.groups (a list
// of strings). A label or fact that is not there reads as "": node.labels.env !=
// "prod" holds for a node without the label, and has(node.labels.env) tells apart.
// Safe for concurrent use, each caller with its own Node.
type Condition struct {
	Expr        string
	compiled    *Compiled // without its program, some 10 kB, where it says nothing but its needs
	readsGroups bool
}

var overNode = Language{
	Of: "node", MaxCost: 100_000,
	Reads:   "node.name, node.namespace, node.labels, node.facts and node.groups",
	Example: `node.labels.env == "prod" && node.name.startsWith("web")`,
}

// Compile checks a condition over a node and says what is wrong with it, and in
// which column. Who writes the same text gets the same condition while it is in use.
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

// ReadsGroups says whether the condition reads node.groups, which a group's own
// `where` may not.
func (c *Condition) ReadsGroups() bool { return c.readsGroups }

// Trusted says why a trusted group cannot have this condition: it reads what machines
// say of themselves. Nil: it reads labels only, of which such a group sees those that the
// server owns.
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

// Match evaluates the condition. An error (an index out of a list's range, say) is
// no match.
func (c *Condition) Match(n *Node) bool {
	if c.compiled.whole { // most are, and a tenth of the work this way
		return !slices.ContainsFunc(c.compiled.needs, func(need Need) bool { return !n.has(need) })
	}
	return c.compiled.Evaluate(n)
}

// Evaluate evaluates the condition. An error of evaluation (an index out of a list's range) is no match.
func (c *Compiled) Evaluate(vars interpreter.Activation) bool {
	out, _, err := c.Program.Eval(vars)
	return err == nil && out == types.True
}
