package promimport

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/muster-fleet/muster/internal/conversion"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestImportGolden imports a rules file, and compares the result with a golden file. The file has everything with an
// equivalent in Muster, and groups without one.
func TestImportGolden(t *testing.T) {
	data := testenv.Value(os.ReadFile("testdata/rules.in"))(t)
	result := testenv.Value(Import([]conversion.File{{Name: "rules.yml", Data: data}}, kind.All()))(t)
	var out strings.Builder
	for _, r := range result.Resources {
		var plain any
		testenv.NoError(t, json.Unmarshal(testenv.Value(json.Marshal(r))(t), &plain))
		out.Write(testenv.Value(yaml.Marshal(plain))(t))
	}
	for _, n := range result.Notes {
		fmt.Fprintf(&out, "%s: %s: %s (%v)\n", n.Where, n.Subject, n.Text, n.NotImported)
	}
	fmt.Fprintf(&out, "%d groups, %d rules, %d lost\n", result.Groups, result.Rules, result.LostCount())
	testenv.Golden(t, "testdata/rules.golden", out.String())
}

// FuzzImport imports random bytes, and expects an error or valid resources with different names.
func FuzzImport(f *testing.F) {
	f.Add(testenv.Value(os.ReadFile("testdata/rules.in"))(f))
	f.Add([]byte("groups: [{name: a, rules: [{record: x, expr: y}]}]"))
	f.Add([]byte("a: 1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		kinds := kind.All()
		result, err := Import([]conversion.File{{Name: "x", Data: data}}, kinds)
		if err != nil {
			return
		}
		names := map[string]bool{}
		for _, r := range result.Resources {
			if flaws := kinds.Check(r); len(flaws) > 0 || names[r.Metadata.Name] {
				t.Fatalf("%s: %v, twice: %t", r.Metadata.Name, flaws, names[r.Metadata.Name])
			}
			names[r.Metadata.Name] = true
		}
		if missing := result.Groups - len(result.Resources); missing > len(result.Notes) {
			t.Fatalf("%d groups are left out without a note: %+v", missing, result.Notes)
		}
	})
}
