package kind

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

const referencePage = "../../docs/reference/resources.md"

func TestReferencePageIsUpToDate(t *testing.T) {
	testenv.Golden(t, referencePage, All().ReferencePage())
}

func TestEveryFieldIsExplained(t *testing.T) {
	var walk func(e Explanation)
	walk = func(e Explanation) {
		if e.Text == "" {
			t.Errorf("%s has no comment in resource.go", e.Path)
		}
		for _, f := range e.Fields {
			walk(f)
		}
	}
	for _, k := range All().Kinds() {
		e, err := All().Explain(k.Name, "")
		if err != nil {
			t.Fatal(err)
		}
		walk(*e)
	}
}

func TestExplain(t *testing.T) {
	for _, c := range []struct{ kind, path, want string }{
		{"check", "", "check: A Check is "},
		{"checks", "alert.failAfter", "check.spec.alert.failAfter: "},
		{"ch", "spec.alert", "check.spec.alert: "},
		{"Node", "metadata.name", "node.metadata.name: "},
		{"check", "alert.failafer", "check.spec.alert has no field \"failafer\"\n  did you mean failAfter?"},
		{"chek", "", "unknown kind \"chek\"\n  did you mean Check?"},
	} {
		e, err := All().Explain(c.kind, c.path)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = e.Path + ": " + e.Text
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s %s: %q, want %q", c.kind, c.path, got, c.want)
		}
	}
}
