//go:build linux

package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/test/harness"
)

// Whatever a property holds, a command takes it for text: through a real server, a real
// agent and a real shell, in every place where a variable may stand.
func TestPropertiesAreNotExecuted(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	api := s.Client()
	a := s.NewAgent("victim")
	a.Start()
	trap := filepath.Join(t.TempDir(), "trapped")
	values := map[string]string{
		"quote":      `'; touch ` + trap + `; '`,
		"double":     `"; touch ` + trap + `; "`,
		"subst":      `$(touch ` + trap + `)`,
		"backquotes": "`touch " + trap + "`",
		"lines":      "x\ntouch " + trap + "\n",
		"comment":    "# x\ntouch " + trap,
		"backslash":  `\'; touch ` + trap + `; \`,
		"arithmetic": `a[$(touch ` + trap + `)]`,
		"variable":   `$HOME ${IFS} $IFS *`,
		"braces":     `{{ .props.quote }} }}`,
		"bell":       "\a\x1b[31m\u202e",
		"option":     `-n`,
	}
	templates := map[string]string{
		"bare":     `printf %s {{ .props.V }}`,
		"double":   `printf %s "{{ .props.V }}"`,
		"single":   `printf %s '{{ .props.V }}'`,
		"within":   `printf '%s' a"{{ .props.V }}"b`,
		"variable": `x={{ .props.V }}; printf %s "$x"`,
		"env":      `printf %s "$FROM_PROPERTY"`,
	}
	var yaml strings.Builder
	for name, value := range values {
		quoted, _ := json.Marshal(value)
		fmt.Fprintf(&yaml, "{apiVersion: muster/v1, kind: Property, metadata: {name: v-%s}, spec: {property: %s, scope: global, value: %s}}\n---\n", name, name, quoted)
		for where, line := range templates {
			line, _ := json.Marshal(strings.ReplaceAll(line, "V", name))
			env := ""
			if where == "env" {
				env = fmt.Sprintf(`env: {FROM_PROPERTY: "{{ .props.%s }}"}, `, name)
				line, _ = json.Marshal(templates["env"])
			}
			fmt.Fprintf(&yaml, "{apiVersion: muster/v1, kind: Check, metadata: {name: %s-%s}, spec: {interval: 1m, targets: {groups: [all]}, %scommand: %s}}\n---\n", name, where, env, line)
		}
		fmt.Fprintf(&yaml, "{apiVersion: muster/v1, kind: Check, metadata: {name: %s-list}, spec: {interval: 1m, targets: {groups: [all]}, command: [printf, \"%%s\", \"{{ .props.%s }}\"]}}\n---\n", name, name)
	}
	s.Apply(yaml.String())
	for name, value := range values {
		for _, where := range []string{"bare", "double", "single", "within", "variable", "env", "list"} {
			var e v1.Event
			harness.Until(t, 90*time.Second, name+"-"+where+" has a result", func() (string, bool) {
				e = eventOf(t, api, "victim", name+"-"+where)
				return e.Output, e.Results > 0
			})
			want := value
			if where == "within" {
				want = "a" + value + "b"
			}
			if strings.TrimSpace(e.Output) != strings.TrimSpace(want) && !(name == "option" && where != "within") {
				t.Errorf("%s in %s: %q, want %q", name, where, e.Output, want)
			}
		}
	}
	if _, err := os.Stat(trap); err == nil {
		t.Errorf("a property was run as code")
	}
	// Where no quoting is safe, nothing is applied.
	for _, line := range []string{`echo $(echo {{ .props.quote }})`, "echo `echo {{ .props.quote }}`", `[[ 1 -eq {{ .props.quote }} ]]`, `(( 1 + {{ .props.quote }} ))`, `echo $[{{ .props.quote }}]`,
		"cat <<X\n{{ .props.quote }}\nX", `echo ${x:-{{ .props.quote }}}`, `echo # {{ .props.quote }}`, `echo \{{ .props.quote }}`} {
		text, _ := json.Marshal(line)
		file := filepath.Join(t.TempDir(), "check.yaml")
		if err := os.WriteFile(file, []byte(fmt.Sprintf(`{apiVersion: muster/v1, kind: Check, metadata: {name: bad}, spec: {interval: 1m, command: %s}}`, text)), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := harness.Run(t, s.Env(), "apply", "-f", file); r.Code != model.Invalid.Exit() {
			t.Errorf("%s: code %d %s", line, r.Code, r.Errors)
		}
	}
}
