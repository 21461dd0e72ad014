package cli_test

import (
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// TestGetAgents lists agents in every state, the oldest version first.
func TestGetAgents(t *testing.T) {
	rig, x := openTerminal(t)
	x.run("", "get agents")
	rig.Joined("db01", map[string]string{"agentVersion": "0.9.1", "os": "linux"})
	rig.Joined("web01", nil)
	rig.Joined("web02", nil)
	rig.Joined("web03", map[string]string{"agentVersion": "0.10.0"})
	rig.Mark("web03", true, false)
	rig.Mark("web03", false, false)
	rig.Joined("web04", map[string]string{"agentVersion": "0.10.0"})
	rig.Mark("web04", true, false)
	rig.Mark("web04", false, true)
	rig.Advance(3 * time.Hour)
	since := rig.Now().Add(-50 * time.Hour)
	rig.Session("db01", &v1.AgentSession{
		Version: "0.9.1", Since: since, Address: "192.0.2.7:4711", ClockOffsetMs: -4200, CertificateExpires: rig.Now().Add(40 * 24 * time.Hour),
		Refuses: []string{"commands"},
		Stats: &v1.AgentStats{
			At: rig.Now(), UptimeSeconds: 90_000, Spooled: 412, OldestSeconds: 600, Runs: 15_000, Forks: 12_000, ForksPerMinute: 8.04, Skipped: 3, Late: 12,
			BytesSent: 6 << 20, BytesPerDay: 5_200_000, ResidentBytes: 17 << 20,
		},
	})
	rig.Session("web01", &v1.AgentSession{Version: "0.10.0", Since: since, Address: "[2001:db8::7]:4711", Stats: &v1.AgentStats{ForksPerMinute: 31.6, BytesPerDay: 900}})
	rig.Session("web02", &v1.AgentSession{Version: "0.10.0", Since: rig.Now().Add(-2 * time.Second), Address: "192.0.2.9:4711", ClockOffsetMs: 3_600_000})
	x.wide = 80
	x.run("", "get agents")
	x.run("", "get agents -o wide")
	x.run("", "get agents --version 0.10")
	x.run("", "get agents --spooling")
	x.run("", "get agents --disconnected -A --limit 1")
	x.run("", "get agents --version 7")
	x.run("", "get agents --where node.name.endsWith(\"3\")||row.version==\"0.9.1\"")
	x.run("", "get queues -l env=prod")
	x.run("", "get problems -l env=prod --where row.severity>=4")
	x.run("", "get history --where row.nothing==")
	x.run("", "edit history web01")
	x.run("", "explain queue")
	x.run("", "explain events")
	x.run("", "get history --group web")
	x.run("", "get problems --status critical,unknown")
	x.run("", "get checks -w")
	x.run("", "get agent --open")
	x.run("", "auth user list --where row.role==\"viewer\"")
	x.run("", "node token list -l env=prod")
	x.run("", "silence list --where spec.creator==\"ann\"")
	x.run("", "get agents -n shared")
	x.run("", "get agent web02")
	x.run("", "get agent db01 -o yaml")
	x.run("", "get agent web09")
	x.run("", "describe node db01")
	x.run("", "describe agent db01")
	x.golden("agents.golden")
}

// TestOtherNamespaces names other namespaces below a list, unless somebody chose a namespace.
func TestOtherNamespaces(t *testing.T) {
	rig, x := openTerminal(t)
	rig.Apply(disk)
	rig.Apply("kind: Namespace\nmetadata: {name: demo}\nspec: {}\n---\nkind: Check\nmetadata: {name: ssh, namespace: demo}\nspec: {targets: {where: 'true'}, interval: 60s, command: x}\n")
	rig.Nodes("default", nil, "web01")
	rig.Nodes("demo", nil, "d1", "d2")
	rig.Result("demo", "d1", "ssh", model.OK, "fine")
	rig.Result("demo", "d2", "ssh", model.Critical, "refused")
	if out, _ := x.run("", "get events"); !strings.HasPrefix(out, "no events in namespace default yet. ") || !strings.Contains(out, "in other namespaces: demo 2 events (1 not OK).") {
		t.Errorf("with nothing here: %s", out)
	}
	rig.Result("default", "web01", "disk", model.OK, "fine")
	for _, c := range []struct{ line, want, not string }{
		{"get events", "in other namespaces: demo 2 events (1 not OK). All: -A. One: -n demo\n", ""},
		{"get events -n default", "", "other"}, {"get events -A", "", "other"}, {"get events --node web01", "", "other"}, {"get events -o json", `"others": [`, "-A"},
		{"get nodes", "2 nodes in other namespaces: -A shows all\n", ""}, {"get nodes -n default", "", "other"}, {"get nodes -A", "", "other"},
		{"status", "           demo 2 events (1 not OK), default 1 event; only one: -n demo\n", ""}, {"status -n demo", "", "default 1"},
	} {
		if out, code := x.run("", c.line); code != 0 || !strings.Contains(out, c.want) || c.not != "" && strings.Contains(out, c.not) {
			t.Errorf("%s: code %d, want %q and not %q in\n%s", c.line, code, c.want, c.not, out)
		}
	}
}
