//go:build linux

package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-fleet/muster/internal/load/judge"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
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
	var rep judge.Report
	require(t, json.Unmarshal(testenv.Value(os.ReadFile(filepath.Join(out, "values.json")))(t), &rep) == nil, "values.json")
	assert(t, len(rep.Findings) == 0 && rep.Figures.Items == 20*40+5*11 && rep.Figures.Restart > 0 && rep.Figures.Back >= rep.Figures.Restart, "%+v", rep)
	expectNothingLeft(t, temp)
}

// A run of values refuses what it cannot play, with the exit code of what is not supported, before anything starts.
func TestLoadValuesRefusals(t *testing.T) {
	t.Parallel()
	mixed := tempFile(t, "mixed.yaml", "scenario: muster.load/v1\nagents: [{name: a, count: 1, values: [{name: x, interval: 1s}], checks: [{name: c, interval: 1s}]}]\nphases: [{steady: 1m}]\n")
	for _, words := range [][]string{{"load", "run", mixed}, {"load", "run", "muster-values-quick", "--server", "127.0.0.1:1"}, {"load", "run", "muster-values-quick", "--target", "sensu"}} {
		ran := harness.Run(t, nil, words...)
		assert(t, ran.Code == model.Unsupported.Exit() && ran.Errors != "", "%v: code %d\n%s", words, ran.Code, ran.Errors)
	}
}
