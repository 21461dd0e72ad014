package kind

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

	"github.com/muster-fleet/muster/internal/document"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestDecodeGolden decodes example resource files, and compares the resources or errors with golden files.
func TestDecodeGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/resources/*.in")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".in")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			testenv.NoError(t, err)
			got := decodeAndListFlaws(name, data)
			golden := strings.TrimSuffix(file, ".in") + ".golden"
			testenv.Golden(t, golden, got)
		})
	}
}

// decodeAndListFlaws decodes a file and returns its errors or, without errors, its resources as YAML.
func decodeAndListFlaws(name string, data []byte) string {
	list, err := All().Read(name, data)
	if err != nil {
		return err.Error() + "\n"
	}
	var plain []*model.Resource
	for i := range list {
		plain = append(plain, &list[i].Resource)
	}
	out, err := encodeYAML(plain...)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// encodeYAML encodes resources as YAML documents.
func encodeYAML(resources ...*model.Resource) ([]byte, error) {
	var all []byte
	for i, r := range resources {
		body, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		text, err := document.YAML(body)
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

// The same file as YAML and as JSON gives the same validation errors.
func TestJSONAndYAMLAgree(t *testing.T) {
	asJSON := `{"kind":"Check","metadata":{"name":"x"},"spec":{"command":["a","b\ud83d\ude00"],"interval":"1m","labls":{}}}`
	var v any
	testenv.NoError(t, json.Unmarshal([]byte(asJSON), &v))
	asYAML := "kind: Check\nmetadata: {name: x}\nspec:\n  command: [a, \"b\U0001F600\"]\n  interval: 1m\n  labls: {}\n"
	strip := func(err error) (out []string) {
		var flaws model.Flaws
		errors.As(err, &flaws)
		for _, f := range flaws {
			out = append(out, f.Field+" "+f.Text+" "+f.Hint)
		}
		return out
	}
	_, a := All().Decode("", []byte(asJSON))
	_, b := All().Decode("", []byte(asYAML))
	if !reflect.DeepEqual(strip(a), strip(b)) || len(strip(a)) != 1 {
		t.Errorf("%v\n%v", strip(a), strip(b))
	}
}

// TestResourcesSurviveEncoding encodes and decodes random resources, and expects equal resources.
func TestResourcesSurviveEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRandomResource(t)
		out, err := encodeYAML(r)
		testenv.NoError(t, err)
		list, err := All().Decode("x", out)
		if err != nil || len(list) != 1 {
			t.Fatalf("%v in\n%s", err, out)
		}
		want, _ := json.Marshal(&model.Resource{APIVersion: r.APIVersion, Kind: r.Kind, Metadata: r.Metadata, Spec: r.Spec})
		got, _ := json.Marshal(&list[0].Resource)
		if string(got) != string(want) {
			t.Fatalf("got  %s\nwant %s\n%s", got, want, out)
		}
		stored, err := All().DecodeResource(want)
		testenv.NoError(t, err)
		if again, _ := json.Marshal(stored); string(again) != string(want) {
			t.Fatalf("stored %s\nwant %s", again, want)
		}
	})
}

// drawRandomResource returns a random resource as input for a property-based test.
func drawRandomResource(t *rapid.T) *model.Resource {
	word := rapid.OneOf(
		rapid.StringMatching(`[a-z][a-z0-9.-]{0,8}[a-z0-9]`),
		rapid.SampledFrom([]string{"yes", "no", "on", "~", "null", "1", "1.0", "0x1f", "true", "2026-01-01", ": ", "- a", "#", "é\U0001F600", " x ", "a\nb\n", "{{ .props.x }}", "'", "\"", "\\", "\t", "|", ">"}),
	)
	words := rapid.MapOfN(word, word, 0, 3)
	list := rapid.SliceOfN(word, 1, 3)
	r := &model.Resource{APIVersion: model.APIVersion, Kind: "Check", Metadata: model.Metadata{
		Name: word.Draw(t, "name"), Namespace: word.Draw(t, "namespace"),
		Labels: words.Draw(t, "labels"), Annotations: words.Draw(t, "annotations"),
	}, Status: &model.ResourceStatus{ID: 7, Revision: 9, Created: time.Unix(1, 0)}}
	if rapid.Bool().Draw(t, "property") {
		r.Kind = "Property"
		value := rapid.SampledFrom([]string{`1`, `1.50`, `-2e10`, `"1"`, `"on"`, `null`, `{"a":[1,"x",{}],"b":[]}`, `true`, `12345678901234567890`, `1E5`})
		r.Spec = &model.PropertySpec{Property: word.Draw(t, "property name"), Value: json.RawMessage(value.Draw(t, "value"))}
		if string(r.Spec.(*model.PropertySpec).Value) == "null" {
			r.Spec.(*model.PropertySpec).Value = json.RawMessage(`[null]`)
		}
		return r
	}
	spec := &model.CheckSpec{
		Interval: model.Duration(rapid.Int64Range(1, 1e6).Draw(t, "interval")) * model.Duration(time.Second),
		Env:      words.Draw(t, "env"), Severity: words.Draw(t, "severity"),
		MaxOutput: model.Size(rapid.Int64Range(0, 1<<22).Draw(t, "maxOutput")),
		Targets:   &model.Targets{Groups: list.Draw(t, "groups"), Where: word.Draw(t, "where"), Except: &model.Targets{Nodes: list.Draw(t, "except")}},
		Alert:     &model.Alert{FailAfter: rapid.IntRange(0, 9).Draw(t, "failAfter"), Handlers: list.Draw(t, "handlers")},
	}
	switch rapid.IntRange(0, 2).Draw(t, "form") {
	case 0:
		spec.Command = &model.Command{Shell: word.Draw(t, "shell")}
	case 1:
		spec.Command = &model.Command{Argv: list.Draw(t, "argv")}
	case 2:
		spec.Probe = &model.Probe{Name: word.Draw(t, "probe"), Args: words.Draw(t, "args")}
	}
	r.Spec = spec
	return r
}

// TestAliasBombIsRefused decodes YAML with exponentially expanding aliases and deep nesting, and expects an error.
func TestAliasBombIsRefused(t *testing.T) {
	bomb := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 9; i++ {
		bomb += strings.ReplaceAll("aN: &aN [*aP,*aP,*aP,*aP,*aP,*aP,*aP,*aP,*aP]\n", "N", string(rune('0'+i)))
		bomb = strings.ReplaceAll(bomb, "P", string(rune('0'+i-1)))
	}
	deep := strings.Repeat("[", 5000)
	for text, want := range map[string]string{bomb: "values", deep: "", `{"a":` + deep: ""} {
		if _, err := All().Decode("bomb", []byte(text)); model.ClassOf(err) != model.Invalid || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
}

// FuzzDecodeResources decodes random bytes as resources, and expects no change after encoding and decoding. Only
// accepted resources count.
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
		list, err := All().Decode("f", data)
		if err != nil && model.ClassOf(err) != model.Invalid {
			t.Fatal(err)
		}
		for i := range list {
			out, err := encodeYAML(&list[i].Resource)
			testenv.NoError(t, err)
			again, err := All().Decode("f", out)
			if err != nil || len(again) != 1 {
				t.Fatalf("%v in %q", err, out)
			}
			a, _ := json.Marshal(&list[i].Resource)
			b, _ := json.Marshal(&again[0].Resource)
			if string(a) != string(b) {
				t.Fatalf("%s\n%s\n%s", a, b, out)
			}
			All().Check(&list[i].Resource)
			if stored, err := All().DecodeResource(a); err != nil || stored.Kind != list[i].Kind {
				t.Fatal(err)
			}
		}
	})
}
