package prep

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/filter"
	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// sampleStep returns a preprocessing step for tests, with the given name and parameters.
func sampleStep(name string, params ...string) model.Step {
	return model.Step{Name: name, Parameters: params}
}

// compileScript compiles JavaScript for the step javascript, in tests. It does the same as the package javascript,
// which the tests of this package cannot import.
func compileScript(source string) (Script, error) {
	script, err := filter.CompileScript(source)
	if err != nil {
		return nil, err
	}
	return script.Run, nil
}

// TestScriptsNeedAnInterpreter compiles a javascript step without an interpreter, and expects an error.
func TestScriptsNeedAnInterpreter(t *testing.T) {
	if _, err := Compile([]model.Step{sampleStep("javascript", "return 1")}, item.Text, nil); model.ClassOf(err) != model.Unsupported {
		t.Errorf("error %v", err)
	}
}

// TestFailedScriptHasOnFail fails a JavaScript step, and expects the value of its onFail setting instead of an
// error.
func TestFailedScriptHasOnFail(t *testing.T) {
	step := sampleStep("javascript", "throw 'no'")
	step.OnFail = &model.OnFail{Value: new("7")}
	if got := outcome(compileChain(t, item.Unsigned, step).Run(nil, item.Sample{Value: item.FromText("x")})); got != "7" {
		t.Errorf("got %s", got)
	}
}

// compileChain compiles a chain of preprocessing steps, and fails the test on an error.
func compileChain(t testing.TB, typ item.Type, steps ...model.Step) *Chain {
	t.Helper()
	c, err := Compile(steps, typ, compileScript)
	testenv.NoError(t, err)
	return c
}

const discarded = "(discarded)"

// outcome formats a value, an error or the absence of a value after all steps, for comparisons. It is the
// value, the last line of the error, or the word discarded.
func outcome(v item.Value, err error) string {
	switch {
	case err != nil:
		text := err.Error()
		return "error: " + text[strings.LastIndex(text, "\n")+1:]
	case v.Kind() == item.None:
		return discarded
	}
	return v.String()
}

const book = `{ "shop": {"name": "Corner", "open": true, "rent": null,
	"books": [
		{"id": 1, "title": "First steps", "price": 8.95, "kind": "tale"},
		{"id": 2, "title": "Second \"sight\"", "price": 12.99, "kind": "tale", "isbn": "x-2"},
		{"id": 3, "title": "Third way of all", "price": "22.5", "kind": "other"} ],
	"tags": ["a", "b", "c", "d", "e"], "limit": {"price": 10, "kind": "tale"}, "a b": {"caf\u00e9 $": 7}, "empty": [], "none": {} } }`

const metrics = `# HELP cpu_seconds Time of the CPU
# TYPE cpu_seconds counter
cpu_seconds{cpu="0",mode="idle"} 10.5
cpu_seconds{cpu="0",mode="user"} 2 1395066363000
cpu_seconds { cpu = "1" , mode = "idle", }   1.5e1
# TYPE latency histogram
# HELP latency Seconds
latency_bucket{le="+Inf"} 3
up 1

path{dir="C:\\x\n\"y\""} NaN
`

