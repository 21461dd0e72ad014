package filter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// eventTime returns the time of test events, a Monday at 18:51:53 UTC.
func eventTime() time.Time { return time.Unix(1520275913, 0) }

// failingEvent returns the Sensu form of a CRITICAL event, as input for expressions in tests
func failingEvent() map[string]any {
	at := eventTime()
	s := &ConversionInput{
		Event: &model.Event{Namespace: "default", Node: "web1", Check: "disk-root", Status: model.Critical, Output: "CRITICAL: 97% used\n",
			Executed: at, Received: at, History: []model.Status{0, 2, 2, 2}, Occurrences: 3, Watermark: 3, State: "failing"},
		Entity: Entity{Labels: map[string]string{"env": "production", "region": "eu-west-1"}, Groups: []string{"linux", "web"}},
		Check:  Check{CheckDefinition: &model.CheckDefinition{Interval: time.Minute}, Labels: map[string]string{"team": "storage"}},
	}
	return ForExpressions(s, SensuEvent(s))
}

// TestCommonExpressionsEvaluate evaluates filter expressions that are common in Sensu installations, and
// compares the results.
func TestCommonExpressionsEvaluate(t *testing.T) {
	for _, c := range []struct {
		expression string
		want       bool
	}{
		{"event.check.occurrences == 1", false},
		{"event.check.occurrences == 1 || event.check.occurrences % (3600 / event.check.interval) == 0", false},
		{"event.check.occurrences == 3 || event.check.occurrences % (180 / event.check.interval) == 0;", true},
		{"event.is_incident && event.check.occurrences >= 3", true},
		{"event.is_resolution && event.check.occurrences_watermark >= 3", false},
		{"event.check.history[event.check.history.length - 2].status != event.check.status", false},
		{"event.entity.labels['env'] === 'production'", true},
		{"event.entity.metadata.labels.env === 'production' && event.check.metadata.labels.team !== 'web'", true},
		{"event.check.labels.unset === undefined", true},
		{"event.entity.subscriptions.indexOf('web') >= 0", true},
		{"weekday(event.timestamp) >= 1 && weekday(event.timestamp) <= 5 && hour(event.timestamp) >= 9 && hour(event.timestamp) <= 17", false},
		{"weekday(event.timestamp) == 1 && hour(event.timestamp) == 18 && minute(event.timestamp) == 51 && second(event.timestamp) == 53", true},
		{"seconds_since(event.check.executed) == 7", true},
		{"/9\\d% used/.test(event.check.output)", true},
		{"event.check.output.match(/(\\d+)% used/)[1] > 95", true},
		{"parseInt(event.check.output.split(' ')[1]) > 95", true},
		{"(event.entity.name + '/' + event.check.name) == 'web1/disk-root'", true},
		{"var bad = event.check.status; // how bad\nbad == 2 // critical", true},
		{"var n = 0; for (var i = 0; i < event.check.history.length; i++) { if (event.check.history[i].status) n += 1; }\nn === 3", true},
		{"(event.check.state == 'failing') && ['web1', 'web2'].some(function (n) { return n == event.entity.metadata.name })", true},
		{"new RegExp('^web[0-9]+$').test(event.entity.name)", true},
		{"JSON.parse('{\"a\": [1, 2]}').a[1] === 2 && [3, 1, 2].sort().join('-') === '1-2-3'", true},
		{"new Date(event.timestamp * 1000).getUTCHours() === 18 && Date.now() > 0", true},
		{"'%a%'.replace(/%/g, '$$') === '$a$'", true},
		{"try { null.x } catch (e) { e instanceof TypeError }\ntrue", true},
	} {
		p, err := Compile(c.expression)
		if err != nil {
			t.Errorf("%s: %v", c.expression, err)
			continue
		}
		for range 2 { // in a fresh interpreter, and in one from the pool
			got, err := p.Run(t.Context(), failingEvent(), eventTime().Add(7*time.Second))
			if errors.Is(err, ErrSlow) { // the machine stood still
				got, err = p.Run(t.Context(), failingEvent(), eventTime().Add(7*time.Second))
			}
			if got != c.want || err != nil {
				t.Errorf("%s: %t, %v", c.expression, got, err)
			}
		}
	}
}

