//go:build linux

package test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/test/harness"
)

// Simulated people in a load run read pages and change checks, and the affected agents confirm each change.
func TestLoadPeople(t *testing.T) {
	t.Parallel()
	file := tempFile(t, "people.yaml", `scenario: muster.load/v1
seed: 3
agents:
  - {name: web, count: 30, checks: [{name: http, count: 2, interval: 2s, changes: 0.1}]}
  - {name: db, count: 10, tls: true, checks: [{name: io, interval: 1s, status: {critical: 0.5}}]}
phases: [{ramp: 500ms}, {steady: 9s, warmup: 1s}, {drain: 20s}]
intent:
  - {at: 500ms, every: 1s, create: 2, change: 1, delete: 1, kind: check, class: web}
  - {at: 1s, every: 2s, create: 1, change: 1, delete: 1, kind: check}
operators: {lists: 2, pages: 2/s, watches: 2, applies: 1/s} # so few that a slow machine answers them all
objectives: {holds-p99: 60s, list-p99: 60s, apply-p99: 60s, watch-p99: 60s}
`)
	ran, rep, _ := runLoad(t, file)
	ran.Expect(0)
	expectOperatorRequests(t, rep, 5, "list", "watch", "apply")
	shown := map[string]float64{} // by number of seconds
	for i := range rep.Samples {
		maps.Copy(shown, rep.Samples[i].Figures())
	}
	for _, figure := range []string{"p99", "beyond-p99", "list-p99", "apply-p99", "watch-p99", "holds-p99"} {
		assert(t, shown[figure] > 0, "no second shows %s: %v", figure, shown)
	}
	require(t, len(rep.Changes) == 2 && len(rep.Goals) == 4 && len(rep.Label) > 0 && strings.HasPrefix(rep.Label[0], "the generator was allowed to be 1h0m0s late"),
		"changes %+v, goals %+v, labels %v", rep.Changes, rep.Goals, rep.Label)
	for i, least := range []int{2 * 30, 40} { // on a slow machine fewer changes fit
		h := rep.Changes[i]
		assert(t, h.Agents >= least && h.Never == 0 && h.Holds.Max > 0 && h.Answered.Max > 0, "%s: %+v", h.What, h)
	}
}

// expectOperatorRequests fails the test unless the simulated operators of a load run made enough successful requests. It looks
// at each kind of request.
func expectOperatorRequests(t *testing.T, rep *report.Report, least uint64, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		i := slices.IndexFunc(rep.Operators, func(w report.Worked) bool { return w.What == kind })
		require(t, i >= 0, "no operator made a request of kind %s", kind)
		w := rep.Operators[i]
		assert(t, uint64(w.Requests) >= least && w.Failed == 0 && w.Latency.Max > 0, "%s: %+v", kind, w)
	}
}

// Each invalid load scenario is refused with its own exit code before anything starts.
func TestLoadRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "mine.yaml")
	writeFile(t, file, "scenario: muster.load/v1\nagents: [{name: web, count: 5, cheks: []}]\nphases: [{steady: 1m}]\n")
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"load size rudder-4500x355", model.Unsupported.Exit(), "runs of directives have no sizes"},
		{"load size glaber-400000-values", model.Unsupported.Exit(), "values of items and runs of directives have no sizes"},
		{"load run " + file, model.Invalid.Exit(), "mine.yaml:2:32: agents[0].cheks: unknown field; did you mean checks?"},
		{"load lint " + file, model.Invalid.Exit(), "mine.yaml:2:32: agents[0].cheks: unknown field; did you mean checks?"},
		{"load run sensu-4000x40x5", model.NotFound.Exit(), "did you mean sensu-4000x40x5s?"},
		{"load join mlj1.nonsense", 2, "paste the whole line"}, // before any connection
	} {
		harness.Run(t, append(os.Environ(), "TMPDIR="+dir), strings.Fields(c.args)...).Expect(c.code, c.says)
	}
}

