package house

import (
	"go/ast"
	"path/filepath"
	"strings"
	"testing"
)

// The bounds of a type. A type that needs more does several jobs: split it by job.
const (
	maxMethods = 40
	maxFields  = 25
)

// largeTypes lists types above maxMethods with their present number, which only falls.
var largeTypes = map[string]int{}

// TestTypeSizes bounds methods and fields of types. A struct may have more fields if its comment
// gives the reason in the form "more than 25 fields because …"; for methods largeTypes is the only exception.
func TestTypeSizes(t *testing.T) {
	methods := map[string]int{}
	for _, f := range goFiles(t) {
		if exemptFromWords(f.path) || strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					methods[filepath.Dir(f.path)+"."+receiver(d.Recv.List[0].Type)]++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					s, ok := spec.(*ast.TypeSpec)
					if !ok {
						continue
					}
					if n := fieldCount(s); n > maxFields && !hasFieldsReason(f.ast, s, d) {
						t.Errorf("%s: %s has %d fields, at most %d: group them, or give the reason in its comment (more than 25 fields because …)", f.path, s.Name.Name, n, maxFields)
					}
				}
			}
		}
	}
	for name, n := range methods {
		if n > max(maxMethods, largeTypes[name]) {
			t.Errorf("%s has %d methods, at most %d: split it by job", name, n, maxMethods)
		}
	}
}

// hasFieldsReason reports whether a comment gives the reason for the many fields of a type. It is the type's comment
// or another one of the file that names the type, because comments of specs are texts for users.
func hasFieldsReason(f *ast.File, s *ast.TypeSpec, d *ast.GenDecl) bool {
	for _, group := range f.Comments {
		text := strings.Join(strings.Fields(group.Text()), " ")
		if strings.Contains(text, "more than 25 fields because") && (group == s.Doc || group == d.Doc || strings.HasPrefix(text, s.Name.Name+" ")) {
			return true
		}
	}
	return false
}

// fieldCount returns the number of fields of a struct type, 0 for other types.
func fieldCount(s *ast.TypeSpec) int {
	st, ok := s.Type.(*ast.StructType)
	if !ok {
		return 0
	}
	n := 0
	for _, field := range st.Fields.List {
		n += max(1, len(field.Names))
	}
	return n
}
