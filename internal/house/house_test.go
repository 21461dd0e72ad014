// Package house checks the rules of this repository: the direction of imports, package comments, sizes of types, the
// words of names and comments, links between pages, and the code that ARCHITECTURE.md names.
package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

const module = "github.com/muster-fleet/muster/"

// layers orders the rooms: a package may import only packages of its own layer or of lower ones. internal/app and
// the programs may import all.
var layers = map[string]int{
	"bench/scenarios": 0, "internal/version": 0, "internal/outbound": 0, "internal/pause": 0, "internal/guard": 0, "internal/model": 0, "internal/item": 0, "internal/queue": 0, "internal/authlimit": 0, "internal/profiles": 0, "internal/testenv": 0,
	"internal/inventory": 1, "internal/trigger": 1, "internal/policy": 1, "internal/discovery": 2,
	"internal/wire": 1, "internal/sensuwire": 1, "internal/conversion": 1, "internal/sensuimport": 3, "internal/zabbiximport": 3, "internal/promimport": 3, "internal/rudderimport": 3, "internal/when": 1, "internal/measure": 1, "internal/journal": 1, "internal/expect": 1, "internal/config": 1,
	"internal/pki": 2, "internal/intent": 3, "internal/kind": 2, "internal/document": 1, "internal/agent/probe": 1, "internal/handler/body": 1, "internal/api/v1": 1, "internal/access": 3, "internal/metrics": 2, "internal/where": 1, "internal/window": 1, "internal/filter": 1, "internal/prep": 2, "internal/route": 2, "internal/store": 3, "internal/pipes": 3,
	"internal/directory": 2, "internal/plan": 3, "internal/roundrobin": 4, "internal/rollout": 4, "internal/pipeline": 4, "internal/watchdog": 7, "internal/handler": 4, "internal/dispatch": 5, "internal/rederive": 5, "internal/follow": 5,
	"internal/source": 6, "internal/agent": 6, "internal/tools": 6, "internal/wsconn": 1,
	"internal/secret": 1, "internal/hide": 1, "internal/client": 7, "internal/api": 7, "internal/promapi": 7, "internal/promexpr": 0, "internal/rules": 7, "internal/computed": 7, "internal/remotesend": 4, "internal/sensuctl": 7, "internal/doctor": 3, "internal/sdnotify": 0, "internal/chart": 0, "internal/load": 7, "internal/load/plan": 7, "internal/load/play": 7, "internal/load/observe": 7, "internal/load/judge": 7, "internal/load/report": 7,
	"internal/archive": 7, "internal/evidence": 3, "internal/parquet": 0, "internal/serverlog": 7, "internal/datadir": 6, "internal/offline": 7, "internal/recorder": 6, "internal/selfcheck": 7, "internal/cli": 8, "internal/firststart": 8, "internal/app": 9, "internal/house": 9, "cmd": 10, "test": 10, "bench": 10,
}

// forbiddenImports are pairs whose first room must not import the second, although their layers permit it. internal/load has a
// test of its own.
var forbiddenImports = [][2]string{
	{"internal/agent", "internal/source"}, {"internal/agent", "internal/store"},
	{"internal/agent", "internal/intent"}, {"internal/agent", "internal/plan"}, {"internal/agent", "internal/directory"},
	{"internal/agent", "internal/pipeline"}, {"internal/source", "internal/agent"},
	{"internal/source", "internal/store"}, {"internal/pipeline", "internal/intent"},
	{"internal/pipeline", "internal/plan"}, {"internal/model", "internal/queue"},
	{"internal/model", "internal/version"}, {"internal/cli", "internal/source"},
	{"internal/cli", "internal/journal"}, {"internal/cli", "internal/store"},
}

func layerOf(path string) (string, int, bool) {
	for p := path; p != "."; p = filepath.Dir(p) {
		if n, ok := layers[p]; ok {
			return p, n, true
		}
	}
	return "", 0, false
}

type file struct {
	path  string // from the root
	lines int
	ast   *ast.File
}

func goFiles(t *testing.T) []file {
	t.Helper()
	root, err := filepath.Abs("../..")
	testenv.NoError(t, err)
	var files []file
	set := token.NewFileSet()
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin") && path != root {
			return filepath.SkipDir
		}
		if _, err := os.Stat(filepath.Join(path, "go.mod")); d.IsDir() && path != root && err == nil {
			return filepath.SkipDir // tools with a module of their own
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		f, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		files = append(files, file{rel, set.File(f.FileStart).LineCount(), f})
		return err
	})
	testenv.NoError(t, err)
	return files
}

