package policy

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// block is either one component or a block of components in a random test technique. A component has a status,
// a block has children.
type block struct {
	status    Status
	reporting model.Reporting
	focus     int
	children  []block
}

// randomBlock returns a random block with nested blocks, at most depth levels deep.
func randomBlock(random *rand.Rand, depth int) block {
	b := block{reporting: model.Reporting(random.IntN(6))}
	for range 1 + random.IntN(4) {
		if depth > 0 && random.IntN(3) == 0 {
			b.children = append(b.children, randomBlock(random, depth-1))
		} else {
			b.children = append(b.children, block{status: Status(random.IntN(Statuses))})
		}
	}
	b.focus = random.IntN(len(b.children))
	return b
}

// add appends the block's components and inner blocks to flat lists, as in a compiled directive. The order is
// that of a compiled directive.
func (b *block) add(codes *[]Status, blocks *[]model.Block) {
	if b.children == nil {
		*codes = append(*codes, b.status)
		return
	}
	at, first := len(*blocks), len(*codes)
	*blocks = append(*blocks, model.Block{})
	of := model.Block{First: uint32(first), Reporting: b.reporting}
	for i := range b.children {
		before := len(*codes)
		b.children[i].add(codes, blocks)
		if i == b.focus {
			of.FocusFirst, of.FocusCount = uint32(before), uint32(len(*codes)-before)
		}
	}
	of.Count = uint32(len(*codes) - first)
	(*blocks)[at] = of
}

// components returns the statuses of all components within the block, except components of disabled blocks.
func (b *block) components() (out []Status) {
	if b.children == nil {
		return []Status{b.status}
	}
	if b.reporting == model.ReportDisabled {
		return nil
	}
	for i := range b.children {
		out = append(out, b.children[i].components()...)
	}
	return out
}

// list returns the statuses that the block contributes to compliance, each repeated according to its weight.
// This is the plainest form of Rudder's arithmetic.
func (b *block) list() (out []Status) {
	if b.children == nil {
		return []Status{b.status}
	}
	var lists [][]Status
	for i := range b.children {
		lists = append(lists, b.children[i].list())
	}
	all := slices.Concat(lists...)
	if isWorst(b.reporting) {
		all = b.components()
	}
	counted := slices.DeleteFunc(slices.Clone(all), func(s Status) bool { return s == Waived })
	waived := all[:0:0]
	for range len(all) - len(counted) {
		waived = append(waived, Waived)
	}
	worst := func() Status {
		return slices.MaxFunc(counted, func(a, b Status) int { return int(badness[a]) - int(badness[b]) })
	}
	switch b.reporting {
	case model.ReportWorstSum:
		for range counted {
			out = append(out, worst())
		}
		return append(out, waived...)
	case model.ReportWorstOne:
		if len(counted) > 0 {
			out = append(out, worst())
		}
		return append(out, waived...)
	case model.ReportFocus:
		return lists[b.focus]
	case model.ReportFocusWorst:
		least := 2.0
		for _, l := range lists {
			fulfilled, n := 0, 0
			for _, s := range l {
				if s == Waived {
					continue
				}
				if n++; s.Fulfilled() {
					fulfilled++
				}
			}
			if n > 0 && float64(fulfilled)/float64(n) < least {
				least, out = float64(fulfilled)/float64(n), l
			}
		}
		return out
	case model.ReportDisabled:
		return nil
	}
	return all
}

