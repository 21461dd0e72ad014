package house

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// Names and comments use the words of docs/glossary.md. TestWords holds three rules per package:
//
//   - names: no file, type, function, method, exported field or JSON key is named by a stop word alone, and no exported name
//     says team, room or space for a namespace;
//   - phrases: at most 0.5 % of comment lines use "what", "who" or "that of" in place of a noun
//     (pebble, client_golang and net/http: 0.2 %);
//   - exported: the comment of an exported name begins with the name and a verb.
//
// words.txt lists each package that breaks a rule and how often. A number above the list fails, and
// so does one below it: `go test ./internal/house -run Words -words` writes the list anew. It
// refuses a larger sum, so code may move between packages but the total only falls. Merge conflicts
// in words.txt are solved by the same command. `-run Words -v` prints all offenders and the share
// of comments per package.
var updateWords = flag.Bool("words", false, "write words.txt anew; the sum may not grow")

const wordsFile = "words.txt"

// wordsExempt are the folders that TestWords does not read, with the reason.
var wordsExempt = map[string]string{
	"internal/load": "the load tester is rewritten by a change of its own",
	"bench":         "the scenarios are rewritten with the load tester",
}

// stopWords say nothing about the thing that they name. They are fine as part of a name.
var stopWords = wordSet(`
	about again ahead alone also among another apart around away back behind below beside besides
	between beyond both each either elsewhere everybody everything except far few forth here inside
	instead into later many me meanwhile never nobody not nothing once oneself only other others outside
	over own past same several some soon sooner such that then there this through together too
	twice under what whence which whither who whole why within without
	answered arrived asked attended barred became began begun borne brought called came caught done
	fell found given gone got heard held hidden kept known lasted left looked lost made meant met
	named ran rang retold said seen shown spoken taken told took tried turned unasked unheard
	untold unwilling used wanted welcomed went were worn
	asking beginning changing ending going hanging holding joining lacking lagging landing lasting
	leaving looking making meeting narrowing needing settling standing taking telling trusting waiting
	asks attend begin begins bring bury days disown ears forgive gives goes greet hasten hears
	hurry insist keeps knock knows learn learns lie lies meet meets outranks pay right say says speak
	speaks stands stays take takes tell tells tend vouch wants`)

var (
	phrase   = regexp.MustCompile(`(?i)\b(what|who|(that|those) of)\b`)
	wordOf   = regexp.MustCompile(`[A-Z]+[a-z0-9]*|[a-z0-9]+`)
	synonym  = wordSet("team teams room rooms space spaces")
	thirdOne = regexp.MustCompile(`^(An? |The )?(\w+) (is|are|has|have|may|must|can|cannot|will|do|[a-z-]+s)\b`)
)

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(text) {
		set[word] = true
	}
	return set
}

// fieldWords are stop words that say enough as a field: counts and selections of the struct that has it.
var fieldWords = wordSet("begin done except lost only used waiting")

// wordCount counts the faults of one package. Each line of words.txt has one wordCount.
type wordCount struct{ names, phrases, exported int }

func (c wordCount) sum() int { return c.names + c.phrases + c.exported }

// packageWords are the lines of a package's files without tests, and all its offenders.
type packageWords struct {
	lines, comments          int
	names, phrases, exported []string
}

// count returns the offences, without the share of phrases that every package may have.
func (p *packageWords) count() wordCount {
	phrases := len(p.phrases)
	if phrases <= (p.comments+199)/200 {
		phrases = 0
	}
	return wordCount{len(p.names), phrases, len(p.exported)}
}

