//go:build linux

package test

import (
	"path/filepath"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/test/harness"
)

// A load run of values kills the server, and finds every acknowledged value and every problem once.
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
	ran := harness.Run(t, []string{"TMPDIR=" + temp}, loadWords(file, out)...)
	require(t, ran.Code == 0, "code %d\n%s%s", ran.Code, ran.Out, ran.Errors)
	rep := readReport(t, out)
	assert(t, len(rep.Signals.Findings) == 0 && rep.Signals.Items == 20*40+5*11 && rep.Outages[0].Serving > 0 && rep.Outages[0].Seconds >= rep.Outages[0].Serving, "%+v %+v", rep.Signals, rep.Outages)
	expectTexts(t, string(readFile(t, filepath.Join(out, "report.html"))), "<title>Passed: A few values")
	harness.Run(t, nil, "load", "judge", out).Expect(0, "nothing lost, doubled or wrong")
	expectNothingLeft(t, temp)
}

// TestLoadValuesRefusals runs scenarios of values with parts that such runs cannot play, and expects each to be
// refused, with the exit code for unsupported scenarios, before anything starts.
func TestLoadValuesRefusals(t *testing.T) {
	t.Parallel()
	mixed := tempFile(t, "mixed.yaml", "scenario: muster.load/v1\nagents: [{name: a, count: 1, values: [{name: x, interval: 1s}], checks: [{name: c, interval: 1s}]}]\nphases: [{steady: 1m}]\n")
	for _, words := range [][]string{{"load", "run", mixed}, {"load", "run", "muster-values-quick", "--server", "127.0.0.1:1"}, {"load", "run", "muster-values-quick", "--target", "sensu"}} {
		ran := harness.Run(t, nil, words...)
		assert(t, ran.Code == model.Unsupported.Exit() && ran.Errors != "", "%v: code %d\n%s", words, ran.Code, ran.Errors)
	}
}
