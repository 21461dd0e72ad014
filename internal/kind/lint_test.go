package kind_test

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/kind"
)

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
		"a.yaml:5:28: spec.targets.where: ", `no probe "dsk"`, "disk?", "wran", "many", "list the other groups",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "props.x") {
		t.Errorf("a variable is judged before it is known:\n%s", text)
	}
}

func TestWhatIsRightPasses(t *testing.T) {
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
