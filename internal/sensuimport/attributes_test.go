package sensuimport

import "testing"

// What a condition becomes is read back as the same, or it is said that there are no words for it.
func TestAttributes(t *testing.T) {
	for _, where := range []string{
		`node.labels["kind"] == "switch"`,
		`(node.labels["kind"] == "switch" || node.labels["site"] != "lab") && node.name.matches("^sw") && "net" in node.groups`,
		`node.name.startsWith("a && b") && node.facts["os"] == "linux"`,
		`node.labels["rack"].contains("7") || !("db" in node.groups)`,
		`node.labels["rack"] != ""`,
		`node.namespace == "default"`,
	} {
		expressions, ok := Attributes(where)
		back, err := condition(expressions)
		if !ok || err != nil || back != where {
			t.Errorf("%s: %q, %v; read back: %s %v", where, expressions, ok, back, err)
		}
	}
	for _, where := range []string{``, `size(node.groups) > 2`, `node.labels.exists(k, k == "x")`, `"node.name" == "x"`, `(`, `node.name == "`, `node.labels["a"] == "b" &&`} {
		if expressions, ok := Attributes(where); ok {
			t.Errorf("%s: %q", where, expressions)
		}
	}
}