func TestWords(t *testing.T) {
	packages := map[string]*packageWords{}
	for _, f := range goFiles(t) {
		if exemptFromWords(f.path) {
			continue
		}
		dir := filepath.Dir(f.path)
		if packages[dir] == nil {
			packages[dir] = &packageWords{}
		}
		packages[dir].addFile(f)
	}
	counts, sum := map[string]wordCount{}, 0
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		p := packages[dir]
		if p.count() != (wordCount{}) {
			counts[dir] = p.count()
		}
		sum += p.count().sum()
		t.Logf("%-32s comments %4.1f %%, phrases %4.1f %%", dir, percent(p.comments, p.lines), percent(len(p.phrases), p.comments))
	}
	listed, listedSum := readWords(t)
	if *updateWords {
		if sum > listedSum && len(listed) > 0 {
			t.Fatalf("%s: the sum of offences is %d, the list has %d: see -run Words -v", wordsFile, sum, listedSum)
		}
		for dir := range listed {
			if c := counts[dir]; packages[dir] != nil {
				counts[dir] = c // a clean package keeps its line
			}
		}
		writeWords(t, counts)
		return
	}
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		p, have, want := packages[dir], packages[dir].count(), listed[dir]
		for _, rule := range []struct {
			name       string
			have, want int
			offenders  []string
		}{
			{"names that are stop words", have.names, want.names, p.names},
			{"comment lines with what, who, that of", have.phrases, want.phrases, p.phrases},
			{"exported comments that do not begin with the name and a verb", have.exported, want.exported, p.exported},
		} {
			switch {
			case rule.have > rule.want:
				t.Errorf("%s: %d %s, at most %d:\n\t%s", dir, rule.have, rule.name, rule.want, strings.Join(rule.offenders, "\n\t"))
			case rule.have < rule.want:
				t.Errorf("%s: %d %s, %s has %d: go test ./internal/house -run Words -words", dir, rule.have, rule.name, wordsFile, rule.want)
			case testing.Verbose() && rule.have > 0:
				t.Logf("%s: %d %s:\n\t%s", dir, rule.have, rule.name, strings.Join(rule.offenders, "\n\t"))
			}
		}
	}
	for dir := range listed {
		if packages[dir] == nil {
			t.Errorf("%s lists %s, which has no Go files: go test ./internal/house -run Words -words", wordsFile, dir)
		}
	}
}

// TestWordsFindsOffenders gives TestWords a file with one fault against each rule, and expects each fault. Beside each
// is a line without the fault.
func TestWordsFindsOffenders(t *testing.T) {
	const source = `package x

// Said returns what was said.
func Said() {}

// This is about Report.
type Report struct { // that of the agent
	Whence string
	Origin string "json:\"heard,omitempty\""
}

// Reports returns all reports.
func (Report) Reports() {}

func TeamOf() {}

func freeSpaceOf() {}
`
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, "gone.go", source, parser.ParseComments)
	testenv.NoError(t, err)
	var p packageWords
	p.addFile(file{"gone.go", set.File(parsed.FileStart).LineCount(), parsed})
	if got, want := p.count(), (wordCount{names: 5, phrases: 2, exported: 1}); got != want || p.lines != 17 || p.comments != 4 {
		t.Errorf("%+v with %d lines, %d of them comments; expected %+v, 17 and 4:\n%+v", got, p.lines, p.comments, want, p)
	}
}

func exemptFromWords(path string) bool {
	for dir := range wordsExempt {
		if strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}

func percent(part, whole int) float64 { return 100 * float64(part) / float64(max(whole, 1)) }

// addFile counts one file. Tests count for names only.
func (p *packageWords) addFile(f file) {
	test := strings.HasSuffix(f.path, "_test.go")
	name, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(f.path), ".go"), "_")
	if base := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(f.path), ".go"), "_test"); base == name {
		p.addName(f.path, name, false)
	}
	for _, d := range f.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			p.addName(f.path, d.Name.Name, !test)
			if d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type)) {
				p.addExported(f.path, d.Name.Name, d.Doc, test)
			}
		case *ast.GenDecl:
			p.addSpecs(f.path, d, test)
		}
	}
	if test {
		return
	}
	p.lines += f.lines
	for _, group := range f.ast.Comments {
		for _, comment := range group.List {
			for line := range strings.Lines(comment.Text) {
				p.comments++
				if phrase.MatchString(line) {
					p.phrases = append(p.phrases, f.path+": "+strings.TrimSpace(line))
				}
			}
		}
	}
}

func (p *packageWords) addSpecs(path string, d *ast.GenDecl, test bool) {
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			p.addName(path, s.Name.Name, !test)
			p.addExported(path, s.Name.Name, cmp.Or(s.Doc, onlyOne(d)), test)
			if fields, ok := s.Type.(*ast.StructType); ok && !test {
				p.addFields(path, s.Name.Name, fields)
			}
		case *ast.ValueSpec:
			p.addExported(path, s.Names[0].Name, cmp.Or(s.Doc, onlyOne(d)), test)
		}
	}
}

// addFields counts exported fields and JSON keys of a struct that are stop words.
func (p *packageWords) addFields(path, structName string, fields *ast.StructType) {
	for _, f := range fields.Fields.List {
		for _, name := range f.Names {
			key := ""
			if f.Tag != nil {
				tag, _ := strconv.Unquote(f.Tag.Value)
				key, _, _ = strings.Cut(reflect.StructTag(tag).Get("json"), ",")
			}
			if name.IsExported() && stopWords[strings.ToLower(name.Name)] && !fieldWords[strings.ToLower(name.Name)] || stopWords[key] && !fieldWords[key] {
				p.names = append(p.names, path+": "+structName+"."+name.Name+" "+key)
			}
		}
	}
}

