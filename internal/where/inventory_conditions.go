package where

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	celref "cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"

	"github.com/muster-fleet/muster/internal/inventory"
	"github.com/muster-fleet/muster/internal/model"
)

// A condition reads an inventory by terms such as inventory.packages.exists(p, p.name == "openssl"). Compile takes each term out of the
// condition and leaves a boolean variable in its place: a term is evaluated once for each distinct entry of the fleet, not for each node.

// EntryTerm is an exists() or all() in a condition, which tests the entries of an inventory section. An example of a
// section is packages.
type EntryTerm struct {
	Section inventory.Section
	Name    string // name that an entry must have; empty: any

	variable string // of the condition, in place of the term
	all      bool   // every entry must satisfy the predicate: the term looks for one that does not
	entry    string // variable of the predicate
	program  cel.Program
}

// Match reports whether one inventory entry alone decides the result of exists() or all(). For exists() that is an
// entry that satisfies the predicate, for all() an entry that does not.
func (t *EntryTerm) Match(e inventory.Entry) bool {
	if e.Section() != t.Section || t.Name != "" && e.Name() != t.Name {
		return false
	}
	out, _, err := t.program.Eval(entryActivation{t.entry, entryValue{e}})
	return (err == nil && out == types.True) != t.all
}

// EntryTerms returns the parts of the condition that test inventory entries.
func (c *CompiledCondition) EntryTerms() []*EntryTerm { return c.terms }

// EntryTerms returns the parts of the condition that test inventory entries.
func (c *Condition) EntryTerms() []*EntryTerm { return c.compiled.terms }

// InventorySections returns which parts of the inventory, such as packages, the condition reads. The result is a bit
// set by section number.
func (c *Condition) InventorySections() (sections uint32) {
	for _, t := range c.compiled.terms {
		sections |= t.Section.Bit()
	}
	return sections
}

// inventoryVariable is the prefix of CEL variables for sections of an inventory.
const inventoryVariable = "inventory."

// inventoryOptions declares the CEL variables of inventories and the function older.
func inventoryOptions() (options []cel.EnvOption) {
	entry := cel.MapType(cel.StringType, cel.StringType)
	for _, name := range inventory.SectionNames() {
		options = append(options, cel.Variable(inventoryVariable+name, cel.ListType(entry)))
	}
	return append(options, cel.Function("older", cel.Overload("older_entry_string", []*cel.Type{cel.DynType, cel.StringType}, cel.BoolType, cel.BinaryBinding(isOlder))))
}

// isOlder evaluates older(p, "1.2"), which compares the version of a package. It follows the rules of the package
// manager that reported the package.
func isOlder(of, version celref.Val) celref.Val {
	e, ok := of.(entryValue)
	text, isText := version.(types.String)
	if !ok || !isText || e.entry.Section() != inventory.Packages {
		return types.NewErr("older() compares a package of inventory.packages with a version")
	}
	order, known := inventory.CompareVersions(e.entry.Field(3), e.entry.Field(1), string(text))
	return types.Bool(known && order < 0)
}

// extractEntryTerms replaces each exists() or all() over an inventory in the condition by a variable. The condition is
// type-checked. It returns the replaced terms.
func (l *Language) extractEntryTerms(env *cel.Env, checked *cel.Ast) (terms []*EntryTerm, err error) {
	a := checked.NativeRep()
	ast.PreOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if err != nil || e.Kind() != ast.ComprehensionKind {
			return
		}
		section, ok := strings.CutPrefix(variableName(a, e.AsComprehension().IterRange()), inventoryVariable)
		if !ok {
			return
		}
		var t *EntryTerm
		if t, err = newEntryTerm(env, a, e.AsComprehension(), section); err != nil {
			return
		}
		t.variable = inventoryVariable + section + "#" + strconv.Itoa(len(terms))
		terms = append(terms, t)
		e.SetKindCase(ast.NewExprFactory().NewIdent(e.ID(), t.variable))
		a.SetReference(e.ID(), ast.NewIdentReference(t.variable, nil))
	}))
	if err != nil {
		return nil, err
	}
	ast.PreOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if name := variableName(a, e); strings.HasPrefix(name, inventoryVariable) && !strings.Contains(name, "#") {
			err = model.Errorf(model.Invalid, "where: a condition reads %s only by exists() and all()", name).WithHint(`write for example: inventory.packages.exists(p, p.name == "openssl" && older(p, "3.0.11"))`)
		}
	}))
	return terms, err
}

// newEntryTerm compiles the condition inside exists() or all(), which is evaluated for each inventory entry.
func newEntryTerm(env *cel.Env, a *ast.AST, c ast.ComprehensionExpr, section string) (*EntryTerm, error) {
	form, _ := inventory.SchemaByName(section)
	t := &EntryTerm{Section: form.Section, entry: c.IterVar()}
	step := c.LoopStep()
	switch {
	case step.Kind() != ast.CallKind || c.Result().Kind() != ast.IdentKind || c.HasIterVar2():
		return nil, model.Errorf(model.Invalid, "where: a condition reads %s%s only by exists() and all()", inventoryVariable, section).WithHint("write exists(x, …) or all(x, …)")
	case step.AsCall().FunctionName() == operators.LogicalAnd:
		t.all = true
	case step.AsCall().FunctionName() != operators.LogicalOr:
		return nil, model.Errorf(model.Invalid, "where: a condition reads %s%s only by exists() and all()", inventoryVariable, section).WithHint("write exists(x, …) or all(x, …)")
	}
	predicate := step.AsCall().Args()[1]
	if err := checkPredicate(a, predicate, t.entry, form); err != nil {
		return nil, err
	}
	if !t.all {
		t.Name = requiredName(predicate, t.entry)
	}
	program, err := env.PlanProgram(ast.NewCheckedAST(ast.NewAST(ast.NewExprFactory().CopyExpr(predicate), a.SourceInfo()), a.TypeMap(), a.ReferenceMap()), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, fmt.Errorf("prepare the condition over the inventory section %s%s for evaluation: %w", inventoryVariable, section, err)
	}
	t.program = program
	return t, nil
}

