//go:build linux

package test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/load/subject"
	"github.com/muster-fleet/muster/test/harness"
)

// Checks fail, machines die, the server is killed in between: each alert that has to come
// comes once, by the whole way from the result to the webhook, and no other does.
const troubles = `
scenario: muster.load/v1
name: troubles
agents:
  - name: web
    count: 12
    checks: [{name: http, count: 2, interval: 1s}]
  - name: db
    count: 6
    checks: [{name: mysql, interval: 1s, status: {critical: 0.3}, changes: 0.3}]
  - name: edge
    count: 5
    keepalive: {interval: 2s, timeout: 3s}
    checks: [{name: ping, interval: 1s}]
phases:
  - ramp: 1s
  - steady: 17s
  - drain: 5s
faults:
  - {at: 6s, for: 8500ms, stop: {class: edge, count: 3}}
  - {at: 2s, for: 3s, fail: {class: web, check: http-001, count: 5}}
  - {at: 3s, for: 3s, fail: {class: db, check: mysql, share: 0.5, status: warning}}
  - {at: 12s, for: 3s, fail: {class: web, check: http-000, count: 4, status: unknown}}
  - {at: 13s, server: kill}
`

func TestFaultAlerts(t *testing.T) {
	if testing.Short() {
		t.Skip("short: half a minute of faults")
	}
	t.Parallel()
	sc, err := scenario.Parse("troubles.yaml", []byte(troubles))
	if err != nil {
		t.Fatal(err)
	}
	s, err := subject.Start(t.Context(), subject.Options{Binary: harness.Binary(), Dir: t.TempDir(), Flags: []string{"--journal-reserve", "1MiB"},
		Prepare: func(ctx context.Context, service *intent.Service) error {
			return simulated.PrepareScenario(ctx, service, sc)
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	rep, err := load.Run(t.Context(), load.Config{Server: s.Plain, Scenario: sc, Control: s, API: s.API, AdminURL: s.Admin,
		Before: load.HTTPView(s.Admin + "/debug/states"), MaxLag: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range rep.Faults {
		if f.Missing+f.Extra > 0 {
			logServerState(t, s.API, f.Example)
		}
	}
	if !rep.OK() || len(rep.Faults) != 5 {
		t.Fatalf("%s", strings.Join(rep.Verdict, "\n"))
	}
	for i, f := range rep.Faults {
		t.Logf("%+v", f)
		if want := []int{6, 10, f.Alerts, 8, 0}[i]; f.Alerts != want || f.Missing+f.Extra > 0 || i != 2 && want > 0 && (f.Detected.Max <= 0 || f.Cleared.Max <= 0) {
			t.Errorf("%+v, want %d alerts", f, want)
		}
	}
}

// logServerState logs what history and outbox know of the state that an example names
// (NODE/CHECK: …), which says where an alert was lost: a problem without any message was lost on its way
// to the outbox, and a message that is pending came later than the run waited.
func logServerState(t *testing.T, api *client.Client, example string) {
	t.Helper()
	name, _, _ := strings.Cut(example, ": ")
	node, check, _ := strings.Cut(name, "/")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
	defer cancel()
	t.Logf("what the server has of %s (%s), at %s:", name, example, time.Now().UTC().Format(clock))
	entries, err := api.Events.History(ctx, simulated.Namespace, node, check, 50)
	if err != nil {
		t.Logf("  history: %v", err)
	}
	for _, e := range entries.Items {
		t.Logf("  %s %s %s", e.At.UTC().Format(clock), e.Kind, e.StatusName)
	}
	problems, err := api.Problems.List(ctx, simulated.Namespace, node, check, false, 50, "")
	if err != nil {
		t.Logf("  problems: %v", err)
	}
	for _, p := range problems.Items {
		t.Logf("  problem %s opened %s, closed %s", p.ID, p.Opened.UTC().Format(clock), p.Closed.UTC().Format(clock))
		told, err := api.Problems.Deliveries(ctx, p.ID)
		if err != nil {
			t.Logf("    messages: %v", err)
		}
		for _, d := range told.Items {
			t.Logf("    %s to %s: %s after %d attempts, made %s, next %s, ended %s %s", d.Kind, d.Handler, d.State, d.Attempts,
				d.Created.UTC().Format(clock), d.NextAt.UTC().Format(clock), d.Ended.UTC().Format(clock), d.LastError)
		}
	}
}

// clock is how times of a run are written in its log.
const clock = "15:04:05.000"
