package trigger

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestErrorsNameColumn compiles faulty expressions, and expects error messages with the column of the fault.
func TestErrorsNameColumn(t *testing.T) {
	for expression, want := range map[string]string{
		"":                           `column 1, at the end: expected a number, a text in quotes, a function or (`,
		"1 +":                        `column 4, at the end: expected a number, a text in quotes, a function or (`,
		"1 2":                        `column 3, at "2": expected an operator, such as and, or, =, <`,
		"(1":                         `column 3, at the end: expected )`,
		"min(2s,1m),":                `column 11, at ",": expected an operator, such as and, or, =, <`,
		`"ä" = "b`:                   `column 7, at "\"b": the text has no closing quote`,
		`"a\n"`:                      `column 3, at "\\n\"": expected \" or \\ in a text`,
		"last":                       `column 1, at "last": expected ( after the function last`,
		"last(//a[b)":                `column 9, at "[b)": the parameters of the key have no closing ]`,
		"last(/host)":                `column 6, at "/host)": expected /host/key, or //key for the node itself`,
		"last(//)":                   `column 8, at ")": expected the key of an item`,
		"1e+309<>0":                  `column 1, at "1e+309<>0": expected a number such as 5, 0.5, 1e3, 10K or 5m`,
		"0x10":                       `column 1, at "0x10": expected a number such as 5, 0.5, 1e3, 10K or 5m`,
		"1e308K":                     `column 1, at "1e308K": expected a number such as 5, 0.5, 1e3, 10K or 5m`,
		"{}":                         `column 1, at "{}": expected a macro such as {$NAME}`,
		"5 = last(//nothing)":        `column 10, at "//nothing)": no item has the key nothing`,
		"{$NONE}":                    `column 1, at "{$NONE}": no macro {$NONE}`,
		"lost(//float)":              `column 1, at "lost(//float)": no function over the history of an item has the name lost`,
		"lost(1)":                    `column 1, at "lost(1)": no function has the name lost`,
		"last(1)":                    `column 1, at "last(1)": expected an item as the first argument: last(//key)`,
		"avg(//text,5m)":             `column 1, at "avg(//text,5m)": avg does not work on items of type text`,
		"avg(//float)":               `column 1, at "avg(//float)": avg needs a period: avg(//key,5m) or avg(//key,#5)`,
		"avg(//float,x)":             `column 13, at "x)": expected a period such as 5m, 1h or #5`,
		"avg(//float,#0)":            `column 13, at "#0)": expected a number of values from #1 to #10000`,
		"avg(//float,5m:1h)":         `column 13, at "5m:1h)": expected a time shift such as :now-1h or :now/d`,
		"avg(//float,5m:now+1h)":     `column 13, at "5m:now+1h)": the time shift leads into the future`,
		"avg(//float,5m,1)":          `column 16, at "1)": avg has at most 2 arguments`,
		`find(//text,,"regexp","(")`: "column 1, at \"find(//text,,\\\"regexp…\": the regular expression \"(\" is invalid: error parsing regexp: missing closing ) in `(`",
		`find(//text,,"regexp","` + strings.Repeat("x{1000}", 11) + `")`: `column 1, at "find(//text,,\"regexp…": the regular expression "x{1000}x{1000}x{1000}x{1000}x{1000}x{1000}x{1000}x{1000}x{1000}x…": it has more than 10000 steps: shorten it, and its repetitions such as {1000}`,
		`count(//text,5m,"gt",1)`:     `column 1, at "count(//text,5m,\"gt\"…": the operator gt needs an item with numbers`,
		"trendavg(//float,1h)":        `column 1, at "trendavg(//float,1h)": trendavg needs whole hours and a time shift with a unit: trendavg(//key,1h:now/h)`,
		"avg_foreach(/*/float,5m)":    `column 1, at "avg_foreach(/*/float…": avg_foreach belongs in a RuleGroup: a trigger reads the items of one node`,
		"last(/*/float)":              `column 1, at "last(/*/float)": last belongs in a RuleGroup: a trigger reads the items of one node`,
		`logeventid(//log,,"^4625$")`: "column 1, at \"logeventid(//log,,\\\"^…\": logeventid: an item keeps the text of a log line only; use find on the text",
		"logseverity(//log)":          `column 1, at "logseverity(//log)": logseverity: an item keeps the text of a log line only; use find on the text`,
		`logsource(//log,,"^App")`:    "column 1, at \"logsource(//log,,\\\"^A…\": logsource: an item keeps the text of a log line only; use find on the text",
		"logtimestamp(//log)":         `column 1, at "logtimestamp(//log)": logtimestamp: an item keeps the text of a log line only; lastclock is the time of its collection`,
		"rand()":                      `column 1, at "rand()": rand: a trigger must give the same result when its values are read again`,
		"now(1)":                      `column 1, at "now(1)": now has no arguments`,
		"length()":                    `column 1, at "length()": length has 0 arguments, expected from 1 to 1`,
		"abs(,1)":                     `column 1, at "abs(,1)": abs has 2 arguments, expected from 1 to 1`,
		"min(,1)":                     `column 5, at ",1)": an argument is missing`,
		strings.Repeat("(", 100):      `column 65, at "((((((((((((((((((((…": the expression is nested deeper than 64 levels`,
	} {
		e, err := Parse(expression)
		if err == nil {
			_, err = Compile(e, testScope)
		}
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v\nexpected %s", expression, err, want)
		}
	}
}