// In a load run with more and more people, changes and alerts, each notification arrives once.
func TestLoadWithPeopleAndAlerts(t *testing.T) {
	t.Parallel()
	file := tempFile(t, "mixed.yaml", `scenario: muster.load/v1
seed: 3
agents:
  - {name: web, count: 20, checks: [{name: http, count: 2, interval: 1s, changes: 0.1, alert: route}, {name: disk, interval: 2s}]}
  - {name: db, count: 10, tls: true, checks: [{name: io, interval: 1s, status: {critical: 0.1}, changes: 0.1, alert: handler}]}
phases:
  - ramp: 500ms
  - {name: usual, steady: 3s}
  - {name: people, steady: 2s, faster: {operators: 4}}
  - {name: intent, steady: 2s, faster: {intent: 4}}
  - {name: alerts, steady: 2s, faster: {alerts: 4}}
  - drain: 20s
intent:
  - {at: 500ms, every: 2s, create: 1, change: 1, delete: 1, kind: check, class: web}
operators: {lists: 1, pages: 4/s, applies: 2/s, silences: 2/s, runs: 2/s, facts: 2/s}
objectives: {beyond-p99: 60s, list-p99: 60s, apply-p99: 60s, silence-p99: 60s, run-p99: 60s, holds-p99: 60s, tell-p99: 60s, history-behind: 60s}
`)
	ran, rep, out := runLoad(t, file)
	// On a machine that others keep busy one pipeline may starve another; nothing else may be wrong.
	starved := 0
	for _, p := range rep.Phases {
		starved += len(p.Starved)
	}
	if want := map[bool]int{false: 0, true: 20}[starved > 0]; ran.Code != want || len(rep.Late()) != starved {
		t.Fatalf("code %d, want %d; late is %q\n%s%s", ran.Code, want, rep.Late(), ran.Out, ran.Errors)
	}
	if told := rep.Notifications; told == nil || told.Due < 20 || told.Timed < 10 || told.Missing+told.Extra > 0 || told.Unclear > 0 || told.Latency.P50 <= 0 || len(told.Curve) == 0 {
		t.Errorf("messages: %+v", told)
	}
	expectNoTexts(t, string(readFile(t, filepath.Join(out, "server.log"))), "gave up a delivery")
	expectOperatorRequests(t, rep, 3, "list", "apply", "silence", "run", "fact") // a slow machine answers fewer requests
	faster := map[string]float64{}
	for _, p := range rep.Phases {
		for pipeline, times := range p.Faster {
			faster[pipeline] += times
		}
		beside := map[string]bool{}
		for _, b := range p.Beside {
			beside[b.Figure] = true
		}
		assert(t, p.Kind != "steady" || beside["beyond-p99"] && beside["held"],
			"%s: the results are not beside the others: %+v", p.Name, p.Beside)
	}
	assert(t, len(faster) == 3 && faster["operators"] == 4 && faster["intent"] == 4 && faster["alerts"] == 4,
		"sped up: %v", faster)
	expectTexts(t, string(readFile(t, filepath.Join(out, "report.html"))), "messages about problems", "operators ×4")
}

// TestLoadProxies expects another agent to take over a hanging agent's checks of proxy nodes in time. Every
// interval has a run.
func TestLoadProxies(t *testing.T) {
	skipIfShort(t, "waits for turns of several intervals")
	t.Parallel()
	file := tempFile(t, "turns.yaml", `scenario: muster.load/v1
title: Things without an agent
seed: 3
proxies: [{name: switch, count: 10, labels: {vendor: acme}}]
agents:
  - name: poller
    count: 8
    checks:
      - {name: ping, count: 4, interval: 4s, timeout: 1s, proxy: {groups: [switch]}, roundRobin: true, changes: 0.05}
      - {name: snmp, interval: 4s, proxy: {groups: [switch]}}
      - {name: disk, interval: 2s}
phases: [{ramp: 1s}, {steady: 14s, warmup: 1s}, {drain: 30s}]
faults:
  - {at: 2s, for: 9s, hang: {count: 2}}
  - {at: 2s, for: 5s, fail: {check: ping-002, count: 3}}
  - {at: 3s, cut: {count: 2}}
objectives: {takeover-max: 60s}
`)
	ran, rep, out := runLoad(t, file)
	ran.Expect(0, "nothing lost, nothing twice", "\n  turns, ")
	x := rep.Turns
	assert(t, x.Due >= 4*10*3 && x.Due <= 4*10*4 && x.Missed == 0 && x.Ran+x.Passed+x.Unjudged == x.Due && x.Ran >= x.Due*8/10,
		"turns: %+v", x)
	assert(t, x.Taken != 0 && rep.Figures()["takeover-max"] == x.Took.Max, "no agent took a turn over: %+v, %v", x, rep.Figures())
	b := rep.Balance
	assert(t, b.Compared == 4*10+10+8 && b.Sent == b.Acknowledged, "ledger: %+v", b)
	f := rep.Faults[1]
	assert(t, f.Places == 3 && f.Alerts != 0 && f.Missing+f.Extra == 0, "alerts: %+v", f)
	expectTexts(t, string(readFile(t, filepath.Join(out, "report.html"))), "Messages, stream lines and turns")
}