// TestSteps runs each type of preprocessing step on sample values, and expects their outputs and errors. One step is
// written as name, then its parameters.
func TestSteps(t *testing.T) {
	for _, c := range []struct {
		typ      item.Type
		step     []string
		in, want string
	}{
		{item.Text, []string{"multiplier", "10"}, "10x", `error: 1. Failed: cannot apply multiplier "10" to value of type "string": cannot convert value to numeric type`},
		{item.Float, []string{"multiplier", "1.5e1"}, "1.5e10", "2.25e+11"},
		{item.Unsigned, []string{"multiplier", "1.5"}, "3", "4"},
		{item.Unsigned, []string{"multiplier", "-3"}, "-1", "3"},
		{item.Unsigned, []string{"multiplier", "3"}, "-1", `error: Value of type "double" is not suitable for value type "Numeric (unsigned)". Value "-3"`},
		{item.Text, []string{"multiplier", "0.5"}, "3", "1"},
		{item.Text, []string{"rtrim", "01"}, "01abc01", "01abc"},
		{item.Text, []string{"ltrim", `0\s`}, "0 0abc", "abc"},
		{item.Text, []string{"trim", `\r\n\t)`}, "\t(x)\r\n", "(x"},
		{item.Text, []string{"regex", `(\d+)`, `x\1y\2`}, "test 123 number", "x123y"},
		{item.Text, []string{"regex", `number$`, `\0`}, "test 123 number\n", "number"},
		{item.Text, []string{"regex", `(?<=test )\d+`, `\0`}, "test 123 number", "123"},
		{item.Text, []string{"regex", `(.)\1`, `\1\1\1`}, "abba", "bbb"},
		{item.Text, []string{"regex", `^$`, `ok`}, "", "ok"},
		{item.Text, []string{"regex", `b`, ``}, "abc", "abc"},
		{item.Text, []string{"regex", `(b)|a`, `\\\n\0[\1\2]`}, "abc", `\\na[]`},
		{item.Text, []string{"regex", `(b)`, `<\@>`}, "abc", "<b>"},
		{item.Text, []string{"regex", `b`, `<\@>`}, "abc", `error: 1. Failed: cannot perform regular expression "b" match for value of type "string": pattern does not match`},
		{item.Text, []string{"regex", `^b$`, `ok`}, "a\nb\nc", `error: 1. Failed: cannot perform regular expression "^b$" match for value of type "string": pattern does not match`},
		{item.Text, []string{"regex", `\d`, `\0`}, "abc", `error: 1. Failed: cannot perform regular expression "\\d" match for value of type "string": pattern does not match`},
		{item.Text, []string{"regex", `^(?=(a+)+$)a`, `\0`}, strings.Repeat("a", 40) + "b", `error: 1. Failed: cannot perform regular expression "^(?=(a+)+$)a" match for value of type "string": the regular expression takes longer than 100ms or too much memory`},
		{item.Unsigned, []string{"boolToDecimal"}, "Running", "1"},
		{item.Unsigned, []string{"boolToDecimal"}, "0.5", "1"},
		{item.Unsigned, []string{"boolToDecimal"}, "\"on\"\r\n", "1"},
		{item.Unsigned, []string{"boolToDecimal"}, `"1"`, "1"},
		{item.Unsigned, []string{"boolToDecimal"}, "slave", "0"},
		{item.Unsigned, []string{"boolToDecimal"}, "perhaps", `error: 1. Failed: cannot convert value of type "string" from boolean format: invalid value format`},
		{item.Boolean, nil, "yes", "1"},
		{item.Unsigned, []string{"octalToDecimal"}, ` "17" `, "15"},
		{item.Unsigned, []string{"octalToDecimal"}, "8", `error: 1. Failed: cannot convert value of type "string" from octal format: invalid value format`},
		{item.Unsigned, []string{"hexToDecimal"}, "ff FF", "65535"},
		{item.Unsigned, []string{"hexToDecimal"}, "\"00 01\n02 03 \"\n", "66051"},
		{item.Unsigned, []string{"hexToDecimal"}, "f f", `error: 1. Failed: cannot convert value of type "string" from hexadecimal format: invalid value format`},
		{item.Unsigned, []string{"hexToDecimal"}, "g", `error: 1. Failed: cannot convert value of type "string" from hexadecimal format: invalid value format`},
		{item.Float, []string{"inRange", "5", "10"}, "10", "10"},
		{item.Float, []string{"inRange", "5", "10"}, "10.1", "error: 1. Failed: value is less than 5 or greater than 10"},
		{item.Float, []string{"inRange", "", "10"}, "11", "error: 1. Failed: value is greater than 10"},
		{item.Float, []string{"inRange", "5", ""}, "4", "error: 1. Failed: value is less than 5"},
		{item.Unsigned, []string{"inRange", "1", "10"}, "0.5", "error: 1. Failed: value is less than 1 or greater than 10"},
		{item.Unsigned, []string{"inRange", "1", "10"}, "10.0", "10"},
		{item.Text, []string{"matches", `\d`}, "a1", "a1"},
		{item.Text, []string{"matches", `\d`}, "a", `error: 1. Failed: cannot perform regular expression "\\d" validation for value of type "string": value does not match regular expression`},
		{item.Text, []string{"matches", `^b$`}, "a\nb\nc", "a\nb\nc"},
		{item.Text, []string{"matches", `^(?=b)b$`}, "a\nb\nc", "a\nb\nc"},
		{item.Text, []string{"notMatches", `\d`}, "a", "a"},
		{item.Text, []string{"notMatches", `\d`}, "a1", `error: 1. Failed: cannot perform regular expression "\\d" validation for value of type "string": value matches regular expression`},
		{item.Text, []string{"notMatches", `^b$`}, "a\nb", `error: 1. Failed: cannot perform regular expression "^b$" validation for value of type "string": value matches regular expression`},
		{item.Text, []string{"checkRegexError", `error:(\d+)`, `\1`}, "error:12", "error: 1. Failed: 12"},
		{item.Text, []string{"checkRegexError", `error:(\d+)`, `\1`}, "value:12", "value:12"},
		{item.Text, []string{"checkJsonError", "$.error"}, `{"error":"broken"}`, "error: 1. Failed: broken"},
		{item.Text, []string{"checkJsonError", "$.error"}, `{"error":""}`, `{"error":""}`},
		{item.Text, []string{"checkJsonError", "$.error"}, `{"error":" \n"}`, `{"error":" \n"}`},
		{item.Text, []string{"checkJsonError", "$.error"}, "no JSON", "no JSON"},
		{item.Text, []string{"checkXmlError", "//error/text()"}, "<a><error>broken</error></a>", "error: 1. Failed: broken"},
		{item.Text, []string{"checkXmlError", "//error/text()"}, "<a/>", "<a/>"},
		{item.Text, []string{"checkXmlError", "//error/text()"}, "<a><error> </error></a>", "<a><error> </error></a>"},
		{item.Text, []string{"checkXmlError", "//error/text()"}, "no XML", "no XML"},
		{item.Text, []string{"replace", `\n\\t`, `\s`}, "a\n\\tb\n\\t", "a b "},
		{item.Text, []string{"replace", "a"}, "abac", "bc"},
		{item.Text, []string{"javascript", "total = value * 2; return total"}, "21", "42"},
		{item.Text, []string{"javascript", "return null"}, "21", discarded},
		{item.Text, []string{"javascript", "var x = value"}, "21", "error: 1. Failed: cannot execute script: the script returned undefined: expected a text, number, boolean or null"},
		{item.Text, []string{"javascript", "return JSON.stringify(JSON.parse(value).a)"}, `{"a":[1,2]}`, "[1,2]"},
		{item.Text, []string{"javascript", "while (true) {}"}, "", "error: 1. Failed: cannot execute script: the expression was stopped: it took longer than 100ms"},
		{item.Text, []string{"javascript", "throw 'broken'"}, "", "error: 1. Failed: cannot execute script: the expression failed: broken"},

		{item.Text, []string{"xmlPath", "/b"}, "<a/>", ""},
		{item.Text, []string{"xmlPath", "/a"}, `<a x="1&quot;"><b>it's &amp; <c/></b><!--n--></a>`, `<a x="1&quot;"><b>it's &amp; <c/></b><!--n--></a>`},
		{item.Text, []string{"xmlPath", "string(/a/@b)"}, `<a b="10">1</a>`, "10"},
		{item.Text, []string{"xmlPath", "/a/@b"}, `<a b="10">1</a>`, ` b="10"`},
		{item.Text, []string{"xmlPath", `//*[@x="1"]`}, `<a><b x="1"/><c x="2"/><d x="1"/></a>`, `<b x="1"/><d x="1"/>`},
		{item.Text, []string{"xmlPath", "3 div 2"}, "<a/>", "1.5"},
		{item.Text, []string{"xmlPath", "count(//b) = 2"}, "<a><b/><b/></a>", "1"},
		{item.Text, []string{"xmlPath", "1 div 0"}, "<a/>", `error: 1. Failed: cannot extract XML value with xpath "1 div 0": the number is not finite`},
		{item.Text, []string{"xmlPath", "/a"}, strings.Repeat("<a>", 300) + strings.Repeat("</a>", 300), `error: 1. Failed: cannot extract XML value with xpath "/a": cannot parse XML: more than 256 levels`},
		{item.Text, []string{"xmlToJson"}, `<xml foo="FOO"><bar><baz>BAZ</baz></bar></xml>`, `{"xml":{"@foo":"FOO","bar":{"baz":"BAZ"}}}`},
		{item.Text, []string{"xmlToJson"}, `<?xml version="1.0"?><xml><foo/><bar a=""/><q>1</q><q b="2">3</q><q><![CDATA[<4>]]></q></xml>`, `{"xml":{"foo":null,"bar":{"@a":""},"q":["1",{"@b":"2","#text":"3"},"<4>"]}}`},
		{item.Text, []string{"xmlToJson"}, `<xml>`, `error: 1. Failed: cannot convert XML to JSON: cannot parse XML: XML syntax error on line 1: unexpected EOF`},

		{item.Text, []string{"csvToJson"}, "A,B\n1,2\n3", `[{"A":"1","B":"2"},{"A":"3","B":""}]`},
		{item.Text, []string{"csvToJson", "", "", "1"}, "sep=.\r\nA.B\r\n1.2\r\n", `[{"A":"1","B":"2"},{"A":"","B":""}]`},
		{item.Text, []string{"csvToJson", ";", "'", "0"}, "1;'a;''b\n'", `[{"1":"1","2":"a;'b\n"}]`},
		{item.Text, []string{"csvToJson", ",", `"`, "1"}, "A,A\n1,2", `error: 1. Failed: cannot convert CSV to JSON: duplicated column name "A"`},
		{item.Text, []string{"csvToJson", ",", `"`, "1"}, "A,B\n1,2,3", `error: 1. Failed: cannot convert CSV to JSON: CSV row 2: data row contains more fields than the header row`},
		{item.Text, []string{"csvToJson", ",", `"`, "1"}, "A,B\n\"1", `error: 1. Failed: cannot convert CSV to JSON: CSV row 2: unclosed quoted field`},
		{item.Text, []string{"csvToJson", ",", `"`, "1"}, "A,B\n\"1\"x", `error: 1. Failed: cannot convert CSV to JSON: CSV row 2: delimiter character or end of line are not detected after quoted field`},

		{item.Text, []string{"prometheusPattern", `cpu_seconds{cpu="0",mode=~"id.*"}`}, metrics, "10.5"},
		{item.Text, []string{"prometheusPattern", `{__name__="up"}`, "value", ""}, metrics, "1"},
		{item.Text, []string{"prometheusPattern", `{__name__=~"^late",le!="1"} == 3`, "label", "le"}, metrics, "+Inf"},
		{item.Text, []string{"prometheusPattern", `path{dir="C:\\x\n\"y\""} == nan`}, metrics, "NaN"},
		{item.Text, []string{"prometheusPattern", `cpu_seconds{mode!~"user"}`, "function", "sum"}, metrics, "25.5"},
		{item.Text, []string{"prometheusPattern", "cpu_seconds", "function", "count"}, metrics, "3"},
		{item.Text, []string{"prometheusPattern", "cpu_seconds", "function", "avg"}, "cpu_seconds 1\ncpu_seconds 2", "1.5"},
		{item.Text, []string{"prometheusPattern", "cpu_seconds"}, metrics, "error: 1. Failed: cannot apply Prometheus pattern: multiple matching metrics found"},
		{item.Text, []string{"prometheusPattern", "nothing"}, metrics, "error: 1. Failed: cannot apply Prometheus pattern: no matching metrics found"},
		{item.Text, []string{"prometheusPattern", "up", "label", "x"}, metrics, `error: 1. Failed: cannot apply Prometheus pattern: no label matches the specified name "x"`},
		{item.Text, []string{"prometheusPattern", "up"}, "up none", `error: 1. Failed: cannot apply Prometheus pattern: data parsing error at row 1 "up none": invalid metric value`},
		{item.Text, []string{"prometheusToJson", `{mode="user"}`}, metrics, `[{"name":"cpu_seconds","value":"2","line_raw":"cpu_seconds{cpu=\"0\",mode=\"user\"} 2 1395066363000","labels":{"cpu":"0","mode":"user"},"type":"counter","help":"Time of the CPU"}]`},
		{item.Text, []string{"prometheusToJson", "latency_bucket"}, metrics, `[{"name":"latency_bucket","value":"3","line_raw":"latency_bucket{le=\"+Inf\"} 3","labels":{"le":"+Inf"},"type":"histogram","help":"Seconds"}]`},
		{item.Text, []string{"prometheusToJson"}, "up 1", `[{"name":"up","value":"1","line_raw":"up 1","type":"untyped"}]`},
		{item.Text, []string{"prometheusToJson", "nothing"}, "up 1", `[]`},
		{item.Text, []string{"prometheusToJson"}, "up{x} 1", `error: 1. Failed: cannot convert Prometheus data to JSON: data parsing error at row 1 "up{x} 1": expected an operator and a value in quotes behind the name of a label`},
	} {
		var steps []model.Step
		if c.step != nil {
			steps = append(steps, sampleStep(c.step[0], c.step[1:]...))
		}
		v, err := compileChain(t, c.typ, steps...).Run(nil, item.Sample{At: 1, Value: item.FromText(c.in)})
		if got := outcome(v, err); got != c.want && !errors.Is(err, filter.ErrSlow) && !errors.Is(err, errSlowMatch) { // the machine may have stood still
			t.Errorf("%q of %q:\n got %s\nwant %s", c.step, c.in, got, c.want)
		}
	}
}