// TestZabbixTemplateExpressions parses all expressions of real Zabbix templates, and expects no error. The templates are in
// MUSTER_ZABBIX_DATA. It compiles expressions without macros of low-level discovery.
func TestZabbixTemplateExpressions(t *testing.T) {
	folder := os.Getenv("MUSTER_ZABBIX_DATA")
	if folder == "" {
		testenv.Skip(t, "MUSTER_ZABBIX_DATA names no folder of Zabbix templates", "MUSTER_ZABBIX_DATA=/path/to/templates go test ./internal/trigger -run TestZabbixTemplateExpressions")
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	testenv.NoError(t, err)
	total := 0
	scope := Scope{
		Macro: func(string) (string, error) { return "1", nil },
		Zone:  nil,
	}
	var visit func(file string, v any)
	visit = func(file string, v any) {
		switch v := v.(type) {
		case []any:
			for _, one := range v {
				visit(file, one)
			}
		case map[string]any:
			for key, one := range v {
				text, ok := one.(string)
				if !ok || key != "recovery_expression" && (key != "expression" || v["priority"] == nil && v["name"] == nil && v["uuid"] == nil) {
					visit(file, one)
					continue
				}
				total++
				e, err := Parse(text)
				if err != nil {
					t.Errorf("%s: %s: %v", file, text, err)
					continue
				}
				// Items of any type: a text only where a number does not compile.
				for _, kind := range []item.Type{item.Float, item.Text, item.Unsigned} {
					scope.Item = func(string, string) (int, item.Type, error) { return 0, kind, nil }
					if _, err = Compile(e, scope); err == nil {
						break
					}
				}
				if err != nil {
					t.Errorf("%s: %s: %v", file, text, err)
				}
			}
		}
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		testenv.NoError(t, err)
		var document any
		testenv.NoError(t, yaml.Unmarshal(data, &document))
		visit(filepath.Base(path), document)
	}
	t.Logf("%d expressions of %d files", total, len(files))
	if total == 0 {
		t.Errorf("no expressions in %s", folder)
	}
}

// TestReplaceHosts replaces the host names in expressions, and expects nothing else to change.
func TestReplaceHosts(t *testing.T) {
	got, err := ReplaceHosts(`min(/a b/k["/a b/x",{$M}],5m)>{$N} and find(/a b/t,,"like","/a b/k")=1`, func(host string) (string, error) { return host[:1] + "c", nil })
	if want := `min(/ac/k["/a b/x",{$M}],5m)>{$N} and find(/ac/t,,"like","/a b/k")=1`; err != nil || got != want {
		t.Errorf("got %s, %v", got, err)
	}
	if keys := Keys(got); len(keys) != 2 || keys[0] != `k["/a b/x",{$M}]` || keys[1] != "t" {
		t.Errorf("keys %q", keys)
	}
}

// TestEscapeTexts converts expressions of Zabbix 6.4, and expects doubled backslashes in texts of functions over items
// alone.
func TestEscapeTexts(t *testing.T) {
	for old, want := range map[string]string{
		`find(/h/k["\\a"],,"regexp","^\d \"x\" \\\.$")=1`: `find(/h/k["\\a"],,"regexp","^\\d \"x\" \\\\\\.$")=1`,
		`length(concat("a\\","\""))>5 and {$A:"\d"}=1`:    `length(concat("a\\","\""))>5 and {$A:"\d"}=1`,
		`count(//k,5m,"regexp","{$B}\s")>min(//k,5m)`:     `count(//k,5m,"regexp","{$B}\\s")>min(//k,5m)`,
	} {
		got, err := EscapeTexts(old)
		if err != nil || got != want {
			t.Errorf("%s: %s %v, expected %s", old, got, err, want)
		}
		if _, err := Parse(got); err != nil {
			t.Errorf("%s: %v", got, err)
		}
	}
	for _, wrong := range []string{`find(//k,,"like","a`, `find(//k,,"like","a\\")`, `concat("\d","x")="x"`} {
		if got, err := EscapeTexts(wrong); err == nil {
			t.Errorf("%s: %s", wrong, got)
		}
	}
}
