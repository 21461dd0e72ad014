//go:build linux

package test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/test/harness"
)

// A server that crashes in a run, which no fault of the scenario is, ends it with 21 for what it never
// answered. The report is there, and the server's log, and both say how it ended.
func TestLoadServerCrash(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signal syscall.Signal
		says   string
	}{
		"killed":  {syscall.SIGKILL, "the server under test ended by itself: signal: killed"},
		"aborted": {syscall.SIGABRT, "; its log: SIGABRT: abort"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			temp, out, file := t.TempDir(), filepath.Join(t.TempDir(), "report"), tinyScenario(t, "")
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text = bytes.Replace(text, []byte("drain: 30s"), []byte("drain: 2s"), 1)
			text = bytes.Replace(text, []byte("steady: 5s"), []byte("steady: 15s"), 1) // it crashes while results come, also on a machine that is busy
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			run := harness.Launch(t, []string{"TMPDIR=" + temp}, "load", "run", file, "--out", out, "--max-lag", "1h", "--server-flag=--journal-reserve=1MiB")
			harness.Until(t, time.Minute, "a second is kept", func() (string, bool) {
				lines, _ := os.ReadFile(filepath.Join(out, "samples.csv"))
				return run.Log(), bytes.Count(lines, []byte("\n")) > 1 && strings.Contains(run.Log(), "acknowledged/s")
			})
			signalServerIn(t, temp, c.signal)
			if code := run.Wait(2 * time.Minute); code != 21 || !strings.Contains(run.Log(), c.says) || !strings.Contains(run.Log(), "neither acknowledged nor refused") {
				t.Errorf("code %d, want 21\n%s", code, run.Log())
			}
			rep, err := report.Read(filepath.Join(out, "run.json"))
			if err != nil {
				t.Fatal(err)
			}
			if rep.OK() || rep.Balance.Missing == 0 || rep.Balance.WasCompared() || !strings.Contains(strings.Join(rep.Verdict, "; "), "what the server holds could not be read, and is not compared") {
				t.Errorf("%+v; %q", rep.Balance, rep.Verdict)
			}
			if log, err := os.ReadFile(filepath.Join(out, "server.log")); err != nil || len(log) == 0 {
				t.Errorf("the server's log: %d bytes, %v", len(log), err)
			}
		})
	}
}
