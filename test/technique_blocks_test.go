//go:build linux

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// sitesPolicy holds a node to a block of components for each element of a list, to a component that never counts, and to a directive
// with a calendar.
const sitesPolicy = `
kind: Technique
metadata: {name: sites}
spec:
  parameters: [{name: sites, type: list, min: 1}]
  methods:
    - component: site
      forEach: sites
      reporting: worst-case-weighted-sum
      block:
        - {component: config, fileContent: {path: "%[1]s/{{ .item.name }}.conf", content: "{{ .item.port }}\n"}}
        - {component: mode, filePermissions: {path: "%[1]s/{{ .item.name }}.conf", mode: "0600"}}
    - {component: notes, reporting: disabled, filePresent: {path: "%[1]s/notes"}}
    - {component: all sites, when: ok("site"), command: {check: "true"}}
---
{kind: Directive, metadata: {name: sites}, spec: {technique: sites, interval: 10s, parameters: {sites: [{name: a, port: 80}, {name: b, port: 81}]}}}
---
{kind: Technique, metadata: {name: slow}, spec: {methods: [{component: never, command: {check: "false"}}]}}
---
{kind: Directive, metadata: {name: yearly}, spec: {technique: slow, cron: "0 0 1 1 *", splay: 1h}}
---
{kind: Policy, metadata: {name: sites}, spec: {directives: [sites, yearly], targets: {nodes: [web1]}}}
`

// TestBlocksAndLoopsGiveCorrectCompliance declares a directive with blocks and loops, and expects correct
// compliance percentages. It has a calendar, too; the reporting modes of the blocks decide the percentages.
func TestBlocksAndLoopsGiveCorrectCompliance(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--snapshot-cycle", "2s")
	s.Login()
	folder := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		testenv.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	write("a.conf", "80\n")
	write("b.conf", "99\n")
	s.StartAgent("web1")
	s.Apply(fmt.Sprintf(sitesPolicy, folder))
	s.AwaitOutput("get compliance web1/sites", "60.00 %", "non-compliant (2 of 5)")
	s.AwaitOutput("describe compliance web1/sites", "site[a]  worst-case-weighted-sum  100.00 %: 2 compliant", "site[b]  worst-case-weighted-sum  0.00 %: 2 non-compliant",
		"site[b]/config  non-compliant: "+folder+`/b.conf: line 1 is "99", not "81"`, "site[b]/mode  compliant", "notes  non-compliant", "notes  disabled", "all sites  not applicable")
	s.AwaitOutput("describe event web1/sites:compliance", "3 of 5 components compliant", "site[b]/config: non-compliant")
	harness.Run(t, s.Env(), "report", "compliance", "--by", "directive").Expect(0, "60.00 %", "2 non-compliant")
	harness.Run(t, s.Env(), "report", "compliance", "--by", "day", "-o", "csv").Expect(0, ",5,60.00,")
	harness.Run(t, s.Env(), "describe", "technique", "sites").Expect(0, "site  worst-case-weighted-sum  for each of sites", "site/config  fileContent")
	harness.Run(t, s.Env(), "describe", "directive", "yearly").Expect(0, "at 0 0 1 1 * (UTC), spread over 1h")
	s.AwaitOutput("get compliance web1/yearly", "pending")
	harness.Run(t, s.Env(), "why", "web1/yearly").Expect(0, "the directive runs at 0 0 1 1 *")
	write("b.conf", "81\n")
	s.AwaitOutput("get compliance web1/sites", "100.00 %")
	s.AwaitOutput("describe compliance web1/sites", "all sites  compliant", "notes  non-compliant")

	// An element without the field that a component reads, and a list that is too short, are refused.
	for sites, want := range map[string]string{"[{name: a}]": `no field "port"`, "[]": "has 0 elements, but allows 1 or more"} {
		file := filepath.Join(t.TempDir(), "refused.yaml")
		testenv.NoError(t, os.WriteFile(file, []byte("{kind: Directive, metadata: {name: sites}, spec: {technique: sites, parameters: {sites: "+sites+"}}}"), 0o600))
		if r := s.Try("apply", "-f", file, "--yes"); r.Code == 0 || !harness.Contains(r.Out+r.Errors, want) {
			t.Errorf("sites %s: exit code %d: %s%s, want %q", sites, r.Code, r.Out, r.Errors, want)
		}
	}
}
