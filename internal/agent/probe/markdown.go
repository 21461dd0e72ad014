package probe

import (
	"bytes"
	"fmt"
	"strings"
)

// Markdown is docs/probes.md.
func Markdown() []byte {
	var b bytes.Buffer
	b.WriteString(`# Probes

*Made from the probes' own descriptions; do not edit.*

A probe is a check that is built into the agent: nothing to install, no process to
start. A check names one instead of a command:

` + "```yaml" + `
kind: Check
metadata: {name: disk}
spec:
  interval: 60s
  probe: {name: disk, args: {warn: "15%", crit: "5%"}}
` + "```" + `

Arguments are strings and may hold ` + "`{{ .props.name | default \"…\" }}`" + `. Thresholds of
disk, memory and swap are what must stay free, as a share or an amount; all others are
what must not be exceeded. ` + "`muster-agent --probe disk warn=15%`" + ` tries one by hand.
Probes know Linux; where another system lacks what they read they are UNKNOWN and say so.
`)
	for _, p := range All() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| argument | type | default | meaning |\n|---|---|---|---|\n", p.Name, p.Summary)
		for _, a := range p.Args {
			value := "–"
			switch {
			case a.Must:
				value = "required"
			case a.Default != "":
				value = "`" + a.Default + "`"
			}
			help := a.Help
			if a.Unit != "" {
				help += " (" + a.Unit + ")"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", a.Name, a.Type, value, strings.ReplaceAll(help, "|", `\|`))
		}
	}
	return b.Bytes()
}
