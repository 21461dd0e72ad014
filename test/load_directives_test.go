//go:build linux

package test

import (
	"path/filepath"
	"testing"

	"github.com/muster-fleet/muster/test/harness"
)

// TestLoadDirectives runs a load test of directives with several faults, and expects a correct report. A
// directive changes, some reports are wrong, and the server is killed; each run, status and signature must be
// found.
func TestLoadDirectives(t *testing.T) {
	t.Parallel()
	temp, out := t.TempDir(), filepath.Join(t.TempDir(), "report")
	file := tempFile(t, "directives.yaml", `scenario: muster.load/v1
title: A few directives
seed: 3
agents:
  - name: host
    count: 25
    inventory: 2kB
    policies:
      - {name: base, components: 60, directives: 26, policies: 13, groups: 18, interval: 10s, failing: 0.05, changes: 0.7}
phases:
  - ramp: 1s
  - steady: 23s
  - drain: 60s
intent:
  - {at: 2s, change: 1, kind: directive}
faults:
  - {at: 5s, for: 1s, wrong: {count: 4}}
  - {at: 12s, server: kill}
`)
	ran := harness.Run(t, []string{"TMPDIR=" + temp}, loadRunArguments(file, out)...)
	require(t, ran.Code == 0, "code %d\n%s%s", ran.Code, ran.Out, ran.Errors)
	rep := readReport(t, out)
	assert(t, len(rep.Signals.Findings) == 0 && rep.Signals.Items > 25*10 && rep.Changes[0].Holds.Max > 0 && rep.Outages[0].Serving > 0, "%+v %+v %+v", rep.Signals, rep.Changes, rep.Outages)
	expectNoFilesOrProcesses(t, temp)
}
