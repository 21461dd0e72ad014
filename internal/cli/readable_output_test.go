package cli_test

import (
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/model"
)

// TestMaintenanceWindowCountsNodes expects plan, apply and describe to show the node count of a maintenance window. A
// window without nodes must give a warning.
func TestMaintenanceWindowCountsNodes(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", nil, "web01", "web02", "web03")
	const window = `{kind: Window, metadata: {name: patches}, spec: {spans: [{during: "sun 02:00-04:00"}], maintenance: {targets: {nodes: [web01, web02]}}}}`
	x.expectOutput(window, "plan -f -", 0, "maintenance of 2 nodes")
	x.expectOutput(window, "apply -f - -m patches", 0, "maintenance of 2 nodes")
	x.expectOutput("", "describe window patches", 0, "maintenance of 2 nodes")
	x.expectOutput(strings.ReplaceAll(window, "web01, web02", "db01"), "plan -f -", 0, "maintenance of no node", "no node matches spec.maintenance. List nodes: muster get nodes")
	x.expectOutput(`{kind: Window, metadata: {name: night}, spec: {spans: [{during: "22:00-07:00"}]}}`, "plan -f -", 0)
}

// TestWhyKeepaliveSaysWhenProblemOpens asks muster why about a keepalive that is OK, and expects the time of a
// possible problem. A silent agent opens the problem at that time; if none can open, the answer gives the reason.
func TestWhyKeepaliveSaysWhenProblemOpens(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", nil, "web01")
	rig.ConnectNodes("default", "web01")
	rig.SetSession("web01", &v1.AgentSession{Version: "0.10.0", Address: "192.0.2.7:4711", Since: rig.Now(), Confirmed: true})
	x.expectOutput("", "why web01/keepalive", 0, "none open: a problem opens after 2m without a heartbeat")
	rig.SetSession("web01", nil)
	opens := rig.Now().Add(2 * time.Minute)
	rig.Advance(30 * time.Second)
	x.expectOutput("", "why web01/keepalive", 0, "the agent is silent; without a heartbeat a problem opens", opens.UTC().Format("15:04:05"))
	rig.RecordSession("web01", false, true)
	x.expectOutput("", "why web01/keepalive", 0, "a user stopped the agent, so the server expects no heartbeat")
}

// TestHeldColumnIsNarrow lists an event under a silence with a long reason, and expects a shortened column
// HELD. With -o wide and in describe, the text must be whole.
func TestHeldColumnIsNarrow(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.DeclareNodes("default", nil, "web01")
	reason := strings.TrimSpace(strings.Repeat("the racks move to the new room ", 5))
	rig.Apply(`
{kind: Check, metadata: {name: disk}, spec: {targets: {groups: [all]}, interval: 60s, command: "true"}}
---
{kind: Silence, metadata: {name: moving}, spec: {targets: {nodes: [web01]}, reason: "` + reason + `"}}
`)
	rig.Advance(time.Minute)
	rig.RecordResult("default", "web01", "disk", model.Critical, "full")
	out := x.expectOutput("", "get events", 0, "silenced by default/moving", "…")
	for row := range strings.Lines(out) {
		if screen.TextWidth(row) > 120 {
			t.Errorf("a row has %d columns: %s", screen.TextWidth(row), row)
		}
	}
	x.expectOutput("", "get events -o wide", 0, reason)
	x.expectOutput("", "describe event web01/disk", 0, reason)
}

// TestImportWithoutArgumentsListsImporters expects muster import without arguments to name all importers, each
// with an example.
func TestImportWithoutArgumentsListsImporters(t *testing.T) {
	_, x := openLoggedInTerminal(t)
	x.expectOutput("", "import", 0, "muster import sensu ", "muster import zabbix ", "muster import prometheus ", "muster import rudder ", "sensu (output of sensuctl dump),\nzabbix (exported templates), prometheus (rules files) and rudder (techniques, directives, rules, groups)")
}
