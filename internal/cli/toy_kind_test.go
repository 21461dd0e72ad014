package cli_test

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/api/apitest"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

//go:embed toy_kind_test.go
var toySource string

// ToySpec is a thing to play with.
type ToySpec struct {
	// The colour of it.
	Colour string `json:"colour"`
	// Handlers that play with it.
	Handlers []string `json:"handlers,omitempty"`
}

// Kind implements model.Spec.
func (*ToySpec) Kind() string { return "Toy" }

func toy() kind.Kind {
	return kind.Define(kind.Definition[*ToySpec]{
		KindInfo: model.KindInfo{Name: "Toy", Plural: "toys", Short: "to", Namespaced: true},
		Source:   toySource,
		Example:  "kind: Toy\nmetadata: {name: ball}\nspec: {colour: red}\n",
		Validate: func(v *kind.Validator, s *ToySpec) {
			if s.Colour == "" {
				v.Missing("spec.colour", "write colour: red", "missing")
			}
		},
		References: func(refs *kind.References, s *ToySpec) { refs.Require("Handler", "spec.handlers", s.Handlers...) },
		Columns:    []kind.Column[*ToySpec]{{Name: "COLOUR", Cell: func(_ kind.View, s *ToySpec) string { return s.Colour }}},
		Details:    func(_ kind.View, s *ToySpec) []kind.Detail { return []kind.Detail{{Name: "colour", Text: s.Colour}} },
	})
}

// TestToyKind declares a kind in one file and finds it in apply, get, describe, explain, lint and the API.
func TestToyKind(t *testing.T) {
	kinds := kind.All().With(toy())
	rig := apitest.NewServerWithKinds(t, kinds)
	x := newTerminal(t, rig)
	x.kinds = kinds
	x.env["MUSTER_SERVER"], x.env["MUSTER_TOKEN"] = rig.URL, rig.Token
	file := filepath.Join(x.dir, "toy.yaml")
	testenv.NoError(t, os.WriteFile(file, []byte(toy().Example), 0o600))
	for _, c := range []struct {
		line string
		want []string
		code int
	}{
		{"lint DIR/toy.yaml", nil, 0},
		{"apply -f DIR/toy.yaml", []string{"toy/ball"}, 0},
		{"get toys", []string{"COLOUR", "ball", "red"}, 0},
		{"get to ball -o json", []string{`"colour": "red"`}, 0},
		{"describe toy ball", []string{"colour", "red"}, 0},
		{"explain toy.colour", []string{"The colour of it."}, 0},
		{"explain toy", []string{"A Toy is a thing to play with.", "kind: Toy"}, 0},
	} {
		out, code := x.run("", c.line)
		if code != c.code {
			t.Fatalf("%s: exit code %d: %s", c.line, code, x.text.String())
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: %q is missing in\n%s", c.line, want, out)
			}
		}
	}
	for _, text := range []string{"kind: Toy\nmetadata: {name: b}\nspec: {}\n", "kind: Toy\nmetadata: {name: b}\nspec: {colour: red, handlers: [nobody]}\n"} {
		if _, code := x.run(text, "apply -f -"); code != model.Invalid.Exit() {
			t.Errorf("exit code %d of %s", code, text)
		}
	}
	request, err := http.NewRequest(http.MethodGet, rig.URL+"/api/v1/openapi.json", nil)
	testenv.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+rig.Token)
	answer, err := http.DefaultClient.Do(request)
	testenv.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	testenv.NoError(t, err)
	var page struct {
		Paths      map[string]json.RawMessage `json:"paths"`
		Components struct {
			Schemas map[string]json.RawMessage `json:"schemas"`
		} `json:"components"`
	}
	testenv.NoError(t, json.Unmarshal(body, &page))
	if page.Paths["/api/v1/toys/{namespace}/{name}"] == nil || !bytes.Contains(page.Components.Schemas["ToySpec"], []byte("colour")) {
		t.Errorf("the OpenAPI document does not have the toy: %s", page.Paths["/api/v1/toys/{namespace}/{name}"])
	}
}