// TestImportsPointOneWay holds layers and forbiddenImports in all code but tests.
func TestImportsPointOneWay(t *testing.T) {
	for _, f := range goFiles(t) {
		if strings.HasSuffix(f.path, "_test.go") {
			continue // tests may join any rooms
		}
		room, layer, ok := layerOf(filepath.Dir(f.path))
		if !ok {
			t.Errorf("%s: the room %s is not on the list of layers in this test", f.path, filepath.Dir(f.path))
			continue
		}
		for _, imp := range f.ast.Imports {
			path, ours := strings.CutPrefix(strings.Trim(imp.Path.Value, `"`), module)
			if !ours {
				continue
			}
			other, otherLayer, _ := layerOf(path)
			if otherLayer > layer {
				t.Errorf("%s imports %s: imports point from the outside in (layer %d → %d)", f.path, path, layer, otherLayer)
			}
			for _, pair := range forbiddenImports {
				if room == pair[0] && other == pair[1] {
					t.Errorf("%s imports %s: forbiddenImports excludes it", f.path, path)
				}
			}
		}
	}
}

// TestEveryPackageHasADoc fails for a package without a comment about its goroutines and locks. The comment of a
// package with more than three files also names the file to start at.
func TestEveryPackageHasADoc(t *testing.T) {
	type room struct {
		comment           string
		files             int
		goroutines, locks bool
	}
	rooms := map[string]*room{}
	for _, f := range goFiles(t) {
		if strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		dir := filepath.Dir(f.path)
		if rooms[dir] == nil {
			rooms[dir] = &room{}
		}
		r := rooms[dir]
		r.comment += f.ast.Doc.Text()
		r.files++
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				r.goroutines = true
			case *ast.Field:
				if sel, ok := n.Type.(*ast.SelectorExpr); ok && (sel.Sel.Name == "Mutex" || sel.Sel.Name == "RWMutex") {
					r.locks = true
				}
			}
			return true
		})
	}
	for dir, r := range rooms {
		says := func(what string) bool { return regexp.MustCompile(what).MatchString(r.comment) }
		switch {
		case r.comment == "":
			t.Errorf("%s: no file has a package comment", dir)
		case !strings.HasPrefix(dir, "internal/"):
		case r.goroutines && !says("[Gg]oroutine"):
			t.Errorf("%s: the package comment does not say which goroutines there are", dir)
		case r.locks && !says("[Ll]ock|mutex"):
			t.Errorf("%s: the package comment does not say which locks there are", dir)
		case r.files > 3 && !says(`[Ss]tart (reading )?at`):
			t.Errorf("%s: the package comment does not say where to start reading", dir)
		}
	}
}

// TestPackageCommentsNameExistingFiles fails if a package comment names a Go file that does not exist. The file may be
// in the package, below internal, or below the root.
func TestPackageCommentsNameExistingFiles(t *testing.T) {
	named, comments := regexp.MustCompile(`[a-z0-9_][a-z0-9_./]*\.go\b`), 0
	for _, f := range goFiles(t) {
		for _, name := range named.FindAllString(f.ast.Doc.Text(), -1) {
			comments++
			exists := false
			for _, dir := range []string{filepath.Dir(f.path), filepath.Join(filepath.Dir(f.path), ".."), "internal", "."} {
				_, err := os.Stat(filepath.Join("../..", dir, name))
				exists = exists || err == nil
			}
			if !exists {
				t.Errorf("%s: the package comment names %s, which does not exist", f.path, name)
			}
		}
	}
	if comments < 50 {
		t.Errorf("package comments name only %d files", comments)
	}
}

// TestNoPackageStartsGoroutinesInInit refuses functions init.
func TestNoPackageStartsGoroutinesInInit(t *testing.T) {
	for _, f := range goFiles(t) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: init(): start things where they can be seen", f.path)
			}
		}
	}
}

// TestNoSleepsInTests requires that tests wait for conditions. They may sleep only on the clock of synctest: in a
// function that calls synctest.Test, or whose comment has the words "in a bubble". A deadline (a case of time.After
// with statements) is permitted everywhere.
func TestNoSleepsInTests(t *testing.T) {
	for _, f := range goFiles(t) {
		if !strings.HasSuffix(f.path, "_test.go") && !strings.HasPrefix(f.path, "test/") {
			continue
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil || inBubble(fn) || strings.Contains(fn.Doc.Text(), "house: sleeps because") {
				continue
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					for _, name := range []string{"time.Sleep", "runtime.Gosched"} {
						if calls(n, name) {
							t.Errorf("%s: %s in %s: wait for the condition (testenv.Until), or use testing/synctest", f.path, name, fn.Name.Name)
						}
					}
				case *ast.CommClause:
					if wait, ok := n.Comm.(*ast.ExprStmt); ok && len(n.Body) == 0 && receivesAfter(wait.X) {
						t.Errorf("%s: %s polls with time.After: use testenv.Until", f.path, fn.Name.Name)
					}
				case *ast.BlockStmt:
					for _, s := range n.List {
						if wait, ok := s.(*ast.ExprStmt); ok && receivesAfter(wait.X) {
							t.Errorf("%s: %s sleeps with time.After", f.path, fn.Name.Name)
						}
					}
				}
				return true
			})
		}
	}
}

