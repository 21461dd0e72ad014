package filter

import (
	"strings"
	"testing"
	"time"
)

// Functions and variables of libraries are there for expressions and mutators, and begin anew with each event.
func TestLibraries(t *testing.T) {
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

// A library is held to what expressions are held to, and errors name it.
func TestRefusedLibraries(t *testing.T) {
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

// What a library assigns to and did not declare is its own, and gone with the event.
func TestUndeclaredLibraryVariables(t *testing.T) {
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
