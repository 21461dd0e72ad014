package prep

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestIndexedFilterEqualsScan evaluates random JSONPath filters with and without indexes, and expects equal results.
// One shared document has indexes, a new document for each filter has none.
func TestIndexedFilterEqualsScan(t *testing.T) {
	values := []string{`"a"`, `"b"`, `1`, `1.0`, `"1"`, `"1e0"`, `0`, `-0`, `"-0"`, `" 1"`, `null`, `""`, `true`, `"true"`, `{"x":1}`, `[1]`, `"a\u0062"`, `"ab"`}
	constants := []string{`'a'`, `"b"`, `1`, `'1'`, `'1.0'`, `0`, `'-0'`, `''`, `'true'`, `'ab'`, `'{"x":1}'`, `'[1]'`}
	filters := []string{"@.k==%s", "%s==@.k", "@['k'] == %s", "@.k==%s && @.m!='a'", "@.k==%s && @.m==1", "(@.k==%s)", "@.k==%s || @.m==1",
		"@.k==%s && @.m/@.m", "!@.k==%s", "@.o.k==%s", "@.k==%s==1", "@.m && @.k==%s", "$.list[0].k==%s"}
	tails := []string{"", ".m", ".m.first()", "~", ".length()", "[*]"}
	random := rand.New(rand.NewPCG(7, 0))
	pick := func(list []string) string { return list[random.IntN(len(list))] }
	for range 60 {
		var elements []string
		for range random.IntN(30) {
			var members []string
			for _, name := range []string{"k", "m", "k"} {
				if random.IntN(4) > 0 {
					members = append(members, fmt.Sprintf("%q:%s", name, pick(values)))
				}
			}
			members = append(members, fmt.Sprintf(`"o":{"k":%s}`, pick(values)))
			elements = append(elements, "{"+strings.Join(members, ",")+"}")
		}
		document := `{"list":[` + strings.Join(elements, ",") + `]}`
		var shared jsonTree
		if err := shared.parseJSON(document); err != nil {
			t.Fatal(err)
		}
		for range 60 {
			source := "$.list[?(" + fmt.Sprintf(pick(filters), pick(constants)) + ")]" + pick(tails)
			p, err := parseJSONPath(source)
			if err != nil {
				t.Fatal(err)
			}
			var own jsonTree
			if err := own.parseJSON(document); err != nil {
				t.Fatal(err)
			}
			want, wantErr := p.query(&own, 0)
			got, gotErr := p.query(&shared, 0)
			if got != want || fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
				t.Fatalf("%s of %s: with an index %q (%v), without %q (%v)", source, document, got, gotErr, want, wantErr)
			}
		}
		if !slices.ContainsFunc(shared.indexes, func(x equalityIndex) bool { return x.children != nil }) {
			t.Fatal("no path made an index")
		}
	}
}

// TestFilterStepsAreBounded filters a large document by slow JSONPaths, and expects an error after a maximum
// number of evaluations. The paths share the document and have no index.
func TestFilterStepsAreBounded(t *testing.T) {
	var shared jsonTree
	if err := shared.parseJSON("[" + strings.Repeat(`{"k":1},`, 1<<16) + `{"k":2}]`); err != nil {
		t.Fatal(err)
	}
	slow, err := parseJSONPath("$[?(@.k>1)].k.first()")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		got, err := slow.query(&shared, 0)
		if err != nil {
			if i < maxFilterSteps>>16-2 || !strings.Contains(err.Error(), "evaluate more than") {
				t.Fatalf("query %d: %v", i, err)
			}
			return
		}
		if got != "2" {
			t.Fatalf("got %s", got)
		}
	}
	t.Fatal("no query failed")
}

// BenchmarkDependents measures 1,000 items that each extract one list element from the same master value. The list has
// 1,000 elements.
func BenchmarkDependents(b *testing.B) {
	var elements []string
	var paths []*jsonPath
	for i := range 1000 {
		elements = append(elements, fmt.Sprintf(`{"name":"eth%d","bytes":%d}`, i, i*1000))
		p, err := parseJSONPath(fmt.Sprintf("$[?(@.name=='eth%d')].bytes.first()", i))
		if err != nil {
			b.Fatal(err)
		}
		paths = append(paths, p)
	}
	document := "[" + strings.Join(elements, ",") + "]"
	var tree jsonTree
	b.ReportAllocs()
	for b.Loop() {
		if err := tree.parseJSON(document); err != nil {
			b.Fatal(err)
		}
		for i, p := range paths {
			if got, err := p.query(&tree, 0); err != nil || got != fmt.Sprint(i*1000) {
				b.Fatal(got, err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/dependent")
}

// TestCalculatedPattern filters with a pattern computed by invalid arithmetic, and expects an error at
// evaluation.
func TestCalculatedPattern(t *testing.T) {
	p, err := parseJSONPath("$[?(@.a =~ 'x' + @.b)]")
	if err != nil {
		t.Fatal(err)
	}
	var tree jsonTree
	if err := tree.parseJSON(`[{"a":"x","b":"y"}]`); err != nil {
		t.Fatal(err)
	}
	if got, err := p.query(&tree, 0); err == nil || !strings.Contains(err.Error(), "not a number") {
		t.Errorf("%q %v", got, err)
	}
}
