package where

import "testing"

// FuzzCompile checks that a condition compiles or is refused with a reason, and that a compiled one
// evaluates.
func FuzzCompile(f *testing.F) {
	for _, expr := range []string{
		``, `true`, `node.labels.env == "prod"`, `"web" in node.groups && node.facts.os != ""`, `node.labels.exists(k, k == "a")`,
		`has(node.labels.x) ? node.name.startsWith("a") : false`, `[1, 2][5] == 1`, `node.labels == {}`, `node`, `((((`, "\x00", `1 / 0 == 1`,
	} {
		f.Add(expr)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		w, err := Compile(expr)
		if err != nil {
			if err.Error() == "" {
				t.Error("refused without a reason")
			}
			return
		}
		if w.Match(webNode()) != evaluate(t, w.Expr, webNode()) {
			t.Errorf("%s: what it needs and its program do not agree", expr)
		}
	})
}
