package filter

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
)

// TestZabbixScriptResults runs Zabbix preprocessing scripts (JavaScript), and compares the results
func TestZabbixScriptResults(t *testing.T) {
	at := time.Unix(1_700_000_000, 0).UTC()
	for _, c := range []struct{ body, value, want string }{
		{"return value.length", "four", "4"},
		{"sum = 0; for (i in [1,2,3]) { sum += Number(i) } return sum", "", "3"},
		{"let a = value; { let b = a; return b } // the end", "x", "x"},
		{`return value.match(/\{[\s\S]*?\}/g).join('|') + new RegExp("x[^\\S\n]*(.)").exec(value)[1] + /[\]\S]+/.exec("  ]ü😀 ")[0]`, "{a\n😀}{b} x \ty", "{a\n😀}|{b}y]ü😀"},
		{"return 1/3", "", "0.3333333333333333"},
		{"Zabbix.log(4, value); Zabbix.Log(4, value); return atob(btoa(value)) + md5(value) + sha256('').substr(0, 8)", "ü", "ü" + "c03410a5204b21cd8229ff754688d743" + "e3b0c442"},
		{"if (Zabbix.log.last) { return 'leak' } Zabbix.log.last = value", "x", "error: the expression failed: Cannot add property last, object is not extensible"},
		{"return null", "", "(null)"},
		{"return true", "", "true"},
		{"return new Date().getTime()", "", "1700000000000"},
		{"var a", "", "error: the script returned undefined: expected a text, number, boolean or null"},
		{"return [1]", "", "error: the script returned an object, not a text: return JSON.stringify(…) of the object"},
		{"return unknown", "", "error: the expression failed: unknown is not defined"},
		{"return new HttpRequest()", "", "error: the expression failed: HttpRequest is not defined"},
		{"var s = '1234567890'; while (true) { s = s + s }", "", "error: the expression failed: too large for a filter: the right side of +"},
	} {
		s, err := CompileScript(c.body)
		testenv.NoError(t, err)
		for range 2 { // the second time in a used interpreter
			got, ok, err := s.Run(c.value, at)
			switch {
			case errors.Is(err, ErrSlow): // the machine stood still
				continue
			case err != nil:
				got = "error: " + err.Error()
			case !ok:
				got = "(null)"
			}
			if got != c.want {
				t.Errorf("%s: got %s, expected %s", c.body, got, c.want)
			}
		}
	}
	for _, c := range []struct{ body, want string }{
		{"}); (function(){ return 1", "a closing brace or parenthesis too many"},
		{"return )", "line 1, column 8"},
		{"return eval('1')", ""},
		{"class A {}", "cannot use"},
		{strings.Repeat(" ", MaxScript+1), "the limit is 65536"},
	} {
		if _, err := CompileScript(c.body); c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%.40s: got %v, expected %s", c.body, err, c.want)
		}
	}
}

// TestScriptIsRepeatable expects equal pseudo-random numbers in a script for equal times, and other numbers for
// another time
func TestScriptIsRepeatable(t *testing.T) {
	s, err := CompileScript("return Math.random() + ' ' + Math.random()")
	testenv.NoError(t, err)
	run := func(at int64) string {
		text, _, err := s.Run("", time.Unix(0, at))
		for errors.Is(err, ErrSlow) { // the machine stood still
			text, _, err = s.Run("", time.Unix(0, at))
		}
		testenv.NoError(t, err)
		return text
	}
	if a, b, c := run(1), run(1), run(2); a != b || a == c {
		t.Errorf("got %s, %s, %s", a, b, c)
	}
}

// FuzzScript compiles and runs random preprocessing scripts and expects a result, an error, or null without a text
func FuzzScript(f *testing.F) {
	f.Add("return value + 1", "1")
	f.Add("x = JSON.parse(value); for (k in x) { return x[k] }", `{"a":null}`)
	f.Fuzz(func(t *testing.T, body, value string) {
		s, err := CompileScript(body)
		if err != nil {
			return
		}
		if text, ok, err := s.Run(value, time.Unix(0, 1)); !ok && err == nil && text != "" {
			t.Fatalf("null with the text %q", text)
		}
	})
}
