package filter

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestMutate(t *testing.T) {
	for _, c := range []struct{ body, want, wrong string }{
		{"return event.check.output", "CRITICAL: 97% used\n", ""},
		{"var data = JSON.parse(JSON.stringify(event)); delete data.check.metadata.name; return JSON.stringify(data.check.metadata);", `{"annotations":{},"labels":{"team":"storage"},"namespace":"default"}`, ""},
		{"return {name: event.entity.name, n: [1, 2.5, null, undefined], f: function(){}, nan: NaN}", `{"n":[1,2.5,null,null],"name":"web1","nan":null}`, ""},
		{"if (event.check.status == 0) { return '' }\nfor (var k in event) { if (k != 'timestamp') { delete event[k] } }", `{"timestamp":1520275913}`, ""},
		{"return ''", "", ""},
		{"return new Date(0)", `"1970-01-01T00:00:00.000Z"`, ""},
		{"event.self = event", "", "deep, or holds itself"},
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
		"return 1 })(); (function(){": "closes a brace",
		"return eval('1') + `a`":      "TemplateLiteral",
	} {
		if _, err := CompileMutation(body); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

// What takes too long three times in a row is not evaluated for a minute, and then once.
func TestSlowProgramIsSuspended(t *testing.T) {
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
	for range maxSlow {
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