// TestSyntaxErrorsHavePositions compiles invalid expressions and expects line and column in the error.
func TestSyntaxErrorsHavePositions(t *testing.T) {
	for expression, want := range map[string]string{
		"":                                   "does not end with a value",
		"if (true) { true }":                 "does not end with a value",
		"event.check.status ==":              "line 1, column",
		"true &&\n  event.check..status":     "line 2, column 14",
		"true }); (function(){ true":         "line 1, column 6",
		"true\n}":                            "line 2, column 1",
		"let a = 1\nlet a = 2\ntrue":         "line 2",
		"`${event.check.name}` == 'a'":       "filters cannot use TemplateLiteral",
		"(function*(){}).constructor":        "generator",
		"({get a(){ return 1 }}).a == 1":     "getter",
		"Math.max(...[1, 2]) == 2":           "filters cannot use SpreadElement",
		"1;\n/(a+)+\\1$/.test('a')":          "line 2, column 1",
		"/(?=a)/.test('a')":                  "needs backtracking",
		"/a{900}/.test('a')":                 "steps",
		"class A {}; true":                   "filters cannot use Class",
		"with (event) { true }; true":        "line 1",
		"true" + strings.Repeat(" ", 20<<10): "bytes",
	} {
		if _, err := Compile(expression); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", expression, err, want)
		}
	}
}

// TestFailingExpressionsExplainWhy evaluates failing expressions and expects the reason in the error.
func TestFailingExpressionsExplainWhy(t *testing.T) {
	for expression, want := range map[string]string{
		"event.check.nothing.here == 1":                   "failed: Cannot read property",
		"nothing == 1":                                    "nothing is not defined",
		"throw 'tired'; true":                             "tired",
		"throw {toString: function(){ for(;;){} }}; true": "an object",
		"hour = 3; true":                                  "read only",
		"Array.prototype.x = 1; true":                     "",
	} {
		p, err := Compile(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if got, err := p.Run(t.Context(), failingEvent(), eventTime()); got || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %t, %v, want %q", expression, got, err, want)
		}
	}
}

