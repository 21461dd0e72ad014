package cli_test

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/muster-fleet/muster/internal/api/apitest"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

//go:embed toy_kind_test.go
var toySource string

// ToySpec is the spec of a kind of resource that exists only in tests.
type ToySpec struct {
	// The colour of the toy.
	Colour string `json:"colour"`
	// Handlers that play with the toy.
	Handlers []string `json:"handlers,omitempty" ref:"Handler"`
}

// Kind returns the name of the resource kind, Toy.
func (*ToySpec) Kind() string { return "Toy" }

// toyKind returns a kind of resource that exists only in tests. It proves that one file is enough for a new kind.
func toyKind() kind.Kind {
	return kind.Define(kind.Definition[*ToySpec]{
		KindInfo: model.KindInfo{Name: "Toy", Plural: "toys", Short: "to", Namespaced: true},
		Source:   toySource,
		Example:  "kind: Toy\nmetadata: {name: ball}\nspec: {colour: red}\n",
		Validate: func(v *kind.Validator, s *ToySpec) {
			if s.Colour == "" {
				v.Missing("spec.colour", "write colour: red", "missing")
			}
		},
		Columns: []kind.Column[*ToySpec]{{Name: "COLOUR", Cell: func(_ kind.ResourceView, s *ToySpec) string { return s.Colour }}},
		Details: func(_ kind.ResourceView, s *ToySpec) []kind.Detail {
			return []kind.Detail{{Name: "colour", Text: s.Colour}}
		},
	})
}

// TestToyKind declares a new kind of resource in one file, and expects all commands to know the kind. The API must
// know it, too.
func TestToyKind(t *testing.T) {
	kinds := kind.All().With(toyKind())
	rig := apitest.NewServerWithKinds(t, kinds)
	x := newTerminal(t, rig)
	x.kinds = kinds
	x.env["MUSTER_SERVER"], x.env["MUSTER_TOKEN"] = rig.URL, rig.Token
	x.writeFile("toy.yaml", toyKind().Example)
	x.expectOutput("", "lint DIR/toy.yaml", 0)
	x.writeFile("bad.yaml", "kind: Toy\nmetadata: {name: ball}\nspec: {}\n")
	x.expectOutput("", "lint DIR/bad.yaml", model.Invalid.Exit(), "spec.colour: missing")
	x.expectOutput("", "apply -f DIR/toy.yaml", 0, "toy/ball")
	x.expectOutput("", "get toys", 0, "COLOUR", "ball", "red")
	x.expectOutput("", "get to ball -o json", 0, `"colour": "red"`)
	x.expectOutput("", "describe toy ball", 0, "colour", "red")
	x.expectOutput("", "explain toy.colour", 0, "The colour of the toy.")
	x.expectOutput("", "explain toy", 0, "A Toy is the spec of a kind", "kind: Toy")
	x.expectOutput("kind: Toy\nmetadata: {name: b}\nspec: {}\n", "apply -f -", model.Invalid.Exit(), "spec.colour: missing")
	x.expectOutput("kind: Toy\nmetadata: {name: b}\nspec: {colour: red, handlers: [nobody]}\n", "apply -f -", model.Invalid.Exit(), "nobody")
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