func inBubble(fn *ast.FuncDecl) bool {
	if strings.Contains(fn.Doc.Text(), "in a bubble") {
		return true
	}
	found := false
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && calls(call, "synctest.Test") {
			found = true
		}
		return !found
	})
	return found
}

func calls(call *ast.CallExpr, name string) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := sel.X.(*ast.Ident)
	return ok && pkg.Name+"."+sel.Sel.Name == name
}

func receivesAfter(x ast.Expr) bool {
	receive, ok := x.(*ast.UnaryExpr)
	if !ok || receive.Op != token.ARROW {
		return false
	}
	call, ok := receive.X.(*ast.CallExpr)
	return ok && calls(call, "time.After")
}

// TestBufferedChannelsAreRegisteredQueues fails for a channel with a buffer of more than two elements. Such a channel
// is a queue, and a queue has a name and a metric of its depth. A channel of one or two elements carries a signal or
// one answer. The load tester is exempt.
func TestBufferedChannelsAreRegisteredQueues(t *testing.T) {
	for _, f := range goFiles(t) {
		if strings.HasSuffix(f.path, "_test.go") || strings.HasPrefix(f.path, "internal/queue/") || strings.HasPrefix(f.path, "internal/load/") || strings.Contains(f.path, "test/") ||
			!strings.HasPrefix(f.path, "internal/") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 2 {
				return true
			}
			if fn, ok := call.Fun.(*ast.Ident); !ok || fn.Name != "make" {
				return true
			}
			if _, ok := call.Args[0].(*ast.ChanType); !ok {
				return true
			}
			if size, ok := call.Args[1].(*ast.BasicLit); !ok || size.Value != "1" && size.Value != "2" {
				t.Errorf("%s: a buffered channel: take a queue.Queue or queue.Slots, and list it in internal/queue/queue_kinds_and_settings.go", f.path)
			}
			return true
		})
	}
}

// mapStop matches a place in ARCHITECTURE.md: `internal/x/y.go:Name` or `internal/x/y.go:Type.Method`.
var mapStop = regexp.MustCompile("`((?:internal|cmd)/[a-zA-Z0-9_/.-]+\\.go):([A-Za-z0-9_.]+)`")

// TestArchitecturePageNamesExistingCode resolves each place of ARCHITECTURE.md, and finds each room on the page.
func TestArchitecturePageNamesExistingCode(t *testing.T) {
	page, err := os.ReadFile("../../ARCHITECTURE.md")
	testenv.NoError(t, err)
	places := map[string]bool{}
	for _, f := range goFiles(t) {
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					name = receiver(d.Recv.List[0].Type) + "." + name
				}
				places[f.path+":"+name] = true
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						places[f.path+":"+s.Name.Name] = true
					case *ast.ValueSpec:
						for _, name := range s.Names {
							places[f.path+":"+name.Name] = true
						}
					}
				}
			}
		}
	}
	stops := mapStop.FindAllStringSubmatch(string(page), -1)
	if len(stops) < 10 {
		t.Fatalf("only %d stops on the map", len(stops))
	}
	var missing []string
	for _, stop := range stops {
		if !places[stop[1]+":"+stop[2]] {
			missing = append(missing, stop[0])
		}
	}
	for room := range layers {
		if !strings.Contains(string(page), "`"+room) {
			missing = append(missing, "(the room "+room+" is on no map)")
		}
	}
	for _, path := range mapPath.FindAllStringSubmatch(string(page), -1) {
		if _, err := os.Stat(filepath.Join("../..", path[1])); err != nil {
			missing = append(missing, path[0])
		}
	}
	sort.Strings(missing)
	for _, stop := range missing {
		t.Errorf("ARCHITECTURE.md: %s: code and map disagree", stop)
	}
}

// mapPath matches a folder or file of ARCHITECTURE.md without a declaration.
var mapPath = regexp.MustCompile("`((?:internal|cmd|bench|scripts|deploy|test)(?:/[a-zA-Z0-9_/.-]+)?)`")

