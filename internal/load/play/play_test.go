package play

import (
	"crypto/tls"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load/clock"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// sec returns a duration of n seconds.
func sec(n int) model.Duration { return model.Duration(time.Duration(n) * time.Second) }

// optionsOf returns the options of a fleet that is not connected.
func optionsOf(sc *scenario.Scenario) Options {
	return Options{Server: "127.0.0.1:1", Scenario: sc, Members: simulated.Members(sc), Senders: 2, Sources: 1, Parallel: 512, Spool: 1 << 20, Log: slog.New(slog.DiscardHandler),
		API: &client.Client{}, TLS: func(uuid.UUID) (*tls.Config, error) { return &tls.Config{}, nil }}
}

// fleetOf returns a fleet of a scenario that is not connected.
func fleetOf(t testing.TB, sc *scenario.Scenario) *Fleet { return fleetWith(t, optionsOf(sc)) }

// fleetWith returns a fleet with these options.
func fleetWith(t testing.TB, o Options) *Fleet {
	t.Helper()
	f, err := NewFleet(clock.New(), o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// digestOf returns the digest of a scenario's plan.
func digestOf(t testing.TB, sc *scenario.Scenario) string {
	t.Helper()
	digest, err := fleetOf(t, sc).PlanDigest()
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// towns returns a scenario of two classes with checks of two intervals.
func towns(phases ...scenario.Phase) *scenario.Scenario {
	return &scenario.Scenario{Name: "towns", Seed: 5, Phases: phases, Agents: []scenario.Class{
		{Name: "web", Count: 20, Linger: sec(1), Checks: []scenario.Check{
			{Name: "disk", Interval: sec(2), Output: scenario.Output{Like: "disk"}, Status: map[string]float64{"WARNING": 0.2}, Changes: 0.05},
			{Name: "port", Count: 3, Interval: sec(1)}}},
		{Name: "db", Count: 10, PerFrame: 2, Checks: []scenario.Check{{Name: "disk", Interval: sec(1), Flapping: 0.3}}},
	}}
}

// silent is a session that accepts frames and never answers.
type silent struct{}

func (silent) Read() error                                    { return nil }
func (silent) Stats(*wire.Stats) error                        { return nil }
func (silent) SendFacts(*wire.Facts) error                    { return nil }
func (silent) Sent() uint64                                   { return 0 }
func (silent) SendFrame(wire.StreamKey, uint64, []byte) error { return nil }
func (silent) MaxBatch() int                                  { return wire.MaxFrame }
func (silent) Tick(time.Time)                                 {}
func (silent) Bye(string)                                     {}
func (silent) Close()                                         {}
