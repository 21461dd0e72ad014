package prep

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// FuzzStep runs preprocessing steps with random parameters on random values, and expects an output or error. A shared
// parsed value must give the same result.
func FuzzStep(f *testing.F) {
	for _, seed := range [][]string{
		{"multiplier", "2.5", "", "", "-1e3"}, {"trim", `\s\r`, "", "", " x\r"}, {"regex", `(a+)(?=b)$`, `\1`, "", "aab\n"}, {"hexToDecimal", "", "", "", "ff 1"},
		{"jsonPath", `$..a[?(@.b =~ "x" || @.c*2 >= -1)]~`, "", "", `{"a":[{"b":"x","c":1}]}`}, {"jsonPath", "$.a[-2:].length()", "", "", `{"a":[1,2]}`},
		{"jsonPath", "$['a\\'b'][0, 1].avg()", "", "", `{"a'b":[1,"2"]}`}, {"xmlPath", "//a[@b='1']/text()", "", "", "<x><a b='1'>t</a></x>"}, {"xmlToJson", "", "", "", "<a b='1'>t<c/></a>"},
		{"prometheusPattern", `a{b=~"c",d!="e"} == 1`, "function", "sum", "# TYPE a gauge\na{b=\"c\\n\"} 1 2\n"}, {"prometheusToJson", "{a!~\"b\"}", "", "", "up 1"},
		{"csvToJson", ";", "'", "1", "sep=;\r\na;'b''c'\r\n1\n"}, {"discardUnchangedHeartbeat", "1h", "", "", "x"}, {"checkNotSupported", "0", "x", "", "x"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4])
	}
	f.Fuzz(func(t *testing.T, name, one, two, three, value string) {
		d, ok := findStepType(nil, func(d *stepType) bool { return d.name == name })
		if !ok || name == "javascript" || len(value) > 10_000 {
			return // FuzzCompile of package filter fuzzes JavaScript
		}
		step := sampleStep(name, []string{one, two, three}[:min(d.max, 3)]...)
		if _, err := compileStep(step, item.Text, compileScript); err != nil {
			return
		}
		chain, err := Compile([]model.Step{step}, item.Text, compileScript)
		if err != nil {
			return // checkNotSupported without onFail
		}
		in := textSample(1, value)
		var s, shared State
		master := NewParsedValue(in)
		a := outcome(chain.Run(&s, in))
		for range 2 {
			if b := outcome(chain.RunDependent(&shared, master)); a != b {
				t.Fatalf("alone %q, shared %q", a, b)
			}
			shared = State{}
		}
		switch name {
		case "csvToJson", "xmlToJson", "prometheusToJson":
			if !strings.HasPrefix(a, "error: ") && a != discarded && !json.Valid([]byte(a)) {
				t.Fatalf("%s gave invalid JSON %q", name, a)
			}
		}
	})
}

// FuzzJSON parses random JSON with Muster's parser and with encoding/json, and expects equal results.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"a":[1,-2.5e+3,"\u00e9\ud83d\ude00",true,null,{}]}`, `"\ud800"`, `[01]`, `[1.]`, `{"a" 1}`, `[1,]`, " 1 \n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var tree jsonTree
		err := tree.parseJSON(text)
		if err != nil {
			if json.Valid([]byte(text)) && !strings.Contains(err.Error(), "levels") && !strings.Contains(text, `\u`) {
				t.Fatalf("%q is valid: %v", text, err)
			}
			return // half of a surrogate pair is an error here
		}
		if !json.Valid([]byte(text)) {
			t.Fatalf("%q is not valid", text)
		}
		if tree.nodes[0].next != uint32(len(tree.nodes)) || !json.Valid([]byte(tree.compact(0))) {
			t.Fatalf("%q: %d nodes, compact %q", text, len(tree.nodes), tree.compact(0))
		}
		if text = strings.TrimSpace(text); text[0] == '"' {
			var want string
			if json.Unmarshal([]byte(text), &want) == nil && strings.ToValidUTF8(tree.value(0), "\ufffd") != want && !strings.Contains(want, "\ufffd") {
				t.Fatalf("%q: got %q, expected %q", text, tree.value(0), want)
			}
		}
	})
}

// FuzzDecodeState decodes random bytes as step state, and expects the same state after encoding and decoding
// again.
func FuzzDecodeState(f *testing.F) {
	f.Add([]byte{0})
	f.Add((&State{first: rememberedValue{at: 5, value: item.FromText("text")}, more: []rememberedValue{{at: 6, value: item.FromFloat(1)}}}).Append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, rest, err := DecodeState(data)
		if err != nil {
			return
		}
		again, behind, err := DecodeState(append(s.Append(nil), rest...))
		if err != nil || string(again.Append(nil)) != string(s.Append(nil)) || string(behind) != string(rest) {
			t.Fatalf("%v: %v", data, err)
		}
	})
}
