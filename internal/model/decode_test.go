package model

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/testenv"
)

// Each testdata/resources/NAME.yaml (or .json) is decoded and checked; the golden file
// holds every flaw or, without one, what YAML makes of it.
func TestDecodeGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/resources/*.in")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".in")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := decodeAndCheck(name, data)
			golden := strings.TrimSuffix(file, ".in") + ".golden"
			testenv.Golden(t, golden, got)
		})
	}
}

func decodeAndCheck(name string, data []byte) string {
	list, err := testRules.Read(name, data)
	if err != nil {
		return err.Error() + "\n"
	}
	var plain []*Resource
	for i := range list {
		plain = append(plain, &list[i].Resource)
	}
	out, err := encodeYAML(plain...)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

func encodeYAML(resources ...*Resource) ([]byte, error) {
	var all []byte
	for i, r := range resources {
		body, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		text, err := YAML(body)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			all = append(all, "---\n"...)
		}
		all = append(all, text...)
	}
	return all, nil
}

var testRules = Rules{
	Probe: func(p *Probe) error {
		if p.Name != "disk" {
			return Errorf(Invalid, "there is no probe %q", p.Name).WithHint("did you mean disk?")
		}
		if _, ok := p.Args["wran"]; ok {
			return errors.Join(&Flaw{Field: "args.wran", Text: "unknown argument", Hint: "did you mean warn?"})
		}
		return nil
	},
	Where:      testWhere,
	GroupWhere: testWhere,
}

func testWhere(expr string) error {
	if strings.Contains(expr, "nod.") {
		return errors.New("column 1: nod is not known")
	}
	return nil
}

// The flaws of a file do not depend on whether it is written as YAML or as JSON.
func TestJSONAndYAMLAgree(t *testing.T) {
	asJSON := `{"kind":"Check","metadata":{"name":"x"},"spec":{"command":["a","b\ud83d\ude00"],"interval":"1m","labls":{}}}`
	var v any
	if err := json.Unmarshal([]byte(asJSON), &v); err != nil {
		t.Fatal(err)
	}
	asYAML := "kind: Check\nmetadata: {name: x}\nspec:\n  command: [a, \"b\U0001F600\"]\n  interval: 1m\n  labls: {}\n"
	strip := func(err error) (out []string) {
		var flaws Flaws
		errors.As(err, &flaws)
		for _, f := range flaws {
			out = append(out, f.Field+" "+f.Text+" "+f.Hint)
		}
		return out
	}
	_, a := DecodeResources("", []byte(asJSON))
	_, b := DecodeResources("", []byte(asYAML))
	if !reflect.DeepEqual(strip(a), strip(b)) || len(strip(a)) != 1 {
		t.Errorf("%v\n%v", strip(a), strip(b))
	}
}

// What YAML writes, DecodeResources reads back equal; so does what is stored.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawResource(t)
		out, err := encodeYAML(r)
		if err != nil {
			t.Fatal(err)
		}
		list, err := DecodeResources("x", out)
		if err != nil || len(list) != 1 {
			t.Fatalf("%v in\n%s", err, out)
		}
		want, _ := json.Marshal(&Resource{r.APIVersion, r.Kind, r.Metadata, r.Spec, nil})
		got, _ := json.Marshal(&list[0].Resource)
		if string(got) != string(want) {
			t.Fatalf("got  %s\nwant %s\n%s", got, want, out)
		}
		var stored Resource
		if err := json.Unmarshal(want, &stored); err != nil {
			t.Fatal(err)
		}
		if again, _ := json.Marshal(&stored); string(again) != string(want) {
			t.Fatalf("stored %s\nwant %s", again, want)
		}
	})
}

func drawResource(t *rapid.T) *Resource {
	word := rapid.OneOf(
		rapid.StringMatching(`[a-z][a-z0-9.-]{0,8}[a-z0-9]`),
		rapid.SampledFrom([]string{"yes", "no", "on", "~", "null", "1", "1.0", "0x1f", "true", "2026-01-01", ": ", "- a", "#", "é\U0001F600", " x ", "a\nb\n", "{{ .props.x }}", "'", "\"", "\\", "\t", "|", ">"}),
	)
	words := rapid.MapOfN(word, word, 0, 3)
	list := rapid.SliceOfN(word, 1, 3)
	r := &Resource{APIVersion: APIVersion, Kind: "Check", Metadata: Metadata{
		Name: word.Draw(t, "name"), Namespace: word.Draw(t, "namespace"),
		Labels: words.Draw(t, "labels"), Annotations: words.Draw(t, "annotations"),
	}, Status: &Stored{ID: 7, Revision: 9, Created: time.Unix(1, 0)}}
	if rapid.Bool().Draw(t, "property") {
		r.Kind = "Property"
		value := rapid.SampledFrom([]string{`1`, `1.50`, `-2e10`, `"1"`, `"on"`, `null`, `{"a":[1,"x",{}],"b":[]}`, `true`, `12345678901234567890`, `1E5`})
		r.Spec = &PropertySpec{Property: word.Draw(t, "property name"), Value: json.RawMessage(value.Draw(t, "value"))}
		if string(r.Spec.(*PropertySpec).Value) == "null" {
			r.Spec.(*PropertySpec).Value = json.RawMessage(`[null]`)
		}
		return r
	}
	spec := &CheckSpec{
		Interval: Duration(rapid.Int64Range(1, 1e6).Draw(t, "interval")) * Duration(time.Second),
		Env:      words.Draw(t, "env"), Severity: words.Draw(t, "severity"),
		MaxOutput: Size(rapid.Int64Range(0, 1<<22).Draw(t, "maxOutput")),
		Targets:   &Targets{Groups: list.Draw(t, "groups"), Where: word.Draw(t, "where"), Except: &Targets{Nodes: list.Draw(t, "except")}},
		Alert:     &Alert{FailAfter: rapid.IntRange(0, 9).Draw(t, "failAfter"), Handlers: list.Draw(t, "handlers")},
	}
	switch rapid.IntRange(0, 2).Draw(t, "form") {
	case 0:
		spec.Command = &Command{Shell: word.Draw(t, "shell")}
	case 1:
		spec.Command = &Command{Argv: list.Draw(t, "argv")}
	case 2:
		spec.Probe = &Probe{Name: word.Draw(t, "probe"), Args: words.Draw(t, "args")}
	}
	r.Spec = spec
	return r
}

func TestAliasBombIsRefused(t *testing.T) {
	bomb := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 9; i++ {
		bomb += strings.ReplaceAll("aN: &aN [*aP,*aP,*aP,*aP,*aP,*aP,*aP,*aP,*aP]\n", "N", string(rune('0'+i)))
		bomb = strings.ReplaceAll(bomb, "P", string(rune('0'+i-1)))
	}
	if _, err := DecodeResources("bomb", []byte(bomb)); ClassOf(err) != Invalid || !strings.Contains(err.Error(), "values") {
		t.Error(err)
	}
	deep := strings.Repeat("[", 5000)
	if _, err := DecodeResources("deep", []byte(deep)); ClassOf(err) != Invalid {
		t.Error(err)
	}
	if _, err := DecodeResources("deep", []byte(`{"a":`+strings.Repeat("[", 5000))); ClassOf(err) != Invalid {
		t.Error(err)
	}
}

func FuzzDecodeResources(f *testing.F) {
	files, _ := filepath.Glob("testdata/resources/*.in")
	for _, file := range files {
		data, _ := os.ReadFile(file)
		f.Add(data)
	}
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("{\"a\":1}\n{\"b\":"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		list, err := DecodeResources("f", data)
		if err != nil && ClassOf(err) != Invalid {
			t.Fatal(err)
		}
		for i := range list {
			out, err := encodeYAML(&list[i].Resource)
			if err != nil {
				t.Fatal(err)
			}
			again, err := DecodeResources("f", out)
			if err != nil || len(again) != 1 {
				t.Fatalf("%v in %q", err, out)
			}
			a, _ := json.Marshal(&list[i].Resource)
			b, _ := json.Marshal(&again[0].Resource)
			if string(a) != string(b) {
				t.Fatalf("%s\n%s\n%s", a, b, out)
			}
			Rules{}.Check(&list[i].Resource)
		}
	})
}