// TestJSONPath runs paths in Zabbix's dialect on one document, and expects their results
func TestJSONPath(t *testing.T) {
	for _, c := range []struct{ path, want string }{
		{"$.shop.name", "Corner"},
		{"$.shop.open", "true"},
		{"$.shop.rent", "null"},
		{"$['shop'][\"books\"][-1].price", "22.5"},
		{"$.shop.books[1].title ", `Second "sight"`},
		{"$.shop.limit", `{"price":10,"kind":"tale"}`},
		{"$.shop.empty", "[]"},
		{"$.shop['a b']['café $']", "7"},
		{`$.shop.books[?(@.title == 'Second \"sight\"')].id`, "[2]"},
		{"$.shop.tags[:]", `["a","b","c","d","e"]`},
		{"$.shop.tags[-2:]", `["d","e"]`},
		{"$.shop.tags[ 1 : 3 ]", `["b","c"]`},
		{"$.shop.tags[:-3].length()", "2"},
		{"$.shop.tags[-10:1]", `["a"]`},
		{"$.shop.tags[0, 2]", `["a","c"]`},
		{"$.shop.tags[1,1]", "b"},
		{"$.shop.books[0]['kind', \"id\"]", `["tale",1]`},
		{"$.shop.books.length()", "3"},
		{"$..id", "[1,2,3]"},
		{"$..books[0].id", "[1]"},
		{"$..price.max()", "22.5"},
		{"$.shop.books[*].price.sum()", "44.44"},
		{"$.shop.books[?(@.kind == 'tale')].price.avg()", "10.969999999999999"},
		{"$.shop.books.first().first()", "error: cannot apply function first() to a value that is not an array"},
		{"$.shop.books[?(@.id == 2 && 2 * ((1 + 3) / 2 + 3) == 10)].title.first()", `Second "sight"`},
		{"$.shop.books[?(@.id == -0.4 * 5 + 4)].id", "[2]"},
		{"$.shop.books[?(@.id == 2 == 1)].id", "[2]"},
		{"$.shop.books[?(!(@.id == 2))].id", "[1,3]"},
		{"$.shop.books[?(@.isbn)].id", "[2]"},
		{"$.shop.books[?(!@.isbn)].id", "[1,3]"},
		{`$.shop.books[?(@.title =~ "^Third.*of")].id`, "[3]"},
		{"$.shop.books[?(@.price > $.shop.limit.price)].id", "[2,3]"},
		{"$.shop.books[?(@.kind == $.shop.limit.nothing)].id", "error: no data matches the specified path"},
		{"$.shop.books[?(@.nothing)].length()", "0"},
		{"$.shop.books[?(@.nothing)].first()", "error: no data matches the specified path"},
		{"$..books[?(@.id == 1 || @.id == 3)]~", `["0","2"]`},
		{"$.shop.limit.*~", `["price","kind"]`},
		{"$.shop.limit.*~.first()", "price"},
		{"$.shop.name~", "name"},
		{"$.shop.books[?(@.title > 5 + 'x')]", "error: the filter calculates with a value that is not a number"},
		{"$.shop.*.length()", "9"},
		{"$.shop.none.length()", "0"},
		{"$.nothing", "error: no data matches the specified path"},
		{"$.shop.tags.x", "error: no data matches the specified path"},
		{"$.shop[0]", "error: no data matches the specified path"},
	} {
		got := outcome(compileChain(t, item.Text, sampleStep("jsonPath", c.path)).Run(nil, item.Sample{Value: item.FromText(book)}))
		if before, after, ok := strings.Cut(got, fmt.Sprintf("1. Failed: cannot extract value from json by path %q: ", c.path)); ok {
			got = before + after
		}
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.path, got, c.want)
		}
	}
	chain := compileChain(t, item.Text, sampleStep("jsonPath", "$.a"))
	for _, c := range []struct{ in, want string }{
		{` {"a":1, "b":2, "a":3}`, "3"},
		{`{"\u0061":"\ud83d\ude00\n\/"}`, "😀\n/"},
		{`{"a" : { "x" : "a b" , "y":[ 1 ,2.50 ] } }`, `{"x":"a b","y":[1,2.50]}`},
	} {
		if got := outcome(chain.Run(nil, item.Sample{Value: item.FromText(c.in)})); got != c.want {
			t.Errorf("%s: got %s, expected %s", c.in, got, c.want)
		}
	}
	for _, wrong := range []string{"", "abc", `{"a":1`, `{"a":01}`, `{"a":1,}`, `{"a":"\ud800"}`, `{"a":"\x"}`, `[1 2]`, `{"a":tru}`, `{"a":1}x`, "{\"a\":\"\n\"}", strings.Repeat("[", 65) + strings.Repeat("]", 65)} {
		if got := outcome(chain.Run(nil, item.Sample{Value: item.FromText(wrong)})); !strings.Contains(got, "invalid JSON") {
			t.Errorf("%q: got %s, expected invalid JSON", wrong, got)
		}
	}
}

