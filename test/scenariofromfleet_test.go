//go:build linux

package test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/load/subject"
	"github.com/muster-fleet/muster/test/harness"
)

// An installation of some hundred nodes becomes a scenario, read by somebody who may only
// look; that is a file which is played, and which names nothing of the installation.
func TestScenarioFromFleet(t *testing.T) {
	t.Parallel()
	const text = `scenario: muster.load/v1
seed: 5
agents:
  - {name: storefront, count: 150, groups: [penguins], tls: true, keepalive: {interval: 5s, timeout: 30s}, checks: [{name: checkout, count: 3, interval: 2s, status: {critical: 0.5}, output: {bytes: 400}}, {name: nightly, interval: 3s, ttl: 60s}]}
  - {name: ledger, count: 60, groups: [penguins], checks: [{name: replication, count: 5, interval: 2s}]}
checks:
  - {name: filling, count: 2, groups: [penguins], interval: 2s}
  - {name: clock, groups: [all], interval: 4s}
phases: [{ramp: 2s}, {steady: 1h}, {drain: 5s}]
`
	sc, err := scenario.Parse("live.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	sc.Defaults()
	s := harness.NewServer(t)
	if err := os.MkdirAll(s.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := subject.PrepareFolder(t.Context(), filepath.Join(s.Data, "intent.db"), func(ctx context.Context, service *intent.Service) error {
		return simulated.PrepareScenario(ctx, service, sc)
	}); err != nil {
		t.Fatal(err)
	}
	s.Start()
	api := s.Client()
	certificates, err := simulated.Certificates(s.Authority())
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	played := make(chan error, 1)
	go func() {
		_, err := load.Run(ctx, load.Config{Scenario: sc, Server: s.Plain, ServerTLS: s.Listen, TLS: certificates, MaxLag: time.Hour})
		played <- err
	}()
	defer func() {
		end()
		<-played
	}()
	harness.Until(t, 30*time.Second, "results of all states", func() (string, bool) {
		n := len(s.FleetStates())
		return fmt.Sprintf("%d states", n), n == sc.States()
	})
	viewer, err := api.Access.CreateToken(t.Context(), v1.TokenRequest{Role: access.Viewer})
	if err != nil {
		t.Fatal(err)
	}
	env := append(s.Env(), "MUSTER_TOKEN="+viewer.Secret)
	file := filepath.Join(t.TempDir(), "mine.yaml")
	if ran := harness.Run(t, env, "load", "from-fleet"); ran.Code == 0 || !strings.Contains(ran.Errors, "no nodes in namespace default") || !strings.Contains(ran.Errors, "(210)") {
		t.Errorf("of the wrong namespace: code %d\n%s", ran.Code, ran.Errors)
	}
	ran := harness.Run(t, env, "load", "from-fleet", "-n", simulated.Namespace, "-o", file, "--key", "k")
	if ran.Code != 0 {
		t.Fatalf("code %d\n%s", ran.Code, ran.Errors)
	}
	mine, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"storefront", "checkout", "nightly", "ledger", "replication", "penguins", "filling", "clock", s.Listen, "127.0.0.1", "rack", "00007"} {
		if strings.Contains(string(mine), name) {
			t.Errorf("%q of the installation is in the file", name)
		}
	}
	got, err := scenario.Parse(file, mine)
	if err != nil || len(got.Agents) != 2 || got.Agents[0].Count != 60 && got.Agents[1].Count != 60 || got.Rate() != sc.Rate() || got.States() != sc.States() {
		t.Fatalf("%v\n%s", err, mine)
	}
	for _, c := range got.Agents {
		if len(c.Groups) != 2 || !strings.HasPrefix(c.Groups[1], "group-") { // the group of its class there, and the one that both are in
			t.Errorf("groups %v", c.Groups)
		}
		switch c.Count {
		case 150:
			if k := c.Checks; !c.TLS || c.Keepalive.Interval.String() != "5s" || len(k) != 2 || k[0].Count != 3 || k[0].Output.Bytes != 400 ||
				k[0].Status["critical"] < 0.3 || k[0].Status["critical"] > 0.7 || k[1].TTL.String() != "1m" {
				t.Errorf("%+v\n%s", c, mine)
			}
		case 60:
			if k := c.Checks; c.TLS || len(k) != 1 || k[0].Count != 5 {
				t.Errorf("%+v\n%s", c, mine)
			}
		}
	}
	_, in := got.Shared()
	if k := got.Checks; len(k) != 2 || k[0].Count != 2 || len(k[0].Groups) != 1 || len(in[k[0].Groups[0]]) != 2 || k[1].Interval.String() != "4s" || len(k[1].Groups) != 1 || k[1].Groups[0] != scenario.AllGroup {
		t.Errorf("checks of both classes: %+v\n%s", k, mine)
	}
	if ran := harness.Run(t, nil, "load", "lint", file); ran.Code != 0 || !strings.Contains(ran.Out, "210 agents") {
		t.Errorf("lint: code %d\n%s%s", ran.Code, ran.Out, ran.Errors)
	}
	end()
	out := filepath.Join(t.TempDir(), "out")
	if ran := harness.Run(t, nil, "load", "size", "-f", file, "--factors", "0.1", "--seconds", "1", "--max-lag", "1h", "--out", out); ran.Code != 0 || !strings.Contains(ran.Out, "0.1× (21 agents, ") {
		t.Fatalf("play it: code %d\n%s%s", ran.Code, ran.Out, ran.Errors)
	}
	rep, err := report.Read(filepath.Join(out, "0.1x", "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	if b := rep.Balance; !b.OK() || b.Sent < 21 || b.Sent != b.Acknowledged {
		t.Errorf("ledger %+v", b)
	}
}
