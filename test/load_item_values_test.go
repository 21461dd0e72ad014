//go:build linux

package test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/test/harness"
)

// TestLoadValues kills the server during a load run of item values, and expects no lost or repeated values.
func TestLoadValues(t *testing.T) {
	t.Parallel()
	temp, out := t.TempDir(), filepath.Join(t.TempDir(), "report")
	file := tempFile(t, "values.yaml", `scenario: muster.load/v1
title: A few values
seed: 3
agents:
  - {name: host, count: 20, values: [{name: item, count: 40, interval: 1s, triggerEvery: 4}]}
  - {name: slow, count: 5, values: [{name: item, count: 10, interval: 2s, type: integer}, {name: text, interval: 2s, type: text}]}
phases:
  - ramp: 1s
  - steady: 6s
  - drain: 60s
faults:
  - {at: 3s, server: kill}
`)
	ran := harness.Run(t, []string{"TMPDIR=" + temp}, loadRunArguments(file, out)...)
	require(t, ran.Code == 0, "code %d\n%s%s", ran.Code, ran.Out, ran.Errors)
	rep := readReport(t, out)
	assert(t, len(rep.Signals.Findings) == 0 && rep.Signals.Items == 20*40+5*11 && rep.Outages[0].Serving > 0 && rep.Outages[0].Seconds >= rep.Outages[0].Serving, "%+v %+v", rep.Signals, rep.Outages)
	expectTexts(t, string(readFile(t, filepath.Join(out, "report.html"))), "<title>Passed: A few values")
	harness.Run(t, nil, "load", "judge", out).Expect(0, "nothing lost, doubled or wrong")
	expectNoFilesOrProcesses(t, temp)
}

// TestLoadValuesBesideChecks sends values, directive runs and check results in one load run, and expects a
// complete report.
func TestLoadValuesBesideChecks(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "report")
	file := tempFile(t, "mixed.yaml", `scenario: muster.load/v1
title: All signals
seed: 3
agents:
  - name: host
    count: 20
    checks: [{name: disk, count: 3, interval: 2s, changes: 0.1}]
    values: [{name: item, count: 20, interval: 1s, triggerEvery: 4}]
  - name: node
    count: 10
    tls: true
    checks: [{name: load, interval: 2s}]
    policies: [{name: base, components: 20, directives: 6, policies: 3, groups: 6, interval: 10s, failing: 0.05, changes: 0.7}]
phases:
  - ramp: 1s
  - steady: 22s
  - drain: 60s
faults:
  - {at: 5s, for: 1s, wrong: {count: 10}}
  - {at: 7s, for: 3s, hang: {class: host, count: 2}}
  - {at: 9s, server: kill}
`)
	ran := harness.Run(t, nil, loadRunArguments(file, out)...)
	require(t, ran.Code == 0, "code %d\n%s%s", ran.Code, ran.Out, ran.Errors)
	rep := readReport(t, out)
	flows := map[report.Unit]bool{}
	for _, f := range rep.Signals.Flows {
		flows[f.Unit] = f.Rate > 0 && f.Latency.P50 > 0
	}
	assert(t, len(rep.Signals.Findings) == 0 && rep.Balance.Compared == 20*3+10 && rep.Rate > 20 && flows[report.Value] && flows[report.Component] && rep.WrongSent > 0 && rep.WrongTaken == 0, "%+v %+v", rep.Signals, rep.Balance)
}

// TestLoadValuesRefusals starts two unsupported load runs with values, and expects refusals. One is against Sensu, and
// one has a class with values and policies; both are refused before anything starts.
func TestLoadValuesRefusals(t *testing.T) {
	t.Parallel()
	ran := harness.Run(t, nil, "load", "run", "muster-values-quick", "--target", "sensu")
	assert(t, ran.Code == model.Unsupported.Exit() && ran.Errors != "", "code %d\n%s", ran.Code, ran.Errors)
	both := tempFile(t, "both.yaml", "scenario: muster.load/v1\nagents: [{name: a, count: 1, values: [{name: x, interval: 1s}], policies: [{name: p, components: 5, interval: 10s}]}]\nphases: [{steady: 1m}]\n")
	ran = harness.Run(t, nil, "load", "run", both)
	assert(t, ran.Code == model.Invalid.Exit() && strings.Contains(ran.Errors, "the class has policies, too"), "code %d\n%s", ran.Code, ran.Errors)
}