// codeMapRow matches a row of the code map about one room of internal: its name and the rooms that it imports.
var codeMapRow = regexp.MustCompile("(?m)^\\| `(internal/[a-z/]+)`.* \\| ([^|]*) \\|$")

// TestCodeMapNamesRealImports fails if ARCHITECTURE.md names an import of a room that no code has. Imports of tests
// do not count.
func TestCodeMapNamesRealImports(t *testing.T) {
	page, err := os.ReadFile("../../ARCHITECTURE.md")
	testenv.NoError(t, err)
	imports := map[string][]string{} // by folder
	for _, f := range goFiles(t) {
		if strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		for _, i := range f.ast.Imports {
			if room, ours := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module+"internal/"); ours {
				imports[filepath.Dir(f.path)] = append(imports[filepath.Dir(f.path)], room)
			}
		}
	}
	rows := codeMapRow.FindAllStringSubmatch(string(page), -1)
	if len(rows) < 50 {
		t.Fatalf("only %d rows in the code map", len(rows))
	}
	for _, row := range rows {
		var real []string
		for folder, list := range imports {
			if folder == row[1] || strings.HasPrefix(folder, row[1]+"/") {
				real = append(real, list...)
			}
		}
		for named := range strings.SplitSeq(row[2], ", ") {
			switch named {
			case "everybody", "–":
			case "nothing of ours":
				if slices.ContainsFunc(real, func(room string) bool { return !strings.HasPrefix("internal/"+room, row[1]) }) {
					t.Errorf("ARCHITECTURE.md: %s imports %v", row[1], real)
				}
			default:
				if !slices.ContainsFunc(real, func(room string) bool { return room == named || strings.HasPrefix(room, named+"/") }) {
					t.Errorf("ARCHITECTURE.md: %s does not import %s", row[1], named)
				}
			}
		}
	}
}

// TestWalksAreShortAndProven limits each section "Add a …" of ARCHITECTURE.md to ten lines. Each section also has to
// name a test with its file. TestArchitecturePageNamesExistingCode fails if the file has no such test.
func TestWalksAreShortAndProven(t *testing.T) {
	page, err := os.ReadFile("../../ARCHITECTURE.md")
	testenv.NoError(t, err)
	walks := 0
	for _, section := range strings.Split(string(page), "\n## ") {
		title, body, _ := strings.Cut(section, "\n")
		if !strings.HasPrefix(title, "Add a ") {
			continue
		}
		walks++
		lines := 0
		for line := range strings.Lines(body) {
			if strings.TrimSpace(line) != "" {
				lines++
			}
		}
		if lines > 10 {
			t.Errorf("ARCHITECTURE.md: %s has %d lines, at most 10", title, lines)
		}
		if !strings.Contains(body, "_test.go:Test") {
			t.Errorf("ARCHITECTURE.md: %s names no test as `internal/…_test.go:TestName`", title)
		}
	}
	if walks < 6 {
		t.Errorf("only %d walks begin with \"Add a \"", walks)
	}
}

// TestParityPageNamesExistingTests requires, for each row of docs/parity, the names of tests that show the parity. Times
// and sizes of fleets, which no test asserts, must name their measurement.
func TestParityPageNamesExistingTests(t *testing.T) {
	tests := map[string]bool{}
	for _, f := range goFiles(t) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && strings.HasSuffix(f.path, "_test.go") {
				tests[fn.Name.Name] = true
			}
		}
	}
	pages, err := filepath.Glob("../../docs/parity/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("pages %v, %v", pages, err)
	}
	row, figures := regexp.MustCompile(`(?m)^\| .* \|$`), regexp.MustCompile(`[0-9.]+ (µs|ms|s)\b|[0-9]+,000 (are|new|agents|nodes)`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		testenv.NoError(t, err)
		for _, line := range row.FindAllString(string(text), -1) {
			cells := strings.Split(strings.ReplaceAll(line, `\|`, ""), "|")
			named := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(cells[len(cells)-2], -1)
			if len(named) == 0 && !strings.Contains(line, "shown by") {
				t.Errorf("%s: no test shows this: %s", page, line)
			}
			if figure := figures.FindString(cells[2]); figure != "" && !strings.Contains(cells[len(cells)-2], "measured") {
				t.Errorf("%s: %s: say where it was measured: %s", page, figure, line)
			}
			for _, name := range named {
				if !tests[name[1]] {
					t.Errorf("%s: there is no test %s", page, name[1])
				}
			}
		}
	}
}

func receiver(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}
