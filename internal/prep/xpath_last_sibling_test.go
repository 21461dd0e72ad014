package prep

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/antchfx/xmlquery"
	"github.com/antchfx/xpath"

	"github.com/muster-fleet/muster/internal/item"
)

// TestLastOfLongListsIsFound selects the last element of a long list, and expects the element.
func TestLastOfLongListsIsFound(t *testing.T) {
	document := "<table>" + strings.Repeat("<row>1</row>", 50_000) + "<row>2</row><foot/></table>"
	for _, path := range []string{"//row[last()]", "/table/row[ last() ]", "//table/row[last()]/text()"} {
		want := strings.Repeat("<row>", 1-strings.Count(path, "text()")) + "2" + strings.Repeat("</row>", 1-strings.Count(path, "text()"))
		if got := outcome(compileChain(t, item.Text, sampleStep("xmlPath", path)).Run(nil, textSample(0, document))); !strings.Contains(got, want) || strings.Contains(got, "error") {
			t.Errorf("%s: %.200s", path, got)
		}
	}
}

// TestReplacedLastSelectsTheSame evaluates expressions with last() on random documents, and expects that the replaced
// expressions select the same elements.
func TestReplacedLastSelectsTheSame(t *testing.T) {
	for expr, replaced := range map[string]bool{
		"//a[last()]": true, "/r/a[last()]": true, "/r/*[last()]": true, "//a[last()]/b[last()]": true, "a[last()]": true, "//a[last()]/@n": true,
		"count(//b[last()])": true, "//a[@n='x[last()]']/b[last()]": true, "//a[b[last()]]": false, "//a[@n='/a[last()]']": false, "(//a)[last()]": false,
		"//a[last()][1]": false, "//a[last()-1]": false, "//text()[last()]": false, "//a/following-sibling::b[last()]": false, "//a/..": false,
	} {
		source := replaceLast(expr)
		if (source != expr) != replaced {
			t.Errorf("%s becomes %s", expr, source)
		}
		original, rewritten := xpath.MustCompile(expr), xpath.MustCompile(source)
		for seed := range uint64(200) {
			r := rand.New(rand.NewPCG(seed, 1))
			var b strings.Builder
			writeRandomXML(&b, r, "r", 0)
			root, err := xmlquery.Parse(strings.NewReader(b.String()))
			if err != nil {
				t.Fatal(err)
			}
			if a, b := selectXML(original, root), selectXML(rewritten, root); a != b {
				t.Fatalf("%s selects %s, %s selects %s", expr, a, source, b)
			}
		}
	}
}

// selectXML returns the result of an XPath expression as text, with the nodes in a fixed order.
func selectXML(expr *xpath.Expr, root *xmlquery.Node) string {
	result := expr.Evaluate(xmlquery.CreateXPathNavigator(root))
	nodes, ok := result.(*xpath.NodeIterator)
	if !ok {
		return fmt.Sprint(result)
	}
	var list []string
	for nodes.MoveNext() {
		list = append(list, nodes.Current().LocalName()+" "+nodes.Current().Value())
	}
	slices.Sort(list) // package xpath returns those of the original expression out of the document's order
	return strings.Join(list, "\n")
}

// writeRandomXML writes a random element with children named a and b, each with a number of its own.
func writeRandomXML(b *strings.Builder, r *rand.Rand, name string, depth int) {
	fmt.Fprintf(b, `<%s n="%d">%d`, name, r.IntN(1000), r.IntN(1000))
	for range r.IntN(5 - depth) {
		writeRandomXML(b, r, string(rune('a'+r.IntN(2))), depth+1)
	}
	fmt.Fprintf(b, "</%s>", name)
}
