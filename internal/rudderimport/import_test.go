package rudderimport

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/muster-fleet/muster/internal/conversion"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/testenv"
)

// importText imports Rudder files, and returns the converted resources and the notes as one text for
// comparison.
func importText(t *testing.T, files []conversion.File, bridge bool) string {
	t.Helper()
	result, err := Import(files, Options{Kinds: kind.All(), Bridge: bridge, Now: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)})
	testenv.NoError(t, err)
	var out strings.Builder
	for _, r := range result.Resources {
		var plain any
		testenv.NoError(t, json.Unmarshal(testenv.Value(json.Marshal(r))(t), &plain))
		out.Write(testenv.Value(yaml.Marshal(plain))(t))
	}
	for _, n := range result.Notes {
		fmt.Fprintf(&out, "%s: %s: %s (%v)\n", n.Where, n.Subject, n.Text, n.NotImported)
	}
	fmt.Fprintf(&out, "%+v\n", result.Counts)
	return out.String()
}

// samples reads the sample Rudder files in testdata. They are a technique in YAML and an answer of Rudder's
// API.
func samples(t *testing.T) (files []conversion.File) {
	for _, name := range []string{"web.yml", "api.json"} {
		files = append(files, conversion.File{Name: name, Data: testenv.Value(os.ReadFile(filepath.Join("testdata", name)))(t)})
	}
	return files
}

// TestImportGolden imports samples of all Rudder resources, and compares resources and notes with a golden file. The
// samples have all that can be converted, and all that cannot.
func TestImportGolden(t *testing.T) {
	testenv.Golden(t, "testdata/import.golden", importText(t, samples(t), false))
	testenv.Golden(t, "testdata/bridge.golden", importText(t, samples(t), true))
}

// TestImportRefusesOtherFiles imports files that are neither techniques nor answers of Rudder's API, and expects an
// error for each.
func TestImportRefusesOtherFiles(t *testing.T) {
	for _, data := range []string{"", "a: 1\n", "[1]\n", "<technique/>", "a: [\n", `{"result":"error"}`} {
		if _, err := Import([]conversion.File{{Name: "x", Data: []byte(data)}}, Options{Kinds: kind.All()}); err == nil {
			t.Errorf("%q: no error", data)
		}
	}
}

// TestLongDescriptionIsCut imports a technique with a long description and a control character, and expects a shorter
// description.
func TestLongDescriptionIsCut(t *testing.T) {
	text := importText(t, []conversion.File{{Name: "x", Data: []byte(`{"id": "x", "name": "X", "description": "\u0007` + strings.Repeat("é", 200) + `",
		"items": [{"id": "m", "name": "Package", "method": "package_present", "params": {"name": "nginx", "version": "any"}}]}`)}}, false)
	if !strings.Contains(text, "kind: Technique") || !strings.Contains(text, "é…") {
		t.Error(text)
	}
}

// TestRealTechniquesAreRead imports techniques from Rudder's own tests, and expects resources of kind Technique with all
// methods.
func TestRealTechniquesAreRead(t *testing.T) {
	folder := os.Getenv("MUSTER_RUDDER_DATA")
	if folder == "" {
		testenv.Skip(t, "no folder with techniques of Rudder is known", "MUSTER_RUDDER_DATA=FOLDER go test ./internal/rudderimport")
	}
	names, err := filepath.Glob(filepath.Join(folder, "techniques", "*.yml"))
	testenv.NoError(t, err)
	for _, name := range names {
		for _, bridge := range []bool{false, true} {
			text := importText(t, []conversion.File{{Name: filepath.Base(name), Data: testenv.Value(os.ReadFile(name))(t)}}, bridge)
			if !strings.Contains(text, "kind: Technique") || strings.Contains(text, "(true)") {
				t.Errorf("%s, bridge %v: no technique, or a part was left out:\n%s", name, bridge, text)
			}
			t.Logf("%s, bridge %v:\n%s", filepath.Base(name), bridge, text)
		}
	}
}

// FuzzImport imports random bytes, and expects each resulting resource to be valid.
func FuzzImport(f *testing.F) {
	for _, name := range []string{"web.yml", "api.json"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		testenv.NoError(f, err)
		f.Add(data, true)
		f.Add(data, false)
	}
	kinds := kind.All()
	f.Fuzz(func(t *testing.T, data []byte, bridge bool) {
		result, err := Import([]conversion.File{{Name: "x", Data: data}}, Options{Kinds: kinds, Bridge: bridge})
		if err != nil {
			return
		}
		for _, r := range result.Resources {
			if flaws := kinds.Check(r); len(flaws) > 0 {
				t.Errorf("%s %s: %v", r.Kind, r.Metadata.Name, flaws)
			}
		}
	})
}
