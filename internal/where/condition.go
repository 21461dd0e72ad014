// Package where compiles and evaluates conditions: CEL over the variables of a node (targets and
// groups) and over further variables that a caller declares (events, in the API).
//
// Compile bounds a condition in length, depth and cost, so evaluating it over a whole fleet needs no counting.
// Evaluation uses one reused Node instead of a map per node: half a microsecond, without allocations of its own.
//
// The package has no goroutines and no locks. Start reading at Condition (over a node), then
// Language (compilation of any condition) and node_variables.go.
package where

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"weak"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"github.com/muster-fleet/muster/internal/inventory"
	"github.com/muster-fleet/muster/internal/model"
)

// maxBytes bounds the length of a condition.
const maxBytes = 4096

// Sizes of variables that CEL's cost estimate assumes.
const (
	assumedEntries = 128 // labels, facts or groups of a node
	assumedBytes   = 256 // of a string
)

// Language defines which CEL variables one kind of condition, such as conditions on events, may use. It has the
// variables that they may read, and their maximum cost. Compile checks the cost of the worst input once, so
// evaluation needs no counting.
type Language struct {
	Of          string         // the subject of a condition in messages: node, event
	Reads       string         // its variables, for messages
	Example     string         // a valid condition, for messages
	MaxCost     uint64         // in CEL's units, per evaluation; comparing a label costs about 3
	Bytes       map[string]int // of string variables that may be longer than a label
	WithoutNode bool           // the language has no variables of a node
	// Inventory says that conditions may read the inventory of the node.
	Inventory bool
	// Options declares variables and constants in addition to the variables of a node; nil: none.
	Options func() []cel.EnvOption

	inUse sync.Map // weak pointers to conditions, by text

	envOnce sync.Once // creating the environment takes milliseconds
	env     *cel.Env
	err     error
}

// CompiledCondition is a compiled CEL condition of any kind, such as about a node or an event. It has the index
// terms that the condition requires. Safe for concurrent use.
type CompiledCondition struct {
	Program   cel.Program
	names     []string // of the variables that it reads
	needs     []IndexTerm
	onlyNeeds bool // a node that satisfies all needs matches the condition
	terms     []*EntryTerm
}

