package collect

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// keysInSource returns the keys of collectors in the source of a system. They are keys of maps.
func keysInSource(t *testing.T, names ...string) (keys []string) {
	for _, name := range names {
		file := testenv.Value(parser.ParseFile(token.NewFileSet(), name, nil, 0))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			var at ast.Expr
			switch n := n.(type) {
			case *ast.FuncDecl:
				return n.Name.Name == "measuresOfSystem" || n.Name.Name == "bsdMeasures"
			case *ast.KeyValueExpr:
				at = n.Key
			case *ast.IndexExpr:
				at = n.Index
			}
			if text, ok := at.(*ast.BasicLit); ok {
				keys = append(keys, testenv.Value(strconv.Unquote(text.Value))(t))
			}
			return true
		})
	}
	slices.Sort(keys)
	return keys
}

// TestTableNamesTheSystemsOfEachKey compares the systems in the table of keys with the source of each system.
func TestTableNamesTheSystemsOfEachKey(t *testing.T) {
	for system, files := range map[systems][]string{
		onLinux: {"collectors_linux.go"}, onWindows: {"collectors_windows.go"}, onMacOS: {"collectors_darwin.go", "collectors_bsd.go"},
		onFreeBSD: {"collectors_freebsd.go", "collectors_bsd.go"},
	} {
		own := keysInSource(t, files...)
		table := collectorTable()
		for _, name := range slices.Sorted(maps.Keys(table)) {
			has := table[name].measure != nil || slices.Contains(own, name)
			if says := table[name].systems&system != 0; says != has {
				t.Errorf("%s: the table says %v for %s, its source %v", name, says, system, has)
			}
		}
		for _, name := range own {
			if _, ok := table[name]; !ok {
				t.Errorf("%s: %s has no line in the table", strings.Join(files, " "), name)
			}
		}
	}
}
