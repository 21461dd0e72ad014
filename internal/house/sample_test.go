package house

import (
	"flag"
	"fmt"
	"go/ast"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	sampleSize = flag.Int("sample", 0, "print this many names and sentences, drawn at random, for a reader to judge")
	sampleSeed = flag.Uint64("seed", 1, "seed of the draw")
)

// hasWord matches a message with a word in it: a format such as "%s: %w" only joins texts of others.
var hasWord = regexp.MustCompile(`(^|[^%\w])[A-Za-z]{2,}`)

// TestSample prints names, comments and messages drawn at random. A reader who knows the field but not this code
// writes the meaning of each after one reading, and somebody else compares the answers with the code:
//
//	go test ./internal/house -run Sample -v -sample 60 -seed 7
func TestSample(t *testing.T) {
	if *sampleSize == 0 {
		t.Skip("-sample N prints N names and sentences")
	}
	var all []string
	for _, f := range goFiles(t) {
		if exemptFromWords(f.path) || strings.HasPrefix(f.path, "internal/house/") {
			continue
		}
		all = append(all, sampleFile(f)...)
	}
	random := rand.New(rand.NewPCG(*sampleSeed, 0))
	fmt.Fprintf(os.Stdout, "seed %d, %d of %d:\n", *sampleSeed, *sampleSize, len(all))
	for i := range *sampleSize {
		fmt.Fprintf(os.Stdout, "%2d  %s\n", i+1, all[random.IntN(len(all))])
	}
}

// sampleFile returns a file's name, its declarations with their first sentences, and its error messages.
func sampleFile(f file) (lines []string) {
	dir := filepath.Dir(f.path)
	lines = append(lines, "file "+f.path)
	for _, d := range declarations(f) {
		line := fmt.Sprintf("%s %s %s", dir, d.kind, d.name)
		if d.sentence != "" {
			line += ": " + d.sentence
		}
		lines = append(lines, line)
	}
	if strings.HasSuffix(f.path, "_test.go") {
		return lines
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && (calls(call, "model.Errorf") || calls(call, "fmt.Errorf")) {
			for _, arg := range call.Args {
				if literal, ok := arg.(*ast.BasicLit); ok {
					if text, err := strconv.Unquote(literal.Value); err == nil {
						if hasWord.MatchString(text) {
							lines = append(lines, dir+" message: "+text)
						}
						break
					}
				}
			}
		}
		return true
	})
	return lines
}

// declaration is a type or function of a file, with the first sentence of its comment.
type declaration struct{ kind, name, sentence string }

// declarations returns the types and functions of a file.
func declarations(f file) (all []declaration) {
	add := func(kind, name string, doc *ast.CommentGroup) {
		sentence, _, _ := strings.Cut(strings.Join(strings.Fields(doc.Text()), " "), ". ")
		all = append(all, declaration{kind, name, sentence})
	}
	for _, d := range f.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = receiver(d.Recv.List[0].Type) + "." + name
			}
			add("func", name, d.Doc)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok {
					doc := s.Doc
					if doc == nil {
						doc = onlyOne(d)
					}
					add("type", s.Name.Name, doc)
				}
			}
		}
	}
	return all
}
