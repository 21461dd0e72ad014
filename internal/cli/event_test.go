package cli_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/apitest"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// failingFleet returns a server with web01…web60, on which disk is critical and load OK.
func failingFleet(t *testing.T) (*apitest.Rig, *terminal) {
	rig, x := openTerminal(t)
	web := numbered("web%02d", 60)
	rig.Nodes("default", map[string]string{"role": "web"}, web...)
	for _, check := range []string{"disk", "load"} {
		rig.Apply("apiVersion: muster/v1\nkind: Check\nmetadata: {name: " + check + "}\nspec: {targets: {groups: [all]}, interval: 60s, command: x}")
	}
	rig.Apply("apiVersion: muster/v1\nkind: Group\nmetadata: {name: first}\nspec: {nodes: [web01, web02]}")
	for _, node := range web {
		rig.Result("default", node, "disk", model.Critical, "DISK CRITICAL")
		rig.Result("default", node, "load", model.OK, "LOAD OK")
	}
	return rig, x
}

// TestBulkActions lists matching events first and needs --yes for many; the audit has one line per
// action, and each event has it in its history.
func TestBulkActions(t *testing.T) {
	rig, x := failingFleet(t)
	x.run("", "get events --group first --status critical")
	x.run("", "get events --group nobody")
	x.run("", "event ack --group first -m rack --for 2h")
	x.run("", "event ack --status critical -l role=web --dry-run")
	x.run("", "event ack --status critical")
	x.run("", "event ack --status critical --max-affected 60 -m storm")
	x.run("", "event unack --where event.acknowledged&&node.name.startsWith(\"web0\") --check disk")
	x.run("", "event ack --check load")
	x.run("", "event resolve --node web03 -m cleaned -o yaml")
	x.run("", "event resolve --all")
	x.run("", "event delete --check disk -A --yes")
	x.run("", "event delete web01/load --check disk")
	x.run("", "event delete")
	x.run("", "event ack --group none")
	x.run("", "event ack --where node.name==")
	x.run("", "audit run")
	x.golden("bulk.golden")
	if n := rig.View.Counts(0).Problems; n != 0 {
		t.Errorf("%d problems are left", n)
	}
}

// TestBulkRights lets operators acknowledge and resolve; only administrators delete.
func TestBulkRights(t *testing.T) {
	rig, x := failingFleet(t)
	for role, want := range map[string]map[string]int{"operator": {"ack": 0, "resolve": 0, "delete": 6}, "viewer": {"ack": 6, "delete": 6}} {
		token, _, err := rig.Access.CreateToken(t.Context(), intent.Actor{User: "server"}, access.AccessToken{User: "admin", Grants: access.Grants{Role: role}})
		if err != nil {
			t.Fatal(err)
		}
		x.env["MUSTER_TOKEN"] = token
		for verb, code := range want {
			if _, got := x.run("", "event "+verb+" --group first"); got != code {
				t.Errorf("%s %s: exit code %d, want %d", role, verb, got, code)
			}
		}
	}
}

// TestGroupAvailability reports worst, mean, all and any node of a group; a deleted node counts until
// its deletion.
func TestGroupAvailability(t *testing.T) {
	rig, x := openTerminal(t)
	rig.Nodes("default", map[string]string{"env": "prod"}, "web01", "web02", "web03", "old01")
	rig.Apply("apiVersion: muster/v1\nkind: Check\nmetadata: {name: http}\nspec: {targets: {groups: [all]}, interval: 60s, command: x}")
	rig.Apply("apiVersion: muster/v1\nkind: Group\nmetadata: {name: web}\nspec: {nodes: [web01, web02]}")
	rig.Apply("apiVersion: muster/v1\nkind: Group\nmetadata: {name: empty}\nspec: {nodes: []}")
	p := &historyWriter{t: t, rig: rig}
	ids := map[string]model.NodeID{}
	for _, name := range []string{"web01", "web02", "web03", "old01"} {
		ids[name], _ = rig.Directory.NodeByName("default", name)
		p.change(ids[name], name, "http", 0, model.OK, model.OK, "HTTP OK")
		rig.Result("default", name, "http", model.OK, "HTTP OK")
	}
	rig.Advance(10 * time.Hour)
	// web01 is down from 2 h to 4 h, web02 from 3 h to 4 h; old01 from 5 h on, and deleted at 10 h.
	for _, one := range []struct {
		node    string
		at      time.Duration
		is, was model.Status
	}{{"web01", 2, model.Critical, model.OK}, {"web02", 3, model.Critical, model.OK}, {"web01", 4, model.Warning, model.Critical}, {"web02", 4, model.OK, model.Critical}, {"old01", 5, model.Critical, model.OK}} {
		p.change(ids[one.node], one.node, "http", (one.at-10)*time.Hour, one.is, one.was, fmt.Sprint("HTTP ", one.is))
		rig.Result("default", one.node, "http", one.is, fmt.Sprint("HTTP ", one.is))
	}
	x.run("", "event delete old01/http")
	x.run("", "delete node old01 --yes")
	catchUp(t, rig)
	rig.Advance(time.Hour)
	x.run("", "report availability --by group --since 10h --until 1h")
	x.run("", "report availability --by group --group web --check http --since 8h --until 7h -o yaml")
	x.run("", "report availability --by group --since 30d -l env=prod")
	x.run("", "report availability --since 11h")
	x.run("", "report availability old01 --since 11h --by node -o yaml")
	x.run("", "report availability --since 11h -l env=prod --by node")
	x.run("", "report availability --since 11h -l env=test")
	x.run("", "get events --at 2h")
	x.run("", "get events --at 7h --node old01")
	x.run("", "get events --at 30m --node old01")
	x.run("", "get events --at 2h --node nobody")
	rig.Nodes("default", nil, numbered("gone%03d", 120)...)
	var words []string
	for i, name := range numbered("gone%03d", 120) {
		id, _ := rig.Directory.NodeByName("default", name)
		p.change(id, name, "http", time.Duration(i)*time.Millisecond, model.Unknown, model.Unknown, "HTTP UNKNOWN")
		words = append(words, name)
	}
	rig.Advance(time.Hour)
	x.run("", "delete node "+strings.Join(words, " ")+" --yes")
	catchUp(t, rig)
	x.text.Truncate(strings.Index(x.text.String(), "$ muster delete node gone"))
	rig.Advance(time.Hour)
	out, _ := x.run("", "get events --at 90m --limit 0 --status unknown")
	if n := strings.Count(out, "(gone)"); n != 120 {
		t.Errorf("%d of 120 nodes that are gone are told of", n)
	}
	x.text.Truncate(strings.Index(x.text.String(), "$ muster get events --at 90m"))
	x.golden("group_availability.golden")
}

// catchUp makes the planner read all changes.
func catchUp(t *testing.T, rig *apitest.Rig) {
	t.Helper()
	if err := rig.Planner.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
}
