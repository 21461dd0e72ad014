package cli_test

import (
	"encoding/csv"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestTranscriptOfComplianceByComponent runs reports of compliance by component, and compares their output with a
// golden file. Two nodes have one directive, and one of them also has another one.
func TestTranscriptOfComplianceByComponent(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", nil, "db1", "web1")
	rig.Apply(`
{kind: Technique, metadata: {name: sshd}, spec: {methods: [{component: root login, filePresent: {path: /a}}, {component: port, filePresent: {path: /b}}, {component: service, filePresent: {path: /c}}]}}
---
{kind: Technique, metadata: {name: motd}, spec: {methods: [{component: text, filePresent: {path: /d}}]}}
---
{kind: Directive, metadata: {name: sshd-no-root}, spec: {technique: sshd}}
---
{kind: Directive, metadata: {name: motd, labels: {cis: 5.1.20}}, spec: {technique: motd}}
---
{kind: Policy, metadata: {name: baseline}, spec: {directives: [sshd-no-root], targets: {groups: [all]}}}
---
{kind: Policy, metadata: {name: greeting}, spec: {directives: [motd], targets: {nodes: [web1]}}}
`)
	awaitPlanner(t, rig)
	run := func(node string, statuses ...policy.Status) {
		id, _ := rig.Directory.NodeByName("default", node)
		definitions := rig.Directory.AssignmentOf(id).Definitions
		at := slices.IndexFunc(definitions, func(d *model.Definition) bool { return d.Name == "sshd-no-root" })
		codes := policy.NewCodes(len(statuses))
		for i, s := range statuses {
			codes.Set(i, s)
		}
		rig.RecordReport(id, definitions[at].ID, &wire.Report{Components: uint32(len(statuses)), Codes: codes})
	}
	run("db1", policy.NonCompliant, policy.Compliant, policy.Waived)
	run("web1", policy.NonCompliant, policy.Compliant, policy.NonCompliant)
	x.replayTranscript("compliance_by_component.golden")

	out := x.expectOutput("", "report compliance --by component -o csv", 0)
	rows := testenv.Value(csv.NewReader(strings.NewReader(out)).ReadAll())(t)
	if len(rows) != 5 || !slices.Equal(rows[1], []string{"default", "sshd-no-root", "root login", "2", "2", "0.00", "", "0", "2", "0"}) {
		t.Errorf("CSV %q", rows)
	}
	x.expectOutput("", "report compliance --by component -o parquet", 0, "PAR1", "root login")
	x.expectOutput("", "get compliance --by component --limit 1", 0, "root login", "3 more: --limit 0 shows all")
}
