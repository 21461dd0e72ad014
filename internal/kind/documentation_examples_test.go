package kind_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/testenv"
)

// resourceKind matches the kind of a resource; load scenarios write kinds in small letters.
var resourceKind = regexp.MustCompile(`\bkind: [A-Z]`)

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// TestDocumentationExamplesAreValid validates the resources in pages and example files of docs, and expects no error.
func TestDocumentationExamplesAreValid(t *testing.T) {
	docs, err := filepath.Abs("../../docs")
	testenv.NoError(t, err)
	found := 0
	check := func(name, text string) {
		t.Helper()
		if !resourceKind.MatchString(text) {
			return // a part of a resource, or a load scenario
		}
		found++
		if _, err := kind.All().Read(name, []byte(text)); err != nil {
			t.Error(err)
		}
	}
	err = filepath.WalkDir(docs, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && d.Name() == "parity" {
				return fs.SkipDir // examples of other systems
			}
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch filepath.Ext(path) {
		case ".yaml":
			check(path, string(text))
		case ".md":
			for _, block := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
				check(path, block[1])
			}
		}
		return nil
	})
	testenv.NoError(t, err)
	if found < 12 {
		t.Errorf("only %d files and blocks with resources", found)
	}
}

// TestReadReportsErrorPositions reads files with wrong conditions and probes, and expects errors with line and
// field.
func TestReadReportsErrorPositions(t *testing.T) {
	_, err := kind.All().Read("a.yaml", []byte(`
kind: Check
metadata: {name: disk}
spec:
  targets: {groups: [all], where: 'node.labels.env == "prod" && node.label.x == "y"'}
  interval: 60s
  probe: {name: dsk}
---
kind: Check
metadata: {name: disk}
spec:
  interval: 60s
  probe:
    name: disk
    args: {wran: "20%", warn: "many", crit: '{{ .props.x | default "1%" }}'}
---
kind: Group
metadata: {name: g}
spec: {where: '"web" in node.groups'}
`))
	text := fmt.Sprint(err)
	for _, want := range []string{
		"a.yaml:5:28: spec.targets.where: ", `unknown probe "dsk"`, "disk?", "wran", "many", "list the other groups",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "props.x") {
		t.Errorf("a flaw in an argument with a variable:\n%s", text)
	}
}
