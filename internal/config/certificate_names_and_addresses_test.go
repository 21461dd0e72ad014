package config

import (
	"net"
	"slices"
	"testing"
)

// TestCertificateNames expects the server's certificate to contain the host names in --advertise and --agent-servers,
// without ports and brackets
func TestCertificateNames(t *testing.T) {
	cfg := &Server{
		Advertise:    []string{"muster.example.org", "10.0.0.7:9443", "[fd00::7]:8443", "[fd00::8]"},
		AgentServers: []string{"agents.example.org:443", "[fd00::7]:8443"},
	}
	want := []string{"localhost", "127.0.0.1", "::1", "agents.example.org", "fd00::7", "muster.example.org", "10.0.0.7", "fd00::8"}
	if got := cfg.CertificateNames(t.Context()); !slices.Equal(got, want) {
		t.Errorf("names %q, want %q", got, want)
	}
}

// TestSortForAgents expects a join token to list well reachable addresses first. Other machines can probably reach
// these addresses.
func TestSortForAgents(t *testing.T) {
	names := []string{"localhost", "127.0.0.1", "::1", "tower", "tower.example.org", "172.17.0.1", "fd00::2", "192.0.2.2", "2001:db8::2", "10.0.0.2"}
	inside := map[string]bool{"172.17.0.1": true}
	for _, c := range []struct {
		bound string
		want  []string
	}{
		{"::", []string{"tower.example.org", "192.0.2.2", "10.0.0.2", "2001:db8::2", "fd00::2", "tower", "172.17.0.1", "127.0.0.1"}},
		{"0.0.0.0", []string{"tower.example.org", "192.0.2.2", "10.0.0.2", "tower", "172.17.0.1", "127.0.0.1"}},
		{"10.0.0.2", []string{"10.0.0.2"}},
		{"127.0.0.1", []string{"127.0.0.1"}},
	} {
		if got := sortForAgents(net.ParseIP(c.bound), names, inside); !slices.Equal(got, c.want) {
			t.Errorf("listening on %s: %q, want %q", c.bound, got, c.want)
		}
	}
}
