package filter

import (
	"reflect"
	"slices"
	"strings"

	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/token"
)

// declarations declares the undeclared variables to which a library assigns. Libraries are written for interpreters in which
// such a variable is global, and the most used ones have some; here they belong to the function around the library.
func declarations(library *ast.Program) string {
	var names []string
	add := func(e any) {
		if id, ok := e.(*ast.Identifier); ok && !slices.Contains(names, id.Name.String()) {
			names = append(names, id.Name.String())
		}
	}
	walk(reflect.ValueOf(library.Body), func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignExpression:
			add(n.Left)
		case *ast.UnaryExpression:
			if n.Operator == token.INCREMENT || n.Operator == token.DECREMENT {
				add(n.Operand)
			}
		case *ast.ForIntoExpression:
			add(n.Expression)
		}
		return true
	})
	kept := strings.Fields(globals + " eval arguments")
	for _, s := range library.Body {
		if d, ok := s.(*ast.LexicalDeclaration); ok { // let and const, which may stand once
			for _, b := range d.List {
				if id, ok := b.Target.(*ast.Identifier); ok {
					kept = append(kept, id.Name.String())
				}
			}
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(kept, name) })
	if len(names) == 0 {
		return ""
	}
	return "var " + strings.Join(names, ", ") + ";"
}

// walk shows all nodes, each before those in it, until visit says that it is enough.
func walk(v reflect.Value, visit func(ast.Node) (more bool)) bool {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return true
		}
		if node, ok := v.Interface().(ast.Node); ok && v.Kind() == reflect.Pointer && !visit(node) {
			return false
		}
		return walk(v.Elem(), visit)
	case reflect.Slice:
		for i := range v.Len() {
			if !walk(v.Index(i), visit) {
				return false
			}
		}
	case reflect.Struct:
		if v.Type().PkgPath() != reflect.TypeFor[ast.Program]().PkgPath() {
			return true // positions
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "DeclarationList" && !walk(v.Field(i), visit) {
				return false
			}
		}
	}
	return true
}
