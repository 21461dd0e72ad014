package app

import (
	"slices"
	"testing"

	"github.com/muster-fleet/muster/internal/config"
)

// What may stand in --advertise and --agent-servers with a port, or in brackets, stands in
// the certificate without.
func TestNamesOfTheCertificate(t *testing.T) {
	s := &Server{}
	s.cfg = &config.Server{
		Advertise:    []string{"muster.example.org", "10.0.0.7:9443", "[fd00::7]:8443", "[fd00::8]"},
		AgentServers: []string{"agents.example.org:443", "[fd00::7]:8443"},
	}
	want := []string{"localhost", "127.0.0.1", "::1", "agents.example.org", "fd00::7", "muster.example.org", "10.0.0.7", "fd00::8"}
	if got := s.advertised(t.Context()); !slices.Equal(got, want) {
		t.Errorf("names %q, want %q", got, want)
	}
}