// TestCompileRefuses compiles invalid preprocessing steps, and expects the reason for each refusal
func TestCompileRefuses(t *testing.T) {
	for _, c := range []struct {
		steps []model.Step
		want  string
	}{
		{[]model.Step{sampleStep("snmpWalkValue", "ifName.1")}, "no object identifier in digits"},
		{[]model.Step{sampleStep("snmpWalkToJson", "{#A}", "1.3")}, "expected 3 to 100"},
		{[]model.Step{sampleStep("snmpWalkToJson", "{#A}", "1.3", "0", "{#B}")}, "expected three for each field"},
		{[]model.Step{sampleStep("snmpGetValue", "0")}, "expected 1 to 3"},
		{[]model.Step{sampleStep("unknown")}, "unknown preprocessing step"},
		{[]model.Step{sampleStep("multiplier")}, "0 parameters, expected 1"},
		{[]model.Step{sampleStep("multiplier", "abc")}, `"abc" is not a number`},
		{[]model.Step{sampleStep("inRange", "", "")}, "minimum and maximum are empty"},
		{[]model.Step{sampleStep("inRange", "2", "1")}, "the minimum 2 is above the maximum 1"},
		{[]model.Step{sampleStep("discardUnchangedHeartbeat", "0")}, "is not a time from 1s to 25y"},
		{[]model.Step{sampleStep("discardUnchangedHeartbeat", "26y")}, "is not a time from 1s to 25y"},
		{[]model.Step{sampleStep("regex", "(", "")}, "invalid regular expression"},
		{[]model.Step{sampleStep("replace", "", "x")}, "the text to replace, is empty"},
		{[]model.Step{sampleStep("csvToJson", "ab")}, "single characters"},
		{[]model.Step{sampleStep("csvToJson", ",", ",")}, "the same character"},
		{[]model.Step{sampleStep("prometheusPattern", "cpu", `\value`)}, `expected "value", "label" or "function"`},
		{[]model.Step{sampleStep("xmlPath", "//text(")}, "invalid xpath"},
		{[]model.Step{sampleStep("javascript", "return )")}, "line 1, column 8"},
		{[]model.Step{{Name: "trim", Parameters: []string{" "}, OnFail: &model.OnFail{}}}, "onFail has no effect"},
		{[]model.Step{sampleStep("checkNotSupported")}, "has no onFail"},
		{[]model.Step{sampleStep("trim", " "), {Name: "checkNotSupported", OnFail: &model.OnFail{}}}, "step 2, checkNotSupported: this step must be before"},
		{make([]model.Step, maxSteps+1), "65 preprocessing steps"},
	} {
		_, err := Compile(c.steps, item.Float, compileScript)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, expected %s", c.steps, err, c.want)
		}
	}
	for _, path := range []string{
		"", "$", "abc", "$.", "$abc", "$['a'", "$[a']", "$['']", "$.a[]", "$.a[1", "$...a", "$.**.a", "$[,1]", "$[1,]", "$[1,,2]", "$[1,*,2]", "$[--1]", "$[a]", "$[1,'a']",
		`$['a\a']`, `$['a\`, "$[1:2:3]", "$.min(", "$.min(1)", "$.div()", "$.avg().data", "$[?]", "$[?()]", "$[?(+)]", "$[?(==)]", "$[?(+1)]", "$[?(!)]", "$[?(a)]", "$[?(1++1)]",
		"$[?(1 - - 1)]", "$[?((1+1)+)]", "$[?(1 + 'a)]", "$[?($..b + 1)]", "$[?($[1,2])]", "$[?($.a.)]", "$[?(1 == 2 == 3]", `$.a[?(@.b =~ "[a-z")]`, "$[?(" + strings.Repeat("(", 100) + "1" + strings.Repeat(")", 100) + ")]",
	} {
		if _, err := Compile([]model.Step{sampleStep("jsonPath", path)}, item.Text, nil); err == nil {
			t.Errorf("path %s was accepted", path)
		}
	}
	for _, pattern := range []string{`cpu{__name__="cpu"}`, `{__name__="cpu", __name__="cpu"}`, "cpu = 1", "cpu =~ 1", `cpu{type==1}`, "cpu == .", "cpu == 1e", "cpu == 1 1", "cpu == +Nan", `{a="b"c="d"}`, "x^&y", `cpu{a="b`} {
		if _, err := Compile([]model.Step{sampleStep("prometheusPattern", pattern)}, item.Text, nil); err == nil {
			t.Errorf("pattern %s was accepted", pattern)
		}
	}
}

