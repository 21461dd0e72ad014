package sensuctl

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// What covers or changes most of a fleet is refused, and the answer names the command of Muster that does it:
// sensuctl has no --yes.
func TestGuardedRequestsNameCommand(t *testing.T) {
	w := newWorld(t)
	names := make([]string, 60)
	for i := range names {
		names[i] = fmt.Sprintf("web%02d", i)
	}
	w.Nodes("default", map[string]string{"os": "linux"}, names...)
	w.Apply("apiVersion: muster/v1\nkind: Group\nmetadata: {name: linux}\nspec: {where: 'node.labels.os == \"linux\"'}\n---\n" +
		"apiVersion: muster/v1\nkind: Check\nmetadata: {name: disk}\nspec: {command: \"true\", interval: 1m, targets: {groups: [linux]}}\n")
	refused := func(method, path, body, command string) {
		t.Helper()
		text := w.expect(http.StatusPreconditionRequired, method, path, body)
		if !strings.Contains(text, "sensuctl has no --yes; look at it, then type: "+command+")") {
			t.Errorf("%s %s: %s", method, path, text)
		}
		for _, flag := range []string{"--dry-run", "--max-affected"} {
			if strings.Contains(text, flag) {
				t.Errorf("%s %s speaks of %s: %s", method, path, flag, text)
			}
		}
	}
	silence := `{"metadata":{"namespace":"default"},"subscription":"linux","check":"disk","expire":3600,"reason":"the site's down"}`
	command := `muster silence --group linux --check disk --until 2026-11-20T13:00:00Z -m 'the site'\\''s down' --yes`
	refused("POST", core+"/silenced", silence, command)
	refused("PUT", core+"/silenced/linux:disk", silence, command)
	refused("POST", core+"/silenced", `{"metadata":{"namespace":"default"},"subscription":"linux","expire":-1,"expire_on_resolve":true,"reason":"x"}`,
		"muster silence --group linux --until-resolved -m x --yes")
	refused("PUT", core+"/checks/load", `{"metadata":{"name":"load"},"command":"true","interval":60,"publish":true,"subscriptions":["linux"]}`, applyCommand)
	refused("DELETE", core+"/checks/disk", "", "muster delete check disk --yes")
	w.expect(201, "POST", core+"/silenced", `{"metadata":{"namespace":"default"},"subscription":"entity:web01","expire":60,"reason":"x"}`)
}

// The command says all that the silence does.
func TestSilenceCommand(t *testing.T) {
	w := newWorld(t)
	at := model.Time{Time: w.Now()}
	for want, s := range map[string]model.SilenceSpec{
		"muster silence web01 --check disk --forever -m x -n eu --yes": {Selector: model.Selector{Targets: &model.Targets{Nodes: []string{"web01"}}, Checks: []string{"disk"}}, Reason: "x"},
		"muster silence --all --from 2026-11-20T12:00:00Z --until 2026-11-20T12:00:00Z --until-resolved -m '$(x) `y`' -n eu --yes": {
			Begin: at, Until: at, UntilResolved: true, Reason: "$(x) `y`"},
		"muster silence --check disk --forever -m '-x' -n eu --yes": {Selector: model.Selector{Checks: []string{"disk"}}, Reason: "-x"},
	} {
		if got := silenceCommand("eu", &s); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
