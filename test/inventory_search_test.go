//go:build linux

package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// TestInventoryIsListedAndSearched expects commands to list, search and explain an agent's inventory after
// changes. The inventory survives kill -9 of server and agent.
func TestInventoryIsListedAndSearched(t *testing.T) {
	t.Parallel()
	scripts := t.TempDir()
	setRack := func(rack string) {
		t.Helper()
		testenv.NoError(t, os.WriteFile(filepath.Join(scripts, "site"), []byte("#!/bin/sh\necho '{\"rack\": \""+rack+"\", \"owner\": {\"team\": \"web\"}}'\n"), 0o755))
	}
	setRack("b7")
	s := harness.NewServer(t)
	s.Start()
	s.Login()
	a := s.NewAgent("web01", "--inventory-dir", scripts)
	a.Environ = []string{"DB_PASSWORD=hunter2"}
	a.Start()
	s.AwaitOutput("get inventory web01 custom", "rack", "b7", `{"team": "web"}`)
	if list := s.CLI("get", "inventory", "web01", "--limit", "0"); strings.Contains(list, "hunter2") || !strings.Contains(list, "DB_PASSWORD") {
		t.Errorf("the environment shows a password, or lacks its variable:\n%s", list)
	}
	if text := s.CLI("describe", "node", "web01"); !strings.Contains(text, "2 custom; changed") {
		t.Errorf("describe node has no summary:\n%s", text)
	}
	find := func(where string, want bool) {
		t.Helper()
		if list := s.CLI("get", "nodes", "--where", where); strings.Contains(list, "web01") != want {
			t.Errorf("%s: found %v\n%s", where, !want, list)
		}
	}
	find(`inventory.custom.exists(c, c.name == "rack" && c.value == "b7")`, true)
	find(`inventory.custom.exists(c, c.name == "rack" && c.value == "b8")`, false)
	find(`inventory.users.exists(u, u.name == "root" && u.uid == "0") && node.name == "web01"`, true)
	if version, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", "dpkg").Output(); err == nil {
		find(`inventory.packages.exists(p, p.name == "dpkg" && older(p, "`+string(version)+`+1"))`, true)
		find(`inventory.packages.exists(p, p.name == "dpkg" && older(p, "`+string(version)+`"))`, false)
	}
	for _, rack := range []string{"b7", "b8"} {
		s.Apply(`{apiVersion: muster/v1, kind: Group, metadata: {name: rack-` + rack + `}, spec: {where: 'inventory.custom.exists(c, c.name == "rack" && c.value == "` + rack + `")'}}`)
	}
	s.AwaitOutput("get nodes --group rack-b7", "web01")
	s.Try("apply", "-f", writeFileInFolder(t, t.TempDir(), "trusted.yaml", `{apiVersion: muster/v1, kind: Group, metadata: {name: bad}, spec: {trusted: true, where: 'inventory.users.exists(u, u.name == "ann")'}}`)).
		Expect(harness.AnyFailure, "a trusted group cannot read inventories")
	s.Kill()
	s.Start() // replays the journal
	if list := s.CLI("get", "nodes", "--group", "rack-b7"); !strings.Contains(list, "web01") {
		t.Errorf("the group has lost its node:\n%s", list)
	}
	s.Kill()
	setRack("b8")
	a.Kill()
	s.Start()
	a.Start()
	s.AwaitOutput("get inventory web01 custom", "b8")
	s.AwaitOutput("get inventory web01 custom --since 1h", "rack", "value b7 → b8")
	harness.Run(t, s.Env(), "get", "inventory", "web01", "--since", "1h", "--where", `row.after.fields.value == "b8"`).Expect(0, "value b7 → b8")
	if list := s.CLI("get", "inventory", "web01", "packages", "--where", `row.name == "dpkg" && row.fields.manager == "deb"`); strings.Count(list, "\n") != 2 {
		t.Errorf("the condition selects one package, got\n%s", list)
	}
	harness.Run(t, s.Env(), "get", "inventory", "web01", "--where", `row.name == "none"`).Expect(0, "no entries match")
	harness.Run(t, s.Env(), "get", "inventory", "web01", "-l", "name=dpkg").Expect(2, "entries of an inventory have no labels")
	s.AwaitOutput("get nodes --group rack-b8", "web01")
	if list := s.CLI("get", "nodes", "--group", "rack-b7"); strings.Contains(list, "web01") {
		t.Errorf("the node is in the group of its old rack:\n%s", list)
	}
	setRack("b9")
	s.CLI("node", "inventory", "web01")
	s.AwaitOutput("get inventory web01 custom --since 1h", "value b8 → b9")
	if shown := s.CLI("get", "inventory", "web01", "custom", "-o", "json"); strings.Contains(shown, `"stale"`) {
		t.Errorf("the inventory is stale:\n%s", shown)
	}
}