// TestBlockCountsEqualSimpleModel counts the statuses in random blocks, and expects the same numbers as a
// simple model. The plain sums come from lists of statuses.
func TestBlockCountsEqualSimpleModel(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 5000 {
		root := randomBlock(random, 4)
		root.reporting = model.ReportWeighted
		var codes []Status
		var blocks []model.Block
		root.add(&codes, &blocks)
		var want Counts
		worst := NotApplicable
		for _, s := range root.list() {
			want[s]++
			worst = Worst(worst, s)
		}
		status := func(i int) Status { return codes[i] }
		got, is := CountStatuses(status, len(codes), blocks)
		if got != want || is != worst {
			t.Fatalf("%v in %+v: %v, worst %s; want %v, %s", codes, blocks, got, is, want, worst)
		}
		if sums := CountBlocks(status, blocks); sums[0] != want {
			t.Fatalf("%v in %+v: block %v, want %v", codes, blocks, sums[0], want)
		}
		for i := range codes {
			if NeverCounts(i, blocks) {
				was := codes[i]
				for s := range Statuses {
					codes[i] = Status(s)
					if other, _ := CountStatuses(status, len(codes), blocks); other != got {
						t.Fatalf("component %d of %+v never counts, but with %s the sum is %v, not %v", i, blocks, Status(s), other, got)
					}
				}
				codes[i] = was
			}
		}
	}
}

// TestWorstLooksIntoInnerBlocks computes the compliance of a block that counts by its worst component. It expects the
// worst of all components within, also of those that an inner block leaves out of its own count, as in Rudder.
func TestWorstLooksIntoInnerBlocks(t *testing.T) {
	statuses := []Status{Compliant, NonCompliant, Compliant}
	for _, c := range []struct {
		outer, inner model.Reporting
		want         string
	}{
		{model.ReportWorstOne, model.ReportFocus, "0.00"},
		{model.ReportWorstSum, model.ReportWorstOne, "0.00"},
		{model.ReportWorstOne, model.ReportDisabled, "100.00"},
		{model.ReportWeighted, model.ReportFocus, "100.00"},
	} {
		blocks := []model.Block{{Count: 3, Reporting: c.outer}, {Count: 2, Reporting: c.inner, FocusCount: 1}}
		counts, _ := CountStatuses(func(i int) Status { return statuses[i] }, len(statuses), blocks)
		if got := counts.Compliance(2); got != c.want {
			t.Errorf("%s around %s: %s %%, want %s", c.outer, c.inner, got, c.want)
		}
		if c.outer == model.ReportWorstSum && counts[NonCompliant] != 3 {
			t.Errorf("%s around %s counts %v, want all three components", c.outer, c.inner, counts)
		}
	}
}

// TestReportingModes computes the compliance of a block in each reporting mode, and expects Rudder's values. The
// components are compliant, non-compliant and in error.
func TestReportingModes(t *testing.T) {
	statuses := []Status{Compliant, NonCompliant, Error, Compliant}
	for reporting, want := range map[model.Reporting]string{
		model.ReportWeighted: "50.00", model.ReportWorstSum: "25.00", model.ReportWorstOne: "50.00", model.ReportFocus: "100.00",
		model.ReportFocusWorst: "50.00", model.ReportDisabled: "100.00",
	} {
		blocks := []model.Block{{Count: 3, Reporting: reporting, FocusCount: 1}}
		counts, _ := CountStatuses(func(i int) Status { return statuses[i] }, len(statuses), blocks)
		if got := counts.Compliance(2); got != want {
			t.Errorf("%s: %s %%, want %s", reporting, got, want)
		}
	}
}