// Reads reports whether the condition uses a variable whose name begins with a prefix.
func (c *CompiledCondition) Reads(prefix string) bool {
	for _, name := range c.names {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// Compile compiles a CEL condition, and refuses a condition that costs too much to evaluate. An error names the
// fault and its column.
func (l *Language) Compile(expr string) (*CompiledCondition, error) {
	if strings.TrimSpace(expr) == "" {
		return nil, model.Errorf(model.Invalid, "where: the condition is empty").WithHint("write a condition such as %s", l.Example)
	}
	if len(expr) > maxBytes {
		return nil, model.Errorf(model.Invalid, "where: the condition has %d bytes, at most %d are allowed", len(expr), maxBytes)
	}
	env, err := l.environment()
	if err != nil {
		return nil, fmt.Errorf("create the CEL environment for conditions: %w", err)
	}
	ast, issues := env.Compile(expr)
	if issues.Err() != nil {
		return nil, l.compileError(expr, issues.Errors()[0])
	}
	if ast.OutputType() != cel.BoolType {
		return nil, model.Errorf(model.Invalid, "where: the result of %q is %s, expected true or false", expr, typeName(ast.OutputType())).
			WithHint("compare it, for example: %s", l.Example)
	}
	if err := l.refuseQuotedNumbers(ast); err != nil {
		return nil, err
	}
	estimate, err := env.EstimateCost(ast, sizeEstimator{l})
	if err != nil {
		return nil, fmt.Errorf("estimate the cost of condition %q: %w", expr, err)
	}
	if estimate.Max > l.MaxCost {
		return nil, model.Errorf(model.Invalid, "where: the condition could cost %d steps for one %s, at most %d are allowed", estimate.Max, l.Of, l.MaxCost).
			WithHint("avoid nested exists() and all(), and several matches() over long texts")
	}
	if err := checkPatterns(ast.NativeRep()); err != nil {
		return nil, err
	}
	c := &CompiledCondition{}
	if l.Inventory {
		if c.terms, err = l.extractEntryTerms(env, ast); err != nil {
			return nil, err
		}
	}
	c.Program, err = env.Program(ast, cel.EvalOptions(cel.OptOptimize), cel.InterruptCheckFrequency(interruptInterval))
	if err != nil {
		return nil, model.Errorf(model.Invalid, "where: condition %q: %w", expr, err)
	}
	c.needs, c.onlyNeeds = extractIndexTerms(ast.NativeRep(), ast.NativeRep().Expr())
	for _, ref := range ast.NativeRep().ReferenceMap() {
		c.names = append(c.names, ref.Name)
	}
	return c, nil
}

// environment returns the CEL environment with the language's variables and limits.
func (l *Language) environment() (*cel.Env, error) {
	l.envOnce.Do(func() {
		options := []cel.EnvOption{cel.ParserExpressionSizeLimit(maxBytes), cel.ParserRecursionLimit(64)}
		if !l.WithoutNode {
			options = append(options, nodeVariables()...)
		}
		if l.Inventory {
			options = append(options, inventoryOptions()...)
		}
		if l.Options != nil {
			options = append(options, l.Options()...)
		}
		l.env, l.err = cel.NewEnv(options...)
	})
	return l.env, l.err
}

// compileError converts the CEL library's compile error to a message with the column and a hint.
func (l *Language) compileError(expr string, first *cel.Error) error {
	message := strings.ReplaceAll(first.Message, " (in container '')", "")
	message, _, _ = strings.Cut(message, " expecting ") // CEL lists its whole grammar there
	message = strings.ReplaceAll(message, "mismatched input '<EOF>'", "the condition ends too early")
	e := model.Errorf(model.Invalid, "where: error at column %d of %q: %s", first.Location.Column()+1, expr, message)
	switch {
	case strings.Contains(message, "token recognition error at: '= '"), strings.Contains(message, "token recognition error at: '='"):
		return e.WithHint("to compare, write ==, for example: %s", l.Example)
	case strings.HasPrefix(first.Message, "found no matching overload") && strings.Contains(first.Message, "string") &&
		(strings.Contains(first.Message, "int") || strings.Contains(first.Message, "double")) && readsPairs(expr):
		return e.WithHint("labels and facts are text: compare a number as int(node.facts.cpus) > 4, text with \"quotes\"")
	case strings.HasPrefix(first.Message, "found no matching overload") && strings.Contains(first.Message, "int"):
		return e.WithHint("compare numbers with numbers and constants, without quotes, for example: %s", l.Example)
	case strings.HasPrefix(first.Message, "undeclared reference") && strings.Contains(expr, inventoryVariable) && !l.Inventory:
		return e.WithHint("only the condition of a Group and muster get nodes read inventories: declare a Group with this condition, and name it")
	case strings.HasPrefix(first.Message, "undeclared reference"), strings.HasPrefix(first.Message, "undefined field"):
		return e.WithHint("a condition reads %s", l.Reads)
	case strings.HasPrefix(first.Message, "found no matching overload"):
		return e.WithHint(`labels and facts are strings: compare them with "quoted" text`)
	}
	return e.WithHint("the language is CEL, for example: %s", l.Example)
}

// typeName returns the name of a CEL type for messages, such as "a string".
func typeName(t *cel.Type) string {
	name := t.String()
	if strings.ContainsAny(name[:1], "aeiou") {
		return "an " + name
	}
	return "a " + name
}

// sizeEstimator tells the CEL library how long the values of variables may be. So the library can estimate the cost of
// a condition.
type sizeEstimator struct{ language *Language }

// EstimateSize returns the assumed size of a variable, for CEL's cost estimate.
func (s sizeEstimator) EstimateSize(element cost.AstNode) *cost.SizeEstimate {
	switch element.Type().Kind() {
	case types.MapKind, types.ListKind:
		return &cost.SizeEstimate{Max: assumedEntries}
	case types.DynKind: // any of them
		return &cost.SizeEstimate{Max: assumedBytes}
	case types.StringKind:
		if path := element.Path(); len(path) > 0 && s.language.Bytes[path[0]] > 0 {
			return &cost.SizeEstimate{Max: uint64(s.language.Bytes[path[0]])}
		}
		return &cost.SizeEstimate{Max: assumedBytes}
	}
	return nil
}

// EstimateCallCost returns nil, so CEL uses its own estimate of a call's cost.
func (sizeEstimator) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}

// Condition is a compiled condition over a node, such as node.labels.env == "prod". The variables are node.name,
// node.namespace, node.labels, node.facts (maps of strings) and node.groups (a list of strings). A missing label or
// fact reads as "": node.labels.env != "prod" holds for a node without the label; has(node.labels.env) distinguishes.
// Safe for concurrent use, each caller with its own Node.
type Condition struct {
	Expr        string
	compiled    *CompiledCondition // without the program (10 kB) where the needs are the whole condition
	readsGroups bool
}

// nodeConditions is the language of conditions in groups, targets and routes. nodeSearches may read inventories, too.
var nodeConditions = Language{
	Of: "node", MaxCost: 100_000,
	Reads:   "node.name, node.namespace, node.labels, node.facts and node.groups",
	Example: `node.labels.env == "prod" && node.name.startsWith("web")`,
}

var nodeSearches = Language{
	Of: "node", MaxCost: 1_000_000, Inventory: true,
	Reads:   "node.name, node.namespace, node.labels, node.facts, node.groups, and by exists() and all() " + inventoryVariable + strings.Join(inventory.SectionNames(), ", "),
	Example: `node.labels.env == "prod" && inventory.packages.exists(p, p.name == "openssl")`,
}

// Compile compiles the text of a where condition about a node. An error names the fault and its column. Equal texts
// share one Condition while it is in use.
func Compile(expr string) (*Condition, error) { return compileNode(&nodeConditions, expr) }

// CompileSearch compiles a search condition about nodes, which may also read their inventories. It works as
// Compile does otherwise. See EntryTerm.
func CompileSearch(expr string) (*Condition, error) { return compileNode(&nodeSearches, expr) }

// compileNode compiles a condition about a node, or returns the shared compiled form of an equal text.
func compileNode(l *Language, expr string) (*Condition, error) {
	if known, ok := l.inUse.Load(expr); ok {
		if c := known.(weak.Pointer[Condition]).Value(); c != nil {
			return c, nil
		}
	}
	compiled, err := l.Compile(expr)
	if err != nil {
		return nil, err
	}
	if compiled.onlyNeeds {
		compiled.Program = nil
	}
	c := &Condition{Expr: expr, compiled: compiled, readsGroups: compiled.Reads("node.groups")}
	known := weak.Make(c)
	l.inUse.Store(expr, known)
	runtime.AddCleanup(c, func(expr string) { l.inUse.CompareAndDelete(expr, known) }, expr)
	return c, nil
}

// ReadsGroups reports whether the condition uses the variable node.groups. A group's `where` must not read it.
func (c *Condition) ReadsGroups() bool { return c.readsGroups }

// IsConstant reports whether the condition reads nothing about a node, such as the condition true. It has the
// same value for all nodes.
func (c *Condition) IsConstant() bool { return len(c.compiled.names) == 0 }

// CheckTrusted returns an error if the condition uses values that a machine can choose itself, such as facts.
func (c *Condition) CheckTrusted() error {
	for _, v := range [...]struct{ name, why string }{
		{"node.facts", "every machine reports its own facts"},
		{"node.name", "a machine that joins chooses its name"},
		{"node.groups", "agents can choose their groups"},
	} {
		if slices.Contains(c.compiled.names, v.name) {
			return model.Errorf(model.Invalid, "where: a trusted group cannot read %s: %s", v.name, v.why).
				WithHint("write a condition over node.labels (only labels of operators and join tokens count), list nodes:, or list trusted groups: in groups:")
		}
	}
	if c.compiled.Reads(inventoryVariable) {
		return model.Errorf(model.Invalid, "where: a trusted group cannot read inventories, because every machine reports its own inventory").
			WithHint("write a condition over node.labels, list nodes:, or list trusted groups: in groups:")
	}
	return nil
}

// Match reports whether the condition is true for a node. An evaluation error, such as an index out of range, is no
// match.
func (c *Condition) Match(n *Node) bool {
	if c.compiled.onlyNeeds { // the common case, at a tenth of the cost
		return !slices.ContainsFunc(c.compiled.needs, func(need IndexTerm) bool { return !n.satisfies(need) })
	}
	n.UseTerms(c.compiled.terms)
	return c.compiled.Evaluate(n)
}

// interruptInterval is the number of steps of exists() and all() after which an evaluation looks whether its context ended.
const interruptInterval = 1000

// EvaluateWithin evaluates the condition on the given variables, as Evaluate does. It returns the cause of the context's end.
func (c *CompiledCondition) EvaluateWithin(ctx context.Context, vars interpreter.Activation) (bool, error) {
	out, _, err := c.Program.ContextEval(ctx, vars)
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return err == nil && out == types.True, nil
}

// Evaluate evaluates the condition on the given variables. An evaluation error is no match.
func (c *CompiledCondition) Evaluate(vars interpreter.Activation) bool {
	out, _, err := c.Program.Eval(vars)
	return err == nil && out == types.True
}
