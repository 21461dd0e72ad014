package cli_test

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/api/apitest"
	"github.com/muster-fleet/muster/internal/model"
)

// A problem of which nobody hears is said where people look first, until somebody does.
func TestStatusSaysThatNobodyIsTold(t *testing.T) {
	rig := apitest.New(t)
	x := newTerminal(t, rig)
	x.env["MUSTER_SERVER"], x.env["MUSTER_TOKEN"] = rig.URL, rig.Token
	rig.Nodes("default", nil, "web01")
	rig.Apply(`
kind: Check
metadata: {name: disk}
spec: {targets: {nodes: [web01]}, interval: 60s, command: "true"}
`)
	status := func() string {
		x.text.Reset()
		x.run("", "status")
		return strings.Join(strings.Fields(x.text.String()), " ")
	}
	const nobody = "nobody is told of problems in namespace default"
	rig.Result("default", "web01", "disk", model.OK, "fine")
	if out := status(); strings.Contains(out, nobody) {
		t.Errorf("all is well:\n%s", out)
	}
	rig.Result("default", "web01", "disk", model.Critical, "full")
	if out := status(); !strings.Contains(out, nobody) || !strings.Contains(out, "muster explain route") {
		t.Errorf("nobody hears of it:\n%s", out)
	}
	rig.Apply(`
kind: Handler
metadata: {name: pager}
spec: {command: "true"}
---
kind: Route
metadata: {name: default}
spec: {steps: [{to: [pager]}]}
`)
	if out := status(); strings.Contains(out, nobody) {
		t.Errorf("the pager hears of it:\n%s", out)
	}
}