// TestConvert converts values to each type of an item, and expects the results and errors.
func TestConvert(t *testing.T) {
	for _, c := range []struct {
		typ  item.Type
		in   item.Value
		want string
	}{
		{item.Float, item.FromText(" +12.50\n"), "12.5"},
		{item.Float, item.FromUnsigned(math.MaxUint64), "1.8446744073709552e+19"},
		{item.Float, item.FromFloat(math.NaN()), `error: Value of type "double" is not suitable for value type "Numeric (float)". Value "NaN"`},
		{item.Float, item.FromFloat(math.Inf(1)), `error: Value of type "double" is not suitable for value type "Numeric (float)". Value "+Inf"`},
		{item.Float, item.FromText("-Inf"), `error: Value of type "string" is not suitable for value type "Numeric (float)". Value "-Inf"`},
		{item.Float, item.FromText("NaN"), `error: Value of type "string" is not suitable for value type "Numeric (float)". Value "NaN"`},
		{item.Unsigned, item.FromFloat(math.Inf(1)), `error: Value of type "double" is not suitable for value type "Numeric (unsigned)". Value "+Inf"`},
		{item.Unsigned, item.FromFloat(math.NaN()), `error: Value of type "double" is not suitable for value type "Numeric (unsigned)". Value "NaN"`},
		{item.Unsigned, item.FromFloat(1 << 64), `error: Value of type "double" is not suitable for value type "Numeric (unsigned)". Value "1.8446744073709552E+19"`},
		{item.Unsigned, item.FromText("18446744073709551616"), `error: Value of type "string" is not suitable for value type "Numeric (unsigned)". Value "18446744073709551616"`},
		{item.Float, item.FromText("1e999"), `error: Value of type "string" is not suitable for value type "Numeric (float)". Value "1e999"`},
		{item.Float, item.FromText("0x10"), `error: Value of type "string" is not suitable for value type "Numeric (float)". Value "0x10"`},
		{item.Unsigned, item.FromText("18446744073709551615"), "18446744073709551615"},
		{item.Unsigned, item.FromText("12.0"), "12"},
		{item.Unsigned, item.FromText("12.5"), `error: Value of type "string" is not suitable for value type "Numeric (unsigned)". Value "12.5"`},
		{item.Unsigned, item.FromFloat(12.9), "12"},
		{item.Unsigned, item.FromFloat(-1), `error: Value of type "double" is not suitable for value type "Numeric (unsigned)". Value "-1"`},
		{item.Text, item.FromFloat(15000000000), "15000000000"},
		{item.Text, item.FromFloat(1e-7), "1E-07"},
		{item.Log, item.FromUnsigned(7), "7"},
		{item.Boolean, item.FromText("maybe"), `error: Value of type "string" is not suitable for value type "Boolean". Value "maybe"`},
	} {
		if got := outcome(compileChain(t, c.typ).Run(nil, item.Sample{Value: c.in})); got != c.want {
			t.Errorf("%v as %v: got %s, expected %s", c.in, c.typ, got, c.want)
		}
	}
}

// TestNames expects Muster to have a name for each preprocessing step in Zabbix's exports.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range stepTypes(nil) {
		name, ok := NameOfZabbix(d.zabbix)
		if !ok || name != d.name || seen[d.name] {
			t.Errorf("%s: got %s %v", d.zabbix, name, ok)
		}
		seen[d.name] = true
	}
	if len(seen) != 30 || len(Names()) != 30 {
		t.Errorf("%d steps, %d names, expected 30", len(seen), len(Names()))
	}
}
