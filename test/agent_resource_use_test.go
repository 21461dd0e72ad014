//go:build linux

package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/usage"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// TestAgentCost measures an agent, and expects little use of disk and memory. The limits are 15.5 MB on disk,
// and 25 MiB of memory with 40 checks every minute. Its processor time is logged.
func TestAgentCost(t *testing.T) {
	skipIfShort(t, "measures for a while")
	span := 15 * time.Second
	if os.Getenv("MUSTER_TEST_LONG") == "" {
		testenv.Shortened(t, "15 seconds, not a minute", "MUSTER_TEST_LONG=1 go test ./test -run TestAgentCost")
	} else {
		span = time.Minute
	}
	binary := filepath.Join(t.TempDir(), "muster-agent")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, "./cmd/muster-agent")
	build.Dir, build.Env = harness.Root(), append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require(t, err == nil, "%v\n%s", err, out)
	size := testenv.Value(os.Stat(binary))(t).Size()
	harness.LogMeasurement(t, "binary: %.1f MB, asked at most 15", float64(size)/1e6)
	assert(t, size <= 15_500_000, "the binary has %d bytes", size)

	s := harness.StartServer(t)
	a := s.NewAgent("bench")
	a.Process = harness.LaunchCommand(t, []string{"MUSTER_TOKEN=" + a.Token}, append([]string{binary, "--state-dir", a.State, "--name", a.Name}, a.Args...)...)
	s.AwaitOutput("get nodes", "bench")
	measure := func(checks int) (resident float64) {
		before := usage.OfProcess(a.PID())
		sleep(t.Context(), span)
		now := usage.OfProcess(a.PID())
		require(t, now.RSS > 0, "the agent ended")
		cores := (now.CPU - before.CPU).Seconds() / span.Seconds() // the agent may have used nothing before, by a clock of 10 ms
		resident = float64(now.RSS) / (1 << 20)
		harness.LogMeasurement(t, "%d checks: %.0f ms CPU a minute (%.3f %% of a core), resident %.1f MiB", checks, 60_000*cores, 100*cores, resident)
		return resident
	}
	measure(0)
	var text strings.Builder
	check := func(name, what string) {
		fmt.Fprintf(&text, "---\n{apiVersion: muster/v1, kind: Check, metadata: {name: %s}, spec: {targets: {nodes: [bench]}, interval: 60s, %s}}\n", name, what)
	}
	for i := range 28 {
		check(fmt.Sprintf("command-%d", i), `command: "true"`)
	}
	for _, probe := range []string{"agent", "clock", "load", "memory", "processes", "reboot", "swap", "disk"} {
		check("probe-"+probe, "probe: {name: "+probe+"}")
	}
	for i := range 4 {
		check(fmt.Sprintf("tcp-%d", i), fmt.Sprintf("probe: {name: tcp, args: {address: %q}}", s.Listen))
	}
	s.Apply(text.String())
	s.AwaitOutput("get events -n default", "tcp-3", "command-27", "probe-disk")
	resident := measure(40)
	assert(t, resident <= 25, "%.1f MiB resident with 40 checks, asked at most 25", resident)
}
