//go:build linux

package test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// A first Ctrl-C waits for what is on its way, which a server that hangs does not answer; a second
// one ends at once, with the server, and says that there is no report and what there is.
func TestLoadSecondInterrupt(t *testing.T) {
	t.Parallel()
	temp, out := t.TempDir(), filepath.Join(t.TempDir(), "report")
	run := harness.Launch(t, []string{"TMPDIR=" + temp}, "load", "run", tinyScenario(t, ""), "--out", out, "--max-lag", "1h", "--server-flag=--journal-reserve=1MiB")
	harness.Until(t, time.Minute, "a second is kept", func() (string, bool) {
		lines, _ := os.ReadFile(filepath.Join(out, "samples.csv"))
		return run.Log(), bytes.Count(lines, []byte("\n")) > 1 && strings.Contains(run.Log(), "acknowledged/s")
	})
	pauseServerIn(t, temp)
	run.Signal(syscall.SIGINT)
	harness.Until(t, time.Minute, "it says what a second one does", func() (string, bool) {
		return run.Log(), strings.Contains(run.Log(), "Ctrl-C again ends at once")
	})
	harness.Until(t, time.Minute, "it has ended", func() (string, bool) { // what comes within a second is the same one
		if !run.Ended() {
			_ = syscall.Kill(run.PID(), syscall.SIGINT)
		}
		return run.Log(), run.Ended()
	})
	if code := run.Wait(time.Minute); code != 130 || !strings.Contains(run.Log(), "stopped, and there is no report") || !strings.Contains(run.Log(), "what was seen of each second until then is in "+out) {
		t.Errorf("code %d\n%s", code, run.Log())
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 || len(processesOf(t, temp)) > 0 {
		t.Errorf("left behind: %v, %v", left, processesOf(t, temp))
	}
	if left, _ := filepath.Glob(filepath.Join(out, "r*")); len(left) > 0 {
		t.Errorf("a report: %v", left)
	}
}

// pauseServerIn stops the server whose data is below a folder.
func pauseServerIn(t *testing.T, dir string) {
	t.Helper()
	signalServerIn(t, dir, syscall.SIGSTOP)
}

// signalServerIn sends a signal to the server whose data is below a folder.
func signalServerIn(t *testing.T, dir string, sig syscall.Signal) {
	t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if words, err := os.ReadFile(f); err == nil && bytes.Contains(words, []byte(dir)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			if err := syscall.Kill(pid, sig); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("there is no server")
}

// A disk without room for the report is told of when that is known and in the end; the run goes its
// way, its summary is in the terminal, and nothing is left that looks like a report.
func TestLoadReportOnFullDisk(t *testing.T) {
	testenv.Root(t)
	t.Parallel()
	temp, out := t.TempDir(), t.TempDir()
	if err := syscall.Mount("tmpfs", out, "tmpfs", 0, "size=4k"); err != nil {
		testenv.LeftOut(t, "tmpfs cannot be mounted here: "+err.Error(), "sudo scripts/nightly.sh blackbox")
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(out, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	ran := harness.Run(t, []string{"TMPDIR=" + temp}, "load", "run", tinyScenario(t, ""), "--out", out, "--max-lag", "1h", "--server-flag=--journal-reserve=1MiB")
	if ran.Code != 7 || !strings.Contains(ran.Errors, "the seconds of this run cannot be kept: ") || !strings.Contains(ran.Errors, "the disk of "+out+" is full: nothing of the report is there") {
		t.Errorf("code %d\n%s", ran.Code, ran.Errors)
	}
	if !strings.Contains(ran.Out, "nothing lost, nothing twice") {
		t.Errorf("no summary:\n%s", ran.Out)
	}
	if left, _ := filepath.Glob(filepath.Join(out, "r*")); len(left) > 0 {
		t.Errorf("a report: %v", left)
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 || len(processesOf(t, temp)) > 0 {
		t.Errorf("left behind: %v, %v", left, processesOf(t, temp))
	}
}
