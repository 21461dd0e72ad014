package kind_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/testenv"
)

var aKind = regexp.MustCompile(`\bkind: [A-Z]`)

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// What pages tell people to write, and the examples, is right.
func TestDocumentationExamplesAreValid(t *testing.T) {
	docs, err := filepath.Abs("../../docs")
	testenv.NoError(t, err)
	found := 0
	check := func(name, text string) {
		t.Helper()
		if !aKind.MatchString(text) {
			return // a part of one, or of a load scenario, whose kinds are small words
		}
		found++
		if _, err := kind.All().Read(name, []byte(text)); err != nil {
			t.Errorf("%v", err)
		}
	}
	err = filepath.WalkDir(docs, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && d.Name() == "parity" {
				return fs.SkipDir // what others write
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
		t.Errorf("only %d were found", found)
	}
}

func TestRules(t *testing.T) {
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
	if err == nil {
		t.Fatal("nothing is wrong with it")
	}
	text := err.Error()
	for _, want := range []string{
		"a.yaml:5:28: spec.targets.where: ", `unknown probe "dsk"`, "disk?", "wran", "many", "list the other groups",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "props.x") {
		t.Errorf("a variable is judged before it is known:\n%s", text)
	}
}

func TestValidResourcesPass(t *testing.T) {
	list, err := kind.All().Read("a.yaml", []byte(`
kind: Check
metadata: {name: disk}
spec:
  targets: {where: 'node.labels.env == "prod" && "web" in node.groups'}
  interval: 60s
  probe: {name: disk, args: {warn: "20%"}}
`))
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
}
