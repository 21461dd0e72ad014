package policy

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// TestConditionsReadComponentsAndFacts evaluates conditions on component statuses and facts, and expects their
// results.
func TestConditionsReadComponentsAndFacts(t *testing.T) {
	scope := &Scope{
		Facts:    map[string]string{"os": "linux", "distributionVersion": "22.04"},
		Statuses: map[string]Status{"file": Repaired, "link": Success, "user": NonCompliant, "port": CouldNotCheck},
	}
	for text, want := range map[string]bool{
		`changed("file")`:                                    true,
		`changed("link")`:                                    false,
		`ok("file") && ok("link")`:                           true,
		`failed("user")&&failed("port")`:                     true,
		`!failed("file")`:                                    true,
		`ok("never ran") || failed("never ran")`:             false,
		`facts["os"] == "linux" && facts["arch"] != "arm64"`: true,
		`(changed("link") || changed("file")) && ok("link")`: true,
		`changed("link") || changed("file") && ok("user")`:   false,
		`facts["distributionVersion"].startsWith("22.")`:     true,
		`!facts["distributionVersion"].startsWith("2.")`:     true,
		`facts["none"].startsWith("22")`:                     false,
		`false || !true`:                                     false,
		`ok("link") && true`:                                 true,
	} {
		c, err := ParseCondition(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := c.IsTrue(scope); got != want {
			t.Errorf("%s = %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{``, `changed()`, `changed("a"`, `done("a")`, `ok("a") ok("b")`, `facts["a"]`, `facts["a"].startsWith`, `facts["a"].startsWith("b"`, `facts[a] == "b"`, strings.Repeat("(", 1000), `ok('a')`, `falsely`} {
		if _, err := ParseCondition(text); err == nil {
			t.Errorf("%q is no condition and was accepted", text)
		}
	}
}

// FuzzCondition parses random conditions, and expects every valid condition to be evaluated without a panic.
func FuzzCondition(f *testing.F) {
	for _, text := range []string{`changed("a") && !ok("b") || (failed("c"))`, `facts["os"] != "linux"`, `facts["os"].startsWith("l")`, `ok("`, `((((`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := ParseCondition(text); err == nil {
			c.IsTrue(&Scope{Statuses: map[string]Status{"a": Success}})
		}
	})
}

// TestPercentsFollowRudder computes percentages, and expects Rudder's rounding. Each but the largest is truncated, a
// non-zero one is never shown as zero, and the largest is the rest.
func TestPercentsFollowRudder(t *testing.T) {
	for _, c := range []struct {
		counts    Counts
		precision int
		want      map[Status]int
		total     string
	}{
		{Counts{}, 2, map[Status]int{}, ""},
		{Counts{Success: 1}, 2, map[Status]int{Success: 10000}, "100.00"},
		{Counts{Success: 2, Error: 1}, 2, map[Status]int{Success: 6667, Error: 3333}, "66.67"},
		{Counts{Success: 1, Error: 2}, 0, map[Status]int{Success: 33, Error: 67}, "33"},
		{Counts{Success: 1_000_000, Error: 1}, 2, map[Status]int{Success: 9999, Error: 1}, "99.99"},
		{Counts{Success: 1_000_000, Error: 1, NonCompliant: 1}, 0, map[Status]int{Success: 98, Error: 1, NonCompliant: 1}, "98"},
		{Counts{Success: 3, NotApplicable: 1, Pending: 4}, 2, map[Status]int{Success: 3750, NotApplicable: 1250, Pending: 5000}, "100.00"},
		{Counts{Repaired: 1, Compliant: 1, NonCompliant: 1, Missing: 1}, 1, map[Status]int{Repaired: 250, Compliant: 250, NonCompliant: 250, Missing: 250}, "50.0"},
		{Counts{Success: 1, Error: 1, Waived: 2}, 2, map[Status]int{Success: 2500, Error: 2500, Waived: 5000}, "50.00"},
		{Counts{Compliant: 3, Waived: 1}, 2, map[Status]int{Compliant: 7500, Waived: 2500}, "100.00"},
		{Counts{Pending: 5}, 2, map[Status]int{Pending: 10000}, ""},
	} {
		shares := c.counts.Percents(c.precision)
		for s, share := range shares {
			if share != c.want[Status(s)] {
				t.Errorf("%v: share of %s = %d, want %d", c.counts, Status(s), share, c.want[Status(s)])
			}
		}
		if got := c.counts.Compliance(c.precision); got != c.total {
			t.Errorf("%v: compliance %q, want %q", c.counts, got, c.total)
		}
	}
}

// TestCodesKeepTheOrderOfComponents packs the statuses of up to 8 components, and expects the same statuses in
// order after unpacking.
func TestCodesKeepTheOrderOfComponents(t *testing.T) {
	for n := range 9 {
		c := NewCodes(n)
		for i := range n {
			c.Set(i, Status(i%int(lastReported+1)))
		}
		for i := range n {
			if got := c.At(i); got != Status(i%int(lastReported+1)) {
				t.Errorf("%d components: component %d has status %s", n, i, got)
			}
		}
		if err := c.Check(n); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []struct {
		codes Codes
		n     int
	}{{Codes{1}, 3}, {Codes{0x12}, 1}, {Codes{9}, 1}, {Codes{}, 1}} {
		if c.codes.Check(c.n) == nil {
			t.Errorf("codes %x of %d components were accepted", c.codes, c.n)
		}
	}
	if counts, worst := (Codes{0x52, 0x03}).Counts(3); worst != NonCompliant || counts[Compliant] != 1 || counts[Success] != 1 {
		t.Errorf("counts %v, worst %s", counts, worst)
	}
}

// TestDecisionTable decides whether sample runs still count, and expects the result in each row of Rudder's
// decision table. Runs are 5 minutes apart, with 5 minutes of grace. The heartbeat of "changes only" is an
// hour.
func TestDecisionTable(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	ago := func(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }
	current := func(begin int) *Expectation { return &Expectation{Start: ago(begin), Interval: 5 * time.Minute} }
	ended := func(end int) *Expectation {
		return &Expectation{Start: ago(1000), End: ago(end), Interval: 5 * time.Minute}
	}
	beat := func(begin int) *Expectation {
		return &Expectation{Start: ago(begin), Interval: 5 * time.Minute, Heartbeat: time.Hour}
	}
	calendar := func(begin, lastDue int) *Expectation { return &Expectation{Start: ago(begin), LastDue: ago(lastDue)} }
	once := func(begin, from, due int) *Expectation {
		return &Expectation{Start: ago(begin), OneShot: true, From: ago(from), Due: ago(due)}
	}
	never := &Expectation{Start: ago(10), OneShot: true, From: ago(600)}
	run := func(minutes int, of *Expectation) *Run {
		return &Run{Start: ago(minutes), NamesDefinition: true, Of: of}
	}
	same := func(minutes int) *Run {
		return &Run{Start: ago(minutes), NamesDefinition: true, Of: current(60), InForce: true}
	}
	for _, c := range []struct {
		name     string
		current  *Expectation
		run      *Run
		first    int
		disabled bool
		want     Decision
	}{
		{"no run, nothing expected", nil, nil, 0, false, NothingExpected},
		{"no run, reports disabled", current(60), nil, 60, true, ReportsDisabled},
		{"no run, the definition is old", current(11), nil, 60, false, NoReportInTime},
		{"no run, the definition is new", current(9), nil, 60, false, AwaitReport},
		{"a run, nothing expected", nil, run(1, nil), 0, false, NoExpectedReport},
		{"a run without a name, definitions for long", current(60), &Run{Start: ago(1)}, 60, false, UnexpectedNone},
		{"a run without a name, the definition is new", current(5), &Run{Start: ago(1)}, 5, false, AwaitReport},
		{"a run without a name before the first definition", current(60), &Run{Start: ago(65)}, 60, false, AwaitReport},
		{"an unknown name, the run is old", current(60), run(11, nil), 60, false, NoReportInTime},
		{"an unknown name, the run is new", current(60), run(9, nil), 60, false, UnexpectedUnknown},
		{"open, the run is old", current(60), same(11), 60, false, NoReportInTime},
		{"open, another definition", current(5), run(9, current(60)), 60, false, AwaitReport},
		{"open, the present definition", current(60), same(9), 60, false, ComputeCompliance},
		{"ended long before the run", current(60), run(1, ended(20)), 60, false, UnexpectedVersion},
		{"ended shortly before the run, awaited", current(9), run(1, ended(9)), 60, false, AwaitReport},
		{"ended after the run, overdue", current(30), run(35, ended(30)), 60, false, NoReportInTime},
		{"changes only, a run within the heartbeat", beat(90), &Run{Start: ago(64), NamesDefinition: true, Of: beat(90), InForce: true}, 90, false, ComputeCompliance},
		{"changes only, no run within the heartbeat", beat(90), &Run{Start: ago(66), NamesDefinition: true, Of: beat(90), InForce: true}, 90, false, NoReportInTime},
		{"changes only, the first run is awaited", beat(9), nil, 60, false, AwaitReport},
		{"changes only, the first run is overdue", beat(11), nil, 60, false, NoReportInTime},
		{"a calendar, a run since its last time", calendar(2000, 600), &Run{Start: ago(500), NamesDefinition: true, Of: calendar(2000, 600), InForce: true}, 60, false, ComputeCompliance},
		{"a calendar, no run since its last time", calendar(2000, 600), &Run{Start: ago(700), NamesDefinition: true, Of: calendar(2000, 600), InForce: true}, 60, false, NoReportInTime},
		{"a calendar, declared since its last time", calendar(500, 600), nil, 60, false, AwaitReport},
		{"a one-shot, its time is to come", once(60, -60, -90), nil, 60, false, AwaitReport},
		{"a one-shot, its run is overdue", once(600, 500, 400), nil, 600, false, NoReportInTime},
		{"a one-shot, the node has it too late", never, nil, 10, false, AwaitReport},
		{"a one-shot, its run counts without end", once(9000, 8000, 7000), &Run{Start: ago(7900), NamesDefinition: true, Of: once(9000, 8000, 7000), InForce: true}, 9000, false, ComputeCompliance},
		{"a one-shot, a run on request before its time", once(600, 500, -60), &Run{Start: ago(550), NamesDefinition: true, Of: once(600, 500, -60), InForce: true}, 600, false, ComputeCompliance},
		{"a one-shot, a run on request before its time, which is over", once(600, 500, 400), &Run{Start: ago(550), NamesDefinition: true, Of: once(600, 500, 400), InForce: true}, 600, false, ComputeCompliance},
		{"a one-shot, a run of an unknown version, its time is over", once(600, 500, 400), run(550, nil), 600, false, NoReportInTime},
		{"a one-shot, the report of an old version repeated", once(60, 60, -60), &Run{Start: ago(1), NamesDefinition: true, Of: &Expectation{End: ago(60), OneShot: true}}, 60, false, AwaitReport},
	} {
		if got := Decide(now, c.current, c.run, ago(c.first), c.disabled); got != c.want {
			t.Errorf("%s: decision %d, want %d", c.name, got, c.want)
		}
	}
}

// TestCompileBindsParameters compiles a technique with parameters, and expects the parameters' values in its methods.
// Wrong values are errors.
func TestCompileBindsParameters(t *testing.T) {
	no := model.TextValue("no")
	technique := &model.TechniqueSpec{
		Parameters: []model.Parameter{
			{Name: "root", OneOf: []model.Scalar{"no", "yes"}, Default: &no}, {Name: "port", Type: "integer"}, {Name: "user"}, {Name: "shell", Pattern: "[a-z]+"},
		},
		Methods: []model.Method{
			{Component: "login", FileKeyValue: &model.FileKeyValueMethod{Path: "/etc/sshd", Key: "Root", Value: "{{ .params.root }}"}},
			{Component: "port", Command: &model.CommandMethod{Check: &model.Command{Shell: "test {{ .params.port }} = {{ .props.port }}"}}, When: `ok("login")`},
		},
	}
	compiled, err := Compile(technique, texts("port", "22", "user", "{{ .props.user }}", "shell", "sh"))
	if err != nil {
		t.Fatal(err)
	}
	components, parameters := compiled.Components, compiled.Parameters
	if want := map[string]string{"root": "no", "port": "22", "user": "{{ .props.user }}", "shell": "sh"}; !reflect.DeepEqual(parameters, want) {
		t.Errorf("parameters %v, want %v", parameters, want)
	}
	if len(components) != 2 || components[0].Name != "login" || components[1].Method != "command" || components[1].When == "" {
		t.Errorf("components %+v", components)
	}
	for value, values := range map[string]map[string]model.ParameterValue{
		"has no value":                     texts("user", "a"),
		"is not a whole number":            texts("port", "many", "user", "a"),
		"is not one of the allowed values": texts("port", "1", "user", "a", "root", "perhaps"),
		"does not match":                   texts("port", "1", "user", "a", "shell", "a1"),
		"has no parameter":                 texts("port", "1", "user", "a", "shell", "sh", "colour", "red"),
	} {
		if _, err := Compile(technique, values); err == nil || !strings.Contains(err.Error(), value) {
			t.Errorf("error %v, want one that says %q", err, value)
		}
	}
	definition := &model.DirectiveDefinition{Components: components, Parameters: parameters}
	if names, err := definition.PropertyNames(); err != nil || !reflect.DeepEqual(names, []string{"port", "user"}) {
		t.Errorf("property names %v, %v", names, err)
	}
	properties := func(string) ([]byte, string, bool) { return []byte(`"it's"`), "", true }
	lookup, err := definition.Lookup(properties, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := components[1].Expand(lookup)
	if err != nil || m.Command.Check.Shell != `test '22' = 'it'\''s'` {
		t.Errorf("expanded %+v, %v: values are not quoted for the shell", m.Command.Check, err)
	}
}

// texts returns test parameter values from alternating names and texts.
func texts(pairs ...string) map[string]model.ParameterValue {
	values := map[string]model.ParameterValue{}
	for i := 0; i < len(pairs); i += 2 {
		values[pairs[i]] = model.TextValue(pairs[i+1])
	}
	return values
}

// TestConstraintsNeedValue uses a node property as value of a parameter with constraints, and expects an error. Only
// the server tests constraints.
func TestConstraintsNeedValue(t *testing.T) {
	for _, p := range []model.Parameter{{Name: "a", OneOf: []model.Scalar{"no"}}, {Name: "a", Pattern: "[a-z]+"}, {Name: "a", Type: "integer"}, {Name: "a", Type: "boolean"}} {
		if err := CheckParameter(&p, model.TextValue("{{ .props.a }}")); err == nil || !strings.Contains(err.Error(), "cannot be checked against") {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if err := CheckParameter(&model.Parameter{Name: "a"}, model.TextValue("{{ .props.a }}")); err != nil {
		t.Error(err)
	}
}

// TestWordReadsEqualSingleReads reads many packed status codes at once, and expects the same statuses as reads one by one.
// Statuses are random, with all lengths around a word.
func TestWordReadsEqualSingleReads(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 4000 {
		n := round % 70
		c := NewCodes(n)
		var want Counts
		worst, open, failed := NotApplicable, 0, false
		unfulfilled := func(s Status) bool { return !s.Fulfilled() && s != Waived }
		for i := range n {
			s := Status(1 + random.IntN(4)) // a compliant one
			if round%3 > 0 && random.IntN(1+round%40) == 0 {
				s = Status(random.IntN(int(lastReported) + 1))
			}
			c.Set(i, s)
			want[s]++
			worst = Worst(worst, s)
			failed = failed || s == NonCompliant || s == Error
			if unfulfilled(s) {
				open++
			}
		}
		counts, is := c.Counts(n)
		if counts != want || is != worst || c.Unfulfilled(n) != open || c.Waived(n) != want[Waived] || c.Failed(n) != failed || c.Check(n) != nil {
			t.Fatalf("%x of %d: %v %s, %d, %d, %v, %v; want %v %s, %d, %v", c, n, counts, is, c.Unfulfilled(n), c.Waived(n), c.Failed(n), c.Check(n), want, worst, open, failed)
		}
		other := slices.Clone(c)
		for range random.IntN(3) * n / 20 {
			other.Set(random.IntN(n), Status(random.IntN(int(lastReported)+1)))
		}
		for i := range n + 1 {
			next, differs := i, i
			for next < n && !unfulfilled(c.At(next)) {
				next++
			}
			if got := c.NextUnfulfilled(i, n); got != next {
				t.Fatalf("%x of %d: after %d comes %d, want %d", c, n, i, got, next)
			}
			for differs < n && c.At(differs) == other.At(differs) {
				differs++
			}
			if got := c.NextDifference(other, i, n); got != differs {
				t.Fatalf("%x and %x of %d: after %d differs %d, want %d", c, other, n, i, got, differs)
			}
		}
		if n == 0 {
			continue
		}
		c.Set(random.IntN(n), lastReported+1+Status(random.IntN(15-int(lastReported))))
		if c.Check(n) == nil || n%2 == 1 && append(NewCodes(n)[:n/2], 0x10).Check(n) == nil {
			t.Fatalf("%x of %d: an unknown status was accepted", c, n)
		}
	}
}
