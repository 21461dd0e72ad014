package zabbiximport

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/muster-fleet/muster/internal/conversion"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// options returns the import options of the tests. The agent of the tests knows three item keys.
func options() Options {
	return Options{Kinds: kind.All(), CheckKey: func(key string) error {
		if name, _, _ := strings.Cut(key, "["); name == "system.cpu.load" || name == "agent.ping" || name == "vfs.fs.size" {
			return nil
		}
		return fmt.Errorf("unknown key %s", key)
	}}
}

// TestImportGolden imports an export with every kind of field, and compares resources and notes with a golden file.
// Some fields have an equivalent in Muster and some have none.
func TestImportGolden(t *testing.T) {
	data, err := os.ReadFile("testdata/export.in")
	testenv.NoError(t, err)
	result, err := Import([]conversion.File{{Name: "export.yaml", Data: data}}, options())
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
	testenv.Golden(t, "testdata/export.golden", out.String())
}

// TestImportRefusesOtherFiles imports files other than Zabbix exports, and expects an error for each file.
func TestImportRefusesOtherFiles(t *testing.T) {
	for _, data := range []string{"", "a: 1\n", "[1]\n", "<zabbix_export/>", "a: [\n"} {
		if _, err := Import([]conversion.File{{Name: "x", Data: []byte(data)}}, options()); err == nil {
			t.Errorf("%q: no error", data)
		}
	}
}

// TestImportDropsRefusedParts imports an export with some entities over the limits, and expects all other
// entities.
func TestImportDropsRefusedParts(t *testing.T) {
	long := strings.Repeat("x", 3000)
	data := fmt.Sprintf(`{"zabbix_export":{"templates":[{"template":"a","macros":[{"macro":"{$A}","value":%[1]q},{"macro":"{$B}","value":"1"}],
		"valuemaps":[{"name":"m","mappings":[{"value":%[1]q,"newvalue":"x"}]}],
		"items":[{"key":"agent.ping"},{"key":"mapped","type":"TRAP","valuemap":{"name":"m"}},{"key":"steps","type":"TRAP","preprocessing":[{"type":"STR_REPLACE","parameters":["a","%[2]s"]}]}],
		"triggers":[]}]}}`, long, strings.Repeat("y", 70_000))
	result, err := Import([]conversion.File{{Name: "x", Data: []byte(data)}}, options())
	testenv.NoError(t, err)
	if len(result.Resources) != 1 || result.Counts.ImportedItems != 1 || result.LostCount() != 4 {
		t.Errorf("%+v %+v", result.Counts, result.Notes)
	}
}

// TestImportOldTexts imports an expression of Zabbix 6.0 and one of 7.0, and expects the same regular expression.
func TestImportOldTexts(t *testing.T) {
	for version, text := range map[string]string{"6.0": `\d\"`, "7.0": `\\d\"`} {
		trigger := map[string]any{"name": "a", "expression": `find(/t/agent.ping,,"regexp","` + text + `")=1`}
		export := map[string]any{"version": version, "templates": []any{map[string]any{"template": "t", "items": []any{map[string]any{"key": "agent.ping", "triggers": []any{trigger}}}}}}
		data := testenv.Value(json.Marshal(map[string]any{"zabbix_export": export}))(t)
		result, err := Import([]conversion.File{{Name: "x", Data: data}}, options())
		testenv.NoError(t, err)
		want := `find(//agent.ping,,"regexp","\\d\"")=1`
		if got := result.Resources[0].Spec.(*model.TemplateSpec).Triggers[0].Expression; got != want {
			t.Errorf("%s: %s, expected %s", version, got, want)
		}
	}
}

// TestImportFolder imports real Zabbix exports from a folder, and expects nearly all entities to be imported.
// MUSTER_ZABBIX_TEMPLATES names the folder; all resources must be valid.
func TestImportFolder(t *testing.T) {
	folder := os.Getenv("MUSTER_ZABBIX_TEMPLATES")
	if folder == "" {
		t.Skip("name a folder with exports of Zabbix: MUSTER_ZABBIX_TEMPLATES=FOLDER")
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	testenv.NoError(t, err)
	var sum Counts
	for _, file := range files {
		data, err := os.ReadFile(file)
		testenv.NoError(t, err)
		result, err := Import([]conversion.File{{Name: filepath.Base(file), Data: data}}, options())
		testenv.NoError(t, err)
		c := result.Counts
		if c.Items > 0 && len(result.Resources) == 0 {
			t.Errorf("%s: no resource: %+v", file, result.Notes)
		}
		for _, n := range result.Notes {
			if n.NotImported {
				t.Logf("%s: %s: %s", n.Where, n.Subject, n.Text)
			}
		}
		sum.Items, sum.Steps, sum.Triggers, sum.Rules = sum.Items+c.Items, sum.Steps+c.Steps, sum.Triggers+c.Triggers, sum.Rules+c.Rules
		sum.ImportedItems, sum.ImportedSteps, sum.ImportedTriggers = sum.ImportedItems+c.ImportedItems, sum.ImportedSteps+c.ImportedSteps, sum.ImportedTriggers+c.ImportedTriggers
		sum.ImportedRules += c.ImportedRules
	}
	t.Logf("%d files: %+v", len(files), sum)
	for _, share := range [][2]int{{sum.ImportedItems, sum.Items}, {sum.ImportedSteps, sum.Steps}, {sum.ImportedTriggers, sum.Triggers}, {sum.ImportedRules, sum.Rules}} {
		if share[0]*100 < share[1]*99 {
			t.Errorf("%d of %d came in", share[0], share[1])
		}
	}
}

// FuzzImport imports random files, and expects valid resources.
func FuzzImport(f *testing.F) {
	data, err := os.ReadFile("testdata/export.in")
	testenv.NoError(f, err)
	f.Add(data)
	f.Add([]byte(`{"zabbix_export":{"templates":[{"template":"a","items":[{"key":"agent.ping","delay":"1w"}]}]}}`))
	o := options()
	f.Fuzz(func(t *testing.T, data []byte) {
		result, err := Import([]conversion.File{{Name: "x", Data: data}}, o)
		if err != nil {
			return
		}
		for _, r := range result.Resources {
			testenv.NoError(t, o.Kinds.Validate(r))
		}
	})
}
