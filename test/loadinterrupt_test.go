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

// A server that crashes in a run, which no fault of the scenario is, ends it with 21 for what it never answered. The
// report is there, and the server's log, and both say how it ended.
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
			text := readFile(t, file)
			text = bytes.Replace(text, []byte("drain: 30s"), []byte("drain: 2s"), 1)
			text = bytes.Replace(text, []byte("steady: 5s"), []byte("steady: 15s"), 1) // it crashes while results come, also on a machine that is busy
			writeFile(t, file, text)
			run := harness.Launch(t, []string{"TMPDIR=" + temp}, "load", "run", file, "--out", out, "--max-lag", "1h", "--server-flag=--journal-reserve=1MiB")
			harness.Until(t, time.Minute, "a second is kept", func() (string, bool) {
				lines, _ := os.ReadFile(filepath.Join(out, "samples.csv"))
				return run.Log(), bytes.Count(lines, []byte("\n")) > 1 && strings.Contains(run.Log(), "acknowledged/s")
			})
			signalServerIn(t, temp, c.signal)
			run.AwaitExit(21, c.says, "neither acknowledged nor refused")
			rep := readReport(t, out)
			assert(t, !rep.OK() && rep.Balance.Missing != 0 && !rep.Balance.WasCompared() && strings.Contains(strings.Join(rep.Verdict, "; "), "what the server holds could not be read, and is not compared"),
				"%+v; %q", rep.Balance, rep.Verdict)
			if log, err := os.ReadFile(filepath.Join(out, "server.log")); err != nil || len(log) == 0 {
				t.Errorf("the server's log: %d bytes, %v", len(log), err)
			}
		})
	}
}

// A first Ctrl-C waits for what is on its way, which a server that hangs does not answer; a second one ends at once,
// with the server, and says that there is no report and what there is.
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
	run.AwaitLog("Ctrl-C again ends at once")
	harness.Until(t, time.Minute, "it has ended", func() (string, bool) { // what comes within a second is the same one
		if !run.Ended() {
			_ = syscall.Kill(run.PID(), syscall.SIGINT)
		}
		return run.Log(), run.Ended()
	})
	run.AwaitExit(130, "stopped, and there is no report", "what was seen of each second until then is in "+out)
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
			noError(t, syscall.Kill(pid, sig))
			return
		}
	}
	t.Fatal("there is no server")
}

// A disk without room for the report is told of when that is known and in the end; the run goes its way, its summary
// is in the terminal, and nothing is left that looks like a report.
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
	ran.Expect(7, "the seconds of this run cannot be kept: ", "the disk of "+out+" is full: nothing of the report is there")
	expectTexts(t, ran.Out, "nothing lost, nothing twice")
	if left, _ := filepath.Glob(filepath.Join(out, "r*")); len(left) > 0 {
		t.Errorf("a report: %v", left)
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 || len(processesOf(t, temp)) > 0 {
		t.Errorf("left behind: %v, %v", left, processesOf(t, temp))
	}
}
