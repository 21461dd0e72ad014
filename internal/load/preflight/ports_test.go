package preflight

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/scenario"
)

// TestPorts expects enough local ports by address: many addresses on loopback, one to another machine, and all ports
// again for another listener.
func TestPorts(t *testing.T) {
	fleet := func(target string) *scenario.Scenario {
		return &scenario.Scenario{Target: target, Agents: []scenario.Class{{Name: "all", Count: 60_000}}}
	}
	for name, c := range map[string]struct {
		run  Run
		want string // empty: there are enough
	}{
		"loopback, enough":        {Run{Servers: "127.0.0.1:8443", Sources: 3, Scenario: fleet("")}, ""},
		"loopback, one address":   {Run{Servers: "127.0.0.1:8443", Sources: 1, Scenario: fleet("")}, "60000 connections from each of 1 source addresses, the range 32768-60999 has 28231. Use more addresses: --sources 3"},
		"elsewhere":               {Run{Servers: "muster.example.org:8443", Sources: 3, Scenario: fleet("")}, "60000 connections from one address to muster.example.org:8443, the range 32768-60999 has 28231. Widen it: sysctl"},
		"elsewhere, with TLS":     {Run{Servers: "192.0.2.1:8443", Sources: 3, Scenario: fleet("")}, "--loaders 3; or play it smaller: --scale 0.45"},
		"a third of it":           {Run{Servers: "192.0.2.1:8443", Loaders: 3, Here: 1, Scenario: fleet("")}, ""},
		"three loaders here":      {Run{Servers: "192.0.2.1:8443", Loaders: 3, Here: 3, Scenario: fleet("")}, "60000 connections from one address"},
		"backends of Sensu":       {Run{Servers: "192.0.2.1:8081,192.0.2.2:8081,192.0.2.3:8081", Scenario: fleet("sensu")}, ""},
		"one backend of Sensu":    {Run{Servers: "192.0.2.1:8081", Scenario: fleet("sensu")}, "Widen it: sysctl -w net.ipv4.ip_local_port_range='1024 65000'; or play it smaller"},
		"nobody knows where to":   {Run{Scenario: fleet("")}, ""},
		"Sensu on this machine":   {Run{Servers: "127.0.0.1:8081", Sources: 3, Scenario: fleet("sensu")}, ""},
		"a stage, no connections": {Run{Servers: "127.0.0.1:1", Scenario: &scenario.Scenario{}}, ""},
	} {
		got := c.run.ports(32768, 60999)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if c.run.Scenario.Target == "sensu" && (strings.Contains(got, "--sources") || strings.Contains(got, "--loaders")) {
			t.Errorf("%s: flags that a run against Sensu has not: %s", name, got)
		}
	}
}