// TestSandboxCannotBeLeft runs expressions that try to leave the JavaScript sandbox, and expects an error from each.
// The expressions access the host, run text as code, or change later evaluations.
func TestSandboxCannotBeLeft(t *testing.T) {
	for _, name := range strings.Fields("require eval Function process console globalThis Proxy Reflect Symbol Promise Map WeakRef ArrayBuffer Uint8Array BigInt setTimeout escape encodeURIComponent") {
		p, err := Compile("typeof " + name + " === 'undefined'")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Run(t.Context(), failingEvent(), eventTime()); !got || err != nil {
			t.Errorf("%s is there: %t, %v", name, got, err)
		}
	}
	for _, expression := range []string{
		"(function(){}).constructor('return true')()", "(() => 1).constructor('return true')()", "[].map.constructor('return true')()", "hour.constructor('return true')()",
		"(function(){ return this })().Array === Array", "Object.defineProperty({}, 'a', {value: true}).a", "'a'.repeat(2) == 'aa'",
		"({}).__proto__.polluted = true", "Object.prototype.polluted = true", "Math.PI = 3; true", "[].join.x = true", "RegExp.prototype.test = function(){ return true }; true",
		"''[' addend']('a')", "Error.prototype.toString.call({name: 'a'}) == 'a'", "event.constructor.constructor('return true')()",
	} {
		p, err := Compile(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if got, err := p.Run(t.Context(), failingEvent(), eventTime()); got && err == nil {
			t.Errorf("%s works", expression)
		}
	}
}

// TestEvaluationLeavesNoTraceForNextEvent changes JavaScript variables and the event in one evaluation, and
// expects the next evaluation unaffected.
func TestEvaluationLeavesNoTraceForNextEvent(t *testing.T) {
	p, err := Compile("var seen; var before = seen; seen = true; event.check.status = 0; event.entity.labels.x = 'y'; before === undefined")
	if err != nil {
		t.Fatal(err)
	}
	event := failingEvent()
	for range 10 {
		if got, err := p.Run(t.Context(), event, eventTime()); !got || err != nil {
			t.Fatal(got, err)
		}
	}
	if fmt.Sprint(event["check"].(map[string]any)["status"]) != "2" {
		t.Error("an expression changed the event of its caller")
	}
	itself := map[string]any{}
	itself["event"] = itself
	if _, err := p.Run(t.Context(), itself, eventTime()); err == nil || !strings.Contains(err.Error(), "levels of nesting, or contains itself") {
		t.Error(err)
	}
}

// TestDecideFollowsActionAndTime runs filters on events, and expects the documented decisions to pass or drop the
// events. The decision depends on the action (allow or deny), the expressions and the time window.
func TestDecideFollowsActionAndTime(t *testing.T) {
	never, always := func(time.Time) bool { return false }, func(time.Time) bool { return true }
	for _, c := range []struct {
		name        string
		action      Action
		expressions []string
		when        func(time.Time) bool
		pass        bool
		failed      int
		reason      string
	}{
		{"all true", Allow, []string{"true", "event.check.status == 2"}, nil, true, 0, ""},
		{"one false", Allow, []string{"true", "event.check.status == 1"}, nil, false, 0, "expression 2 (event.check.status == 1) is false"},
		{"one true", Deny, []string{"false", "true"}, nil, false, 0, "is true, and the filter's action is deny"},
		{"none true", Deny, []string{"false", "false"}, nil, true, 0, ""},
		{"fails", Allow, []string{"event.x.y"}, nil, true, 1, "evaluation of some expressions failed"},
		{"fails and false", Allow, []string{"event.x.y", "false"}, nil, false, 1, "expression 2"},
		{"fails, deny", Deny, []string{"event.x.y"}, nil, true, 1, "Cannot read"},
		{"fails and true, deny", Deny, []string{"event.x.y", "true"}, nil, false, 1, "expression 2"},
		{"outside, allow", Allow, []string{"true"}, never, false, 0, "certain times"},
		{"outside, deny", Deny, []string{"true"}, never, false, 0, "expression 1"},
		{"outside, deny, false", Deny, []string{"false"}, never, true, 0, ""},
		{"inside, deny, false", Deny, []string{"false"}, always, false, 0, "denies all events at certain times"},
		{"inside, allow, false", Allow, []string{"false"}, always, false, 0, "expression 1"},
		{"not boolean", Allow, []string{"event.check.status", "'a'", "event", "new Boolean(false)"}, nil, true, 0, ""},
		{"undefined", Allow, []string{"event.check.labels.missing"}, nil, false, 0, "expression 1"},
		{"undeclared variable", Allow, []string{"n = 0; for (i in event.check.history) n++; n == 4"}, nil, true, 0, ""},
	} {
		f, err := New(c.action, c.expressions, c.when)
		if err != nil {
			t.Fatal(err)
		}
		v := f.Decide(t.Context(), failingEvent(), eventTime())
		if v.Pass != c.pass || len(v.Failed) != c.failed || !strings.Contains(v.Reason, c.reason) || (c.reason == "") != (v.Reason == "") {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
	if _, err := New(Allow, []string{"true", "a b", "("}, nil); err == nil || !strings.Contains(err.Error(), "expression 2") || !strings.Contains(err.Error(), "expression 3") {
		t.Error(err)
	}
	if _, err := New("maybe", []string{"true"}, nil); err == nil {
		t.Error("an action that is none")
	}
	for built, want := range map[string]bool{"event.is_incident || event.is_resolution": true, "!event.is_silenced": true, "event.has_metrics": false} {
		f, err := New(Allow, []string{built}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if v := f.Decide(t.Context(), failingEvent(), eventTime()); v.Pass != want || v.Failed != nil {
			t.Errorf("%s: %+v", built, v)
		}
	}
}

// BenchmarkRun measures one evaluation of a filter expression.
func BenchmarkRun(b *testing.B) {
	p, err := Compile("event.is_incident && event.check.occurrences % (3600 / event.check.interval) == 0")
	if err != nil {
		b.Fatal(err)
	}
	event, ctx := failingEvent(), context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Run(ctx, event, eventTime()); err != nil {
			b.Fatal(err)
		}
	}
}

// TestLibrariesBeginAnewWithEachEvent calls a JavaScript library function with a counter, and expects the
// counter to restart for each event.
func TestLibrariesBeginAnewWithEachEvent(t *testing.T) {
	libraries := []Library{
		{"a.js", "// how often\nvar seen = 0;\nfunction often(event, n) { seen++; return event.check.occurrences % n == 0 && seen == 1 }"},
		{"b.js", "var words = (function () { return {of: function (e) { return e.entity.name + '!' }} })() // ends with a comment"},
		{"c.js", "var last = function (x) { return x }"}, // and no semicolon
	}
	for expression, want := range map[string]bool{
		"often(event, 3)": true, "often(event, 2)": false, "(words.of(event)) == 'web1!'": true, "last(seen) === 0": true, "[1].length == 1": true,
	} {
		p, err := Compile(expression, libraries...)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		for range 2 {
			if got, err := p.Run(t.Context(), failingEvent(), eventTime()); err != nil || got != want {
				t.Errorf("%s: %t %v, want %t", expression, got, err, want)
			}
		}
	}
	m, err := CompileMutation("return words.of(event)", libraries...)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.Mutate(t.Context(), failingEvent(), eventTime()); err != nil || string(got) != "web1!" {
		t.Errorf("%q %v", got, err)
	}
	p, err := Compile("often(event, 3)")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(t.Context(), failingEvent(), eventTime()); err == nil || !strings.Contains(err.Error(), "often is not defined") {
		t.Errorf("%v", err)
	}
}

// TestFaultyLibrariesAreRefused compiles invalid JavaScript libraries, and expects errors that name the library.
func TestFaultyLibrariesAreRefused(t *testing.T) {
	for source, want := range map[string]string{
		"var x = require('fs')\nclass A {}": "library x.js: the expression is wrong at line 2",
		"})(); (function(){":                "library x.js: the expression is wrong at line 1, column 1",
		"return 1":                          "library x.js",
		"/* open":                           "library x.js",
		"var x = /" + strings.Repeat("a?", 300) + "/": "library x.js",
		strings.Repeat("x", MaxLibraries+1):           "more than 262144 bytes together",
	} {
		if _, err := Compile("true", Library{"x.js", source}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %q", source, err, want)
		}
	}
	p, err := Compile("true", Library{"x.js", "for (;;) {}"})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := p.Run(t.Context(), failingEvent(), eventTime()); err == nil || !strings.Contains(err.Error(), "longer than 100ms") || time.Since(began) > 10*time.Second {
		t.Errorf("%v", err)
	}
}

// TestUndeclaredLibraryVariablesEndWithEvent assigns undeclared JavaScript variables in a library, and expects
// no values at the next event.
func TestUndeclaredLibraryVariablesEndWithEvent(t *testing.T) {
	library := Library{"x.js", "const fixed = 2; let kept = 1; kept = 3\nfunction each(e) { try { every = e.check.interval } catch (x) {}\n for (i = 0; i < 3; i++) {}\n for (k in {a: 1}) {}\n n = fixed; n--; return every + i + n + kept }\nevent = event"}
	for expression, want := range map[string]bool{"each(event) == 67 && k == 'a' && event.check.status == 2": true, "every === undefined": true} {
		p, err := Compile(expression, library)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got, err := p.Run(t.Context(), failingEvent(), eventTime()); err != nil || got != want {
				t.Errorf("%s: %t %v", expression, got, err)
			}
		}
	}
	if p, err := Compile("true", Library{"x.js", "Math = 1"}); err == nil {
		if _, err := p.Run(t.Context(), failingEvent(), eventTime()); err == nil {
			t.Error("a built-in was replaced")
		}
	}
}

// TestMutationReturnsHandlerInput runs Sensu mutators on an event, and compares the results, which become the
// input of a handler. A mutator is a script that changes an event. The mutators return texts, objects or
// nothing.
func TestMutationReturnsHandlerInput(t *testing.T) {
	for _, c := range []struct{ body, want, wrong string }{
		{"return event.check.output", "CRITICAL: 97% used\n", ""},
		{"var data = JSON.parse(JSON.stringify(event)); delete data.check.metadata.name; return JSON.stringify(data.check.metadata);", `{"annotations":{},"labels":{"team":"storage"},"namespace":"default"}`, ""},
		{"data = JSON.parse(JSON.stringify(event)); delete data.check.metadata.name; return JSON.stringify(data.check.metadata)", `{"annotations":{},"labels":{"team":"storage"},"namespace":"default"}`, ""},
		{"for (k in event) { if (k != 'timestamp') { delete event[k] } }\nreturn null", `{"timestamp":1520275913}`, ""},
		{"return {name: event.entity.name, n: [1, 2.5, null, undefined], f: function(){}, nan: NaN}", `{"n":[1,2.5,null,null],"name":"web1","nan":null}`, ""},
		{"if (event.check.status == 0) { return '' }\nfor (var k in event) { if (k != 'timestamp') { delete event[k] } }", `{"timestamp":1520275913}`, ""},
		{"return ''", "", ""},
		{"return new Date(0)", `"1970-01-01T00:00:00.000Z"`, ""},
		{"event.self = event", "", "levels of nesting, or contains itself"},
		{"throw 'no'", "", "no"},
		{"return nothing.there", "", "nothing is not defined"},
		{"for (;;) {}", "", "longer than 100ms"},
		{"var s = '0123456789abcdef'; for (var i = 0; i < 12; i++) { s += s }\nvar a = []; for (var i = 0; i < 20; i++) { a.push(s) }\nreturn a", "", "would have more than 1048576 bytes"},
		{"({toJSON: function(){ return 1 }})", "", ""},
	} {
		m, err := CompileMutation(c.body)
		if err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		got, err := m.Mutate(t.Context(), failingEvent(), eventTime())
		switch {
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s: %v, want %q", c.body, err, c.wrong)
		case c.wrong == "" && err != nil, c.want != "" && string(got) != c.want:
			t.Errorf("%s: %q, %v", c.body, got, err)
		}
	}
	for body, want := range map[string]string{
		"return event..x":             "line 1, column 13",
		"return 1 })(); (function(){": "closing brace or parenthesis too many",
		"return eval('1') + `a`":      "TemplateLiteral",
	} {
		if _, err := CompileMutation(body); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

// TestMutationReadsItsVariables expects a mutator to read each of its environment variables as a JavaScript variable.
func TestMutationReadsItsVariables(t *testing.T) {
	env := map[string]string{"TEAM": "a \"b\"\n\u2028</c>", "N": "7"}
	m, err := CompileMutation("N = N + 1; return N + TEAM", VariablesLibrary(env)...)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := m.Mutate(t.Context(), failingEvent(), eventTime()); err != nil || string(got) != "71"+env["TEAM"] {
			t.Errorf("%q %v", got, err)
		}
	}
}

// TestProgramBeyondTimeLimitIsSuspended lets a filter expression exceed its time limit three times, and expects
// no evaluation for a minute.
func TestProgramBeyondTimeLimitIsSuspended(t *testing.T) {
	p, err := Compile("for (;;) {}\ntrue")
	if err != nil {
		t.Fatal(err)
	}
	try := func(at time.Time, suspended bool, next string) {
		t.Helper()
		_, err := p.Run(t.Context(), failingEvent(), at)
		if !errors.Is(err, ErrSlow) || strings.Contains(err.Error(), "suspended") != suspended || !strings.Contains(err.Error(), next) {
			t.Errorf("%v, want suspended %t, next evaluation %s", err, suspended, next)
		}
	}
	for range maxSlowInARow {
		try(eventTime(), false, "")
	}
	began := time.Now()
	for range 100 {
		try(eventTime().Add(59*time.Second), true, "18:52:53")
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("100 suspended evaluations took %s", took)
	}
	try(eventTime().Add(time.Minute), false, "")
	try(eventTime().Add(61*time.Second), true, "18:53:53")
}

// FuzzMutation compiles and runs random mutators and expects results below the size limit.
func FuzzMutation(f *testing.F) {
	f.Add("return JSON.stringify(event)")
	f.Add("delete event.check; return")
	f.Fuzz(func(t *testing.T, body string) {
		m, err := CompileMutation(body)
		if err != nil {
			return
		}
		if got, err := m.Mutate(t.Context(), failingEvent(), eventTime()); err == nil && len(got) > 8*MaxMutated {
			t.Errorf("%d bytes", len(got))
		}
	})
}
