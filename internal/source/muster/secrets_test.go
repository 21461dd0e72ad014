package muster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// An agent is given what a check of its own assignment names, and nothing else; and nothing at all
// where its session does not prove who it is.
func TestSecretsOfTheAssignmentOnly(t *testing.T) {
	asked := make(chan string, 8)
	w := newWorld(t, func(c *Config) {
		c.Secret = func(_ context.Context, namespace, name string) (core.SecretValue, error) {
			asked <- namespace + "/" + name
			if name == "broken" {
				return core.SecretValue{}, errors.New("Vault is sealed")
			}
			return core.SecretValue{Text: "the value of " + name, Lease: time.Minute}, nil
		}
	})
	uid := w.node(1, 1)
	w.node(2, 2)
	w.plan.secrets(1001, model.ChunkSecret{Env: "A", Name: "default/a"}, model.ChunkSecret{Env: "B", Name: "shared/broken"}, model.ChunkSecret{Env: "C", Name: "default/own", AgentFile: "x"})
	w.plan.secrets(1002, model.ChunkSecret{Env: "A", Name: "default/others"})
	a := w.agent(uid)
	if a.welcome.Features != 0 {
		t.Errorf("a session without TLS is promised secrets: %b", a.welcome.Features)
	}
	names := []string{"default/a", "default/others", "shared/broken", "default/own"}
	ask := func() {
		if err := a.Exchange(&wire.Exchange{ID: 9, SecretsRequest: &wire.SecretsRequest{Names: names}}); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	testenv.Until(t, "it is refused", func() bool { return testutil.ToFloat64(w.server.metrics.frames[unrequested]) == 1 })
	w.server.registry.Get(1001).proven.Store(true)
	ask()
	a.wait("the answer", func() bool { return len(a.given) == len(names) })
	for i, want := range []wire.SecretValue{
		{Name: "default/a", Value: []byte("the value of a"), LeaseMs: 60000},
		{Name: "default/others", Error: "the node's assignment does not name it"},
		{Name: "shared/broken", Error: "Vault is sealed"},
		{Name: "default/own", Error: "the node's assignment does not name it"}, // its value is on the node
	} {
		if got := a.given[i]; got.Name != want.Name || string(got.Value) != string(want.Value) || got.Error != want.Error || got.LeaseMs != want.LeaseMs {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	close(asked)
	for name := range asked {
		if name != "default/a" && name != "shared/broken" {
			t.Errorf("%s was looked for", name)
		}
	}
	for outcome, want := range map[string]float64{"given": 1, "refused": 2, "failed": 1} {
		if n := testutil.ToFloat64(w.server.metrics.secrets.WithLabelValues(outcome)); n != want {
			t.Errorf("%v %s, want %v", n, outcome, want)
		}
	}
}
