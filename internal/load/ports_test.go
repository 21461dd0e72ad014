package load

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/scenario"
)

// Ports are of an address: on loopback there are many, to another machine there is one, and
// another listener has all of them again.
func TestPorts(t *testing.T) {
	fleet := func(target string) *scenario.Scenario {
		return &scenario.Scenario{Target: target, Agents: []scenario.Class{{Name: "all", Count: 60_000}}}
	}
	for name, c := range map[string]struct {
		cfg  Config
		want string // empty: there are enough
	}{
		"loopback, enough":        {Config{Server: "127.0.0.1:8443", Sources: 3, Scenario: fleet("")}, ""},
		"loopback, one address":   {Config{Server: "127.0.0.1:8443", Sources: 1, Scenario: fleet("")}, "60000 connections from each of 1 source addresses, the range 32768-60999 has 28231. Use more addresses: --sources 3"},
		"elsewhere":               {Config{Server: "muster.example.org:8443", Sources: 3, Scenario: fleet("")}, "60000 connections from one address to muster.example.org:8443, the range 32768-60999 has 28231. Widen it: sysctl"},
		"elsewhere, with TLS":     {Config{ServerTLS: "192.0.2.1:8443", Sources: 3, Scenario: fleet("")}, "--loaders 3; or play it smaller: --scale 0.45"},
		"a third of it":           {Config{Server: "192.0.2.1:8443", Part: Part{Number: 1, Of: 3, Here: 1}, Scenario: fleet("")}, ""},
		"three loaders here":      {Config{Server: "192.0.2.1:8443", Part: Part{Number: 1, Of: 3, Here: 3}, Scenario: fleet("")}, "60000 connections from one address"},
		"backends of Sensu":       {Config{Server: "192.0.2.1:8081,192.0.2.2:8081,192.0.2.3:8081", Scenario: fleet("sensu")}, ""},
		"one backend of Sensu":    {Config{Server: "192.0.2.1:8081", Scenario: fleet("sensu")}, "Widen it: sysctl -w net.ipv4.ip_local_port_range='1024 65000'; or play it smaller"},
		"nobody knows where to":   {Config{Scenario: fleet("")}, ""},
		"Sensu on this machine":   {Config{Server: "127.0.0.1:8081", Sources: 3, Scenario: fleet("sensu")}, ""},
		"a stage, no connections": {Config{Server: "127.0.0.1:1", Scenario: &scenario.Scenario{}}, ""},
	} {
		got := c.cfg.ports(demandOf(c.cfg.Scenario), 32768, 60999)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if c.cfg.Scenario.Target == "sensu" && (strings.Contains(got, "--sources") || strings.Contains(got, "--loaders")) {
			t.Errorf("%s: flags that a run against Sensu has not: %s", name, got)
		}
	}
}