// TestLoopsInLoops compiles three nested loops, and expects one component for each combination of elements. It
// expects the elements of all three loops in the components, an error if an element hides the loop around it,
// and an error if a loop has too many components, blocks or fields.
func TestLoopsInLoops(t *testing.T) {
	cell := model.Method{Component: "cell", ForEach: "words", FilePresent: &model.PathMethod{Path: "/{{ .item }}/{{ .item.outer.key }}/{{ .item.outer.outer }}"}}
	technique := &model.TechniqueSpec{
		Parameters: []model.Parameter{{Name: "users", Type: "map"}, {Name: "words", Type: "list"}},
		Methods: []model.Method{
			{Component: "grid", ForEach: "words", Block: []model.Method{{Component: "user", ForEach: "users", Block: []model.Method{cell}}}},
			{Component: "last", When: `changed("grid")`, FilePresent: &model.PathMethod{Path: "/last"}},
		},
	}
	compile := func(users, words string) (*Compiled, error) {
		values := map[string]model.ParameterValue{}
		for name, data := range map[string]string{"users": users, "words": words} {
			var v model.ParameterValue
			if err := v.UnmarshalJSON([]byte(data)); err != nil {
				t.Fatal(err)
			}
			values[name] = v
		}
		return Compile(technique, values)
	}
	_, err := compile(`{"ada": 1, "eve": 2}`, `["v", "{{ .props.word }}w"]`)
	if err == nil || !strings.Contains(err.Error(), "an element has no name") {
		t.Errorf("an element with a property: %v", err)
	}
	c, err := compile(`{"ada": 1, "eve": 2}`, `["v", "w"]`)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for i := range c.Components {
		m, err := c.Components[i].Expand(func(string) ([]byte, string, bool) { return nil, "", false })
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, c.Components[i].Name+" "+m.FilePresent.Path)
	}
	want := []string{
		"grid[v]/user[ada]/cell[v] /v/ada/v", "grid[v]/user[ada]/cell[w] /w/ada/v", "grid[v]/user[eve]/cell[v] /v/eve/v", "grid[v]/user[eve]/cell[w] /w/eve/v",
		"grid[w]/user[ada]/cell[v] /v/ada/w", "grid[w]/user[ada]/cell[w] /w/ada/w", "grid[w]/user[eve]/cell[v] /v/eve/w", "grid[w]/user[eve]/cell[w] /w/eve/w", "last /last",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("components\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	technique.Methods[0].Block[0].Block[0].FilePresent = &model.PathMethod{Path: "/{{ .item.outer.name }}"}
	if _, err = compile(`{"ada": 1}`, `["v"]`); err == nil || !strings.Contains(err.Error(), `the element has no field "outer.name"`) {
		t.Errorf("an unknown field of the outer loop: %v", err)
	}
	if _, err = compile(`{"ada": 1}`, `[{"name": "v", "outer": "x"}]`); err == nil || !strings.Contains(err.Error(), "has the name of the outer loop's element") {
		t.Errorf("a field with the name of the outer loop: %v", err)
	}
	technique.Methods[0].Block[0].Block[0].FilePresent = &model.PathMethod{Path: "/a"}
	words := make([]string, 101)
	for i := range words {
		words[i] = fmt.Sprintf("%q", fmt.Sprint("w", i))
	}
	list := "[" + strings.Join(words, ",") + "]"
	if c, err = compile(`{"ada": 1}`, list); err == nil || !strings.Contains(err.Error(), "more than 256KiB") || len(c.Components) > 10000 {
		t.Errorf("101 times 101 components: %v", err)
	}
	technique.Methods[0].Block[0].Block[0] = model.Method{Component: "row", ForEach: "words", Block: []model.Method{{Component: "cell", ForEach: "users", FilePresent: &model.PathMethod{Path: "/a"}}}}
	technique.Methods[0].Block[0].ForEach = ""
	if _, err = compile(`{}`, list); err == nil || !strings.Contains(err.Error(), "more than 10000 components, blocks and loops") {
		t.Errorf("101 times 101 blocks with a loop over an empty map: %v", err)
	}
	var wide []map[string]string // 12 elements of 1,000 fields, in loops without components
	for i := range 12 {
		element := map[string]string{"name": fmt.Sprint(i)}
		for f := range 1000 {
			element[fmt.Sprint("f", f)] = ""
		}
		wide = append(wide, element)
	}
	data, err := json.Marshal(wide)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = compile(`{}`, string(data)); err == nil || !strings.Contains(err.Error(), "more than 256KiB") {
		t.Errorf("144 elements of 2,000 fields in loops without components: %v", err)
	}
}

// TestLoopsAndBlocksBecomeComponents compiles blocks, loops and conditions, and expects the right components and
// results.
func TestLoopsAndBlocksBecomeComponents(t *testing.T) {
	file := func(path string) *model.PathMethod { return &model.PathMethod{Path: path} }
	technique := &model.TechniqueSpec{
		Parameters: []model.Parameter{{Name: "sites", Type: "list"}, {Name: "users", Type: "map"}, {Name: "root"}},
		Methods: []model.Method{
			{Component: "package", FilePresent: file("/pkg")},
			{Component: "site", ForEach: "sites", When: `ok("package")`, Reporting: "focus", Focus: "config", Block: []model.Method{
				{Component: "config", FilePresent: file("{{ .params.root }}/{{ .item.name }}")},
				{Component: "reload", When: `changed("config") || failed("package")`, FilePresent: file("/r{{ .item.port }}")},
			}},
			{Component: "home", ForEach: "users", Reporting: "disabled", FilePresent: file("/home/{{ .item.key }}/{{ .item.value }}")},
			{Component: "last", When: `changed("site")`, FilePresent: file("/last")},
		},
	}
	values := texts("root", "/srv")
	for name, data := range map[string]string{"sites": `[{"name":"a","port":"{{ .props.port }}"},{"name":"b","port":2}]`, "users": `{"eve":"x","ada":1}`} {
		var v model.ParameterValue
		if err := v.UnmarshalJSON([]byte(data)); err != nil {
			t.Fatal(err)
		}
		values[name] = v
	}
	c, err := Compile(technique, values)
	if err != nil {
		t.Fatal(err)
	}
	properties := func(name string) ([]byte, string, bool) { return []byte("8080"), "", name == "port" }
	d := &model.DirectiveDefinition{Components: c.Components, Parameters: c.Parameters}
	lookup, err := d.Lookup(properties, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for i := range c.Components {
		m, err := c.Components[i].Expand(lookup)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Components[i].Name, m.FilePresent.Path, c.Components[i].When)))
	}
	want := []string{
		"package /pkg",
		`site[a]/config /srv/a ok("package")`, `site[a]/reload /r8080 (ok("package")) && (changed("site[a]/config") || failed("package"))`,
		`site[b]/config /srv/b ok("package")`, `site[b]/reload /r2 (ok("package")) && (changed("site[b]/config") || failed("package"))`,
		"home[ada] /home/ada/1", "home[eve] /home/eve/x", `last /last changed("site")`,
	}
	if !slices.Equal(lines, want) {
		t.Errorf("components\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	if got := fmt.Sprint(c.Blocks); got != "[{site[a] 1 2 focus 1 1} {site[b] 3 2 focus 3 1} {home[ada] 5 1 disabled 0 0} {home[eve] 6 1 disabled 0 0}]" {
		t.Errorf("blocks %s", got)
	}
	if names, err := d.PropertyNames(); err != nil || !slices.Equal(names, []string{"port"}) {
		t.Errorf("properties %v, %v", names, err)
	}
	last, err := ParseCondition(c.Components[7].When)
	if err != nil {
		t.Fatal(err)
	}
	for status, holds := range map[Status]bool{Repaired: true, Success: false} {
		if got := last.IsTrue(&Scope{Statuses: map[string]Status{"site[a]/config": Success, "site[b]/reload": status, "sites": Repaired}}); got != holds {
			t.Errorf("a component of the block is %s: %v", status, got)
		}
	}
	for want, change := range map[string]func(*model.TechniqueSpec, map[string]model.ParameterValue){
		`no field "size"`: func(t *model.TechniqueSpec, _ map[string]model.ParameterValue) {
			t.Methods[1].Block[1].FilePresent = file("/{{ .item.size }}")
		},
		"two elements are named": func(_ *model.TechniqueSpec, v map[string]model.ParameterValue) { v["sites"] = elements("a", "a") },
		"is not a map":           func(_ *model.TechniqueSpec, v map[string]model.ParameterValue) { v["users"] = elements("a") },
		"an element has no name": func(_ *model.TechniqueSpec, v map[string]model.ParameterValue) {
			v["sites"] = elements("{{ .props.a }}")
		},
		"expected a text":                      func(_ *model.TechniqueSpec, v map[string]model.ParameterValue) { v["root"] = elements("a") },
		"has 2 elements, but allows at most 1": func(t *model.TechniqueSpec, _ map[string]model.ParameterValue) { t.Parameters[0].Max = new(1) },
		`two components are named "site"`:      func(t *model.TechniqueSpec, _ map[string]model.ParameterValue) { t.Methods[3].Component = "site" },
	} {
		broken, other := *technique, map[string]model.ParameterValue{}
		broken.Parameters, broken.Methods = slices.Clone(technique.Parameters), slices.Clone(technique.Methods)
		broken.Methods[1].Block = slices.Clone(technique.Methods[1].Block)
		for name, v := range values {
			other[name] = v
		}
		change(&broken, other)
		if _, err := Compile(&broken, other); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}

// elements returns a test parameter value that is a list of texts.
func elements(list ...string) (v model.ParameterValue) {
	for _, text := range list {
		v.Elements = append(v.Elements, model.LoopItem{"": model.Scalar(text)})
	}
	return v
}

// TestNumbersHaveBounds checks numbers at and beyond a parameter's bounds, and expects errors beyond the bounds.
func TestNumbersHaveBounds(t *testing.T) {
	p := &model.Parameter{Name: "port", Type: "integer", Min: new(1), Max: new(65535)}
	for text, want := range map[string]string{"1": "", "65535": "", "0": "0 is not 1 to 65535", "65536": "is not 1 to 65535", "x": "not a whole number"} {
		if err := CheckParameter(p, model.TextValue(text)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestModesAndSecretsAreCompiled compiles modes of components and blocks, and expects the innermost mode to count. It
// also compiles parameters that name Secrets.
func TestModesAndSecretsAreCompiled(t *testing.T) {
	path := &model.PathMethod{Path: "/a"}
	technique := &model.TechniqueSpec{
		Parameters: []model.Parameter{{Name: "password", Type: model.SecretParameter}, {Name: "word", Default: &model.ParameterValue{Text: "x"}}},
		Methods: []model.Method{
			{Component: "own", FilePresent: path},
			{Component: "audited", Mode: model.ModeAudit, Block: []model.Method{
				{Component: "a", FilePresent: path},
				{Component: "b", Mode: model.ModeEnforce, FilePresent: path},
				{Component: "inner", Block: []model.Method{{Component: "c", FilePresent: path}}},
			}},
			{Component: "after", FilePresent: path},
		},
	}
	c, err := Compile(technique, map[string]model.ParameterValue{"password": model.TextValue("db")})
	if err != nil {
		t.Fatal(err)
	}
	var modes []string
	for i := range c.Components {
		modes = append(modes, c.Components[i].Name+" "+c.Components[i].Mode)
	}
	if got := strings.Join(modes, ", "); got != "own , audited/a audit, audited/b enforce, audited/inner/c audit, after " {
		t.Error(got)
	}
	if fmt.Sprint(c.Secrets, c.Parameters) != "map[password:db] map[word:x]" {
		t.Errorf("secrets %v, parameters %v", c.Secrets, c.Parameters)
	}
	for _, value := range []string{"", "{{ .props.x }}", "other/db"} {
		if _, err := Compile(technique, map[string]model.ParameterValue{"password": model.TextValue(value)}); err == nil {
			t.Errorf("%q is the name of a Secret", value)
		}
	}
	d := &model.DirectiveDefinition{Definition: model.Definition{Unit: 7}, Mode: model.ModeAudit, Components: c.Components}
	for _, of := range []struct {
		mode model.NodeMode
		want string
	}{
		{model.NodeMode{Mode: model.ModeAudit}, "[false false true false false]"},
		{model.NodeMode{Mode: model.ModeAudit, Fixed: "the node"}, "[false false false false false]"},
		{model.NodeMode{Mode: model.ModeEnforce, Fixed: "namespace x"}, "[true true true true true]"},
		{model.NodeMode{Mode: model.ModeAudit, Audit: []model.UnitID{7}}, "[false false false false false]"},
	} {
		var enforces []bool
		for i := range d.Components {
			enforces = append(enforces, of.mode.EnforcesComponent(d, &d.Components[i]))
		}
		if got := fmt.Sprint(enforces); got != of.want {
			t.Errorf("%+v: %s, want %s", of.mode, got, of.want)
		}
	}
}