// checkPredicate returns an error if exists() or all() reads anything except the inventory entry's fields. The
// section must have these fields.
func checkPredicate(a *ast.AST, predicate ast.Expr, entry string, form inventory.SectionSchema) (err error) {
	local := []string{entry}
	ast.PreOrderVisit(predicate, ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.ComprehensionKind:
			local = append(local, e.AsComprehension().IterVar(), e.AsComprehension().AccuVar())
		case ast.IdentKind:
			if name := e.AsIdent(); !slices.Contains(local, name) && variableName(a, e) != "" && err == nil {
				err = model.Errorf(model.Invalid, "where: inside exists() and all() over an inventory a condition reads only the entry %s, not %s", entry, name).
					WithHint(`write the other part outside: node.labels.env == "prod" && inventory.%s.exists(%s, …)`, form.Name, entry)
			}
		case ast.SelectKind:
			from, field := e.AsSelect().Operand(), e.AsSelect().FieldName()
			if from.Kind() == ast.IdentKind && from.AsIdent() == entry && !slices.Contains(form.Fields, field) && err == nil {
				err = model.Errorf(model.Invalid, "where: an entry of inventory.%s has no field %s", form.Name, field).WithHint("its fields are %s", strings.Join(form.Fields, ", "))
			}
		case ast.CallKind:
			if e.AsCall().FunctionName() != "older" || err != nil {
				return
			}
			if of := e.AsCall().Args()[0]; form.Section != inventory.Packages || of.Kind() != ast.IdentKind || of.AsIdent() != entry {
				err = model.Errorf(model.Invalid, "where: older() compares an entry of inventory.packages with a version").WithHint(`write inventory.packages.exists(p, p.name == "openssl" && older(p, "3.0.11"))`)
			}
		}
	}))
	return err
}

// requiredName returns the entry name that exists() requires, for a search of the inventory by name. The text
// is empty if entries of any name may satisfy it.
func requiredName(e ast.Expr, entry string) string {
	if e.Kind() != ast.CallKind || len(e.AsCall().Args()) != 2 {
		return ""
	}
	left, right := e.AsCall().Args()[0], e.AsCall().Args()[1]
	switch e.AsCall().FunctionName() {
	case operators.LogicalAnd:
		if name := requiredName(left, entry); name != "" {
			return name
		}
		return requiredName(right, entry)
	case operators.Equals:
		if right.Kind() == ast.SelectKind {
			left, right = right, left
		}
		name, ok := stringLiteral(right)
		if s := left; ok && s.Kind() == ast.SelectKind && s.AsSelect().FieldName() == "name" && s.AsSelect().Operand().Kind() == ast.IdentKind && s.AsSelect().Operand().AsIdent() == entry {
			return name
		}
	}
	return ""
}

// entryActivation supplies CEL with the only variable inside exists() or all(), the current inventory entry.
type entryActivation struct {
	name  string
	entry entryValue
}

// ResolveName returns the current inventory entry as the value of the CEL variable inside exists() or all().
func (a entryActivation) ResolveName(name string) (any, bool) { return a.entry, name == a.name }

// Parent returns nil, because an entry has no outer scope of variables.
func (entryActivation) Parent() interpreter.Activation { return nil }

// entryValue presents an inventory entry to CEL as a map of its fields. A field that the entry does not have is "".
type entryValue struct{ entry inventory.Entry }

var (
	_ traits.Indexer     = entryValue{}
	_ traits.FieldTester = entryValue{}
)

// field returns the text of the entry's field with a given name.
func (v entryValue) field(key celref.Val) (value string) {
	name, _ := key.(types.String)
	if i := slices.Index(inventory.SchemaOf(v.entry.Section()).Fields, string(name)); i >= 0 {
		value = v.entry.Field(i)
	}
	return value
}

// Get returns a field of the entry, for CEL expressions such as p.name.
func (v entryValue) Get(index celref.Val) celref.Val { return types.String(v.field(index)) }

// IsSet reports whether a field is not empty, for CEL expressions such as has(p.version).
func (v entryValue) IsSet(field celref.Val) celref.Val { return types.Bool(v.field(field) != "") }

// ConvertToNative returns an error, because nothing needs an entry as a Go value.
func (v entryValue) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("cannot convert an entry of an inventory to %s", t)
}

// ConvertToType returns an error, because nothing needs an entry as another type.
func (v entryValue) ConvertToType(t celref.Type) celref.Val {
	return types.NewErr("cannot convert an entry of an inventory to %s", t.TypeName())
}

// Equal reports whether two inventory entries are equal.
func (v entryValue) Equal(other celref.Val) celref.Val {
	o, ok := other.(entryValue)
	return types.Bool(ok && o == v)
}

// Type returns the CEL type of an entry, which is a map.
func (entryValue) Type() celref.Type { return types.MapType }

// Value returns the inventory entry as a Go value, for CEL.
func (v entryValue) Value() any { return v.entry }