// onlyOne returns the comment of a declaration without parentheses. The comment belongs to its only name.
func onlyOne(d *ast.GenDecl) *ast.CommentGroup {
	if d.Lparen != token.NoPos {
		return nil
	}
	return d.Doc
}

func (p *packageWords) addName(path, name string, synonyms bool) {
	if stopWords[strings.ToLower(name)] {
		p.names = append(p.names, path+": "+name)
		return
	}
	if !synonyms || !ast.IsExported(name) {
		return
	}
	for _, word := range wordOf.FindAllString(name, -1) {
		if synonym[strings.ToLower(word)] {
			p.names = append(p.names, path+": "+name)
			return
		}
	}
}

func (p *packageWords) addExported(path, name string, doc *ast.CommentGroup, test bool) {
	if test || doc == nil || !ast.IsExported(name) {
		return
	}
	text := strings.TrimSpace(doc.Text())
	if parts := thirdOne.FindStringSubmatch(strings.Join(strings.Fields(text), " ")); text != "" && (parts == nil || parts[2] != name) {
		first, _, _ := strings.Cut(text, "\n")
		p.exported = append(p.exported, fmt.Sprintf("%s: %s: %s", path, name, first))
	}
}

func readWords(t *testing.T) (map[string]wordCount, int) {
	t.Helper()
	text, err := os.ReadFile(wordsFile)
	testenv.NoError(t, err)
	counts, sum := map[string]wordCount{}, 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") || line == "\n" {
			continue
		}
		var dir string
		var c wordCount
		if _, err := fmt.Sscanf(line, "%s names=%d phrases=%d exported=%d", &dir, &c.names, &c.phrases, &c.exported); err != nil {
			if *updateWords {
				continue // the mark of a merge conflict
			}
			t.Fatalf("%s: line %q: %v", wordsFile, line, err)
		}
		counts[dir], sum = c, sum+c.sum()
	}
	return counts, sum
}

func writeWords(t *testing.T, counts map[string]wordCount) {
	t.Helper()
	text := "# Packages that break a rule of words_test.go, and how often. It only shrinks: go test ./internal/house -run Words -words\n" +
		"# Empty lines and lines of clean packages stay: so changes of two packages merge.\n"
	for _, dir := range slices.Sorted(maps.Keys(counts)) {
		c := counts[dir]
		text += fmt.Sprintf("\n%s names=%d phrases=%d exported=%d\n", dir, c.names, c.phrases, c.exported)
	}
	testenv.NoError(t, os.WriteFile(wordsFile, []byte(text), 0o644))
}

// TestDocCommentsNameTheirDeclaration fails for a comment that names another declaration or has a line twice. Both
// remain when a rename or a merge goes wrong. The load tester keeps its old names.
func TestDocCommentsNameTheirDeclaration(t *testing.T) {
	verb, testName := regexp.MustCompile(`^[a-z]+s$`), regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z]`)
	for _, f := range goFiles(t) {
		if strings.HasPrefix(f.path, "internal/load/") || strings.HasPrefix(f.path, "bench/") || strings.HasSuffix(f.path, "gen.go") {
			continue
		}
		checkName := func(name string, doc *ast.CommentGroup) {
			words := strings.Fields(doc.Text())
			if len(words) < 2 || strings.TrimRight(words[0], ":,") == name {
				return
			}
			if testName.MatchString(words[0]) || token.IsIdentifier(words[0]) && !token.IsExported(words[0]) && verb.MatchString(words[1]) {
				t.Errorf("%s: the comment of %s begins with %s", f.path, name, words[0])
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				checkName(n.Name.Name, n.Doc)
			case *ast.GenDecl:
				if spec, ok := n.Specs[0].(*ast.TypeSpec); ok && len(n.Specs) == 1 {
					checkName(spec.Name.Name, n.Doc)
				}
			}
			return true
		})
		for _, group := range f.ast.Comments {
			for i, line := range group.List[1:] {
				if begin := group.List[i].Text; len(begin) > 40 && strings.HasPrefix(line.Text, begin[:40]) {
					t.Errorf("%s: a comment has two versions of the line %q", f.path, line.Text)
				}
			}
		}
	}
}
