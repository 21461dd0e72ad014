package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// TestDescribeNode describes a node with every origin of groups, labels and properties, at 80 columns.
func TestDescribeNode(t *testing.T) {
	rig, x := openTerminal(t)
	rig.Apply(`
kind: Group
metadata: {name: web}
spec: {properties: {proxy: {host: proxy.example.com, port: 3128}, disk_warn: 20%}}
---
kind: Group
metadata: {name: prod}
spec: {where: 'node.labels.env == "prod"', properties: {pool: large}}
---
kind: Group
metadata: {name: big}
spec: {where: int(node.facts.cpus) >= 8, properties: {pool: huge}}
---
kind: Group
metadata: {name: canary}
spec: {selfJoin: true}
---
kind: Group
metadata: {name: payment}
spec: {trusted: true, where: node.labels.role == "payment"}
---
kind: Group
metadata: {name: all-web}
spec: {groups: [web, canary]}
---
kind: Property
metadata: {name: proxy}
spec: {scope: global, value: {port: 8080, tls: true}}
---
kind: Property
metadata: {name: site}
spec: {value: fra}
---
kind: Check
metadata: {name: pool}
spec: {targets: {groups: [web]}, interval: 60s, command: 'check_pool {{ .props.pool }} {{ .props.proxy.host }}'}
`)
	rig.JoinedAs("web01", map[string]string{"env": "prod"}, model.NodeSpec{
		JoinGrant:   &model.JoinGrant{Token: "4f1cba9876543210", Groups: []string{"web"}, Labels: map[string]string{"env": "test", "cell": "c7"}, Lifecycle: &model.Lifecycle{Ephemeral: true}},
		AgentGroups: []string{"canary", "nowhere", "payment", "web"},
		AgentLabels: map[string]string{"env": "staging", "role": "payment", "rack": "r7"},
		Properties:  map[string]json.RawMessage{"disk_warn": []byte(`"10%"`)},
		Facts: map[string]string{
			"hostname": "web01", "fqdn": "web01.example.com", "os": "linux", "arch": "arm64", "distribution": "debian", "distributionVersion": "12",
			"distributionName": "Debian GNU/Linux 12 (bookworm)", "kernel": "6.1.0-28-cloud-arm64", "cpus": "8", "memory": "16677531648",
			"addresses": "192.0.2.7,192.0.2.8,198.51.100.23,2001:db8::7,2001:db8:85a3::8a2e:370:7334", "virtualisation": "kvm", "cloud": "aws",
			"cloudInstance": "i-0abcd1234ef567890", "cloudRegion": "eu-central-1", "cloudZone": "eu-central-1b", "cloudType": "m7g.2xlarge",
			"agentVersion": "1.2.0", "rack": "unknown", "ofTomorrow": "yes",
		},
	})
	x.wide = 80
	out, _ := x.run("", "describe node web01")
	for line := range strings.Lines(out) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 && !strings.HasPrefix(line, "  ") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	x.golden("describe_node.golden")
}
