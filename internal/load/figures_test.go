package load

import (
	"crypto/tls"
	"testing"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestAgentsCountFromTheFirst expects that the memory of an agent includes its TLS configuration, which is made before
// it connects.
func TestAgentsCountFromTheFirst(t *testing.T) {
	const agents, each = 500, 64 << 10
	cfg := of(&scenario.Scenario{Name: "bytes", Seed: 1,
		Agents: []scenario.Class{{Name: "web", Count: agents, TLS: true, Checks: []scenario.Check{{Name: "a", Interval: model.Duration(5e9)}}}}})
	cfg.Server, cfg.Bare = "127.0.0.1:1", Resident()
	cfg.TLS = func(uuid.UUID) (*tls.Config, error) {
		large := make([]byte, each)
		for i := range large {
			large[i] = 1
		}
		return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{large}}}}, nil
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRun(cfg)
	if err != nil {
		t.Fatal(err)
	}
	rep := newReport(cfg)
	if err := rep.connected(t.Context(), r, r.usage()); err != nil {
		t.Fatal(err)
	}
	// Other tests of this process may have given something back meanwhile.
	if rep.AgentBytes < each/2 || rep.AgentBytes > 2*each && !testenv.Race {
		t.Errorf("an agent that holds %d bytes is said to take %.0f", each, rep.AgentBytes)
	}
	if rep.Goroutines <= 0 {
		t.Errorf("%f goroutines", rep.Goroutines)
	}
}
