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
			file := tinyScenario(t, "")
			text := readFile(t, file)
			text = bytes.Replace(text, []byte("drain: 30s"), []byte("drain: 2s"), 1)
			text = bytes.Replace(text, []byte("steady: 5s"), []byte("steady: 15s"), 1) // it crashes while results come, also on a machine that is busy
			writeFile(t, file, text)
			run := startLoadRun(t, file)
			run.awaitSecond(t)
			signalServerIn(t, run.temp, c.signal)
			run.AwaitExit(21, c.says, "neither acknowledged nor refused")
			rep := readReport(t, run.out)
			assert(t, !rep.OK() && rep.Balance.Missing != 0 && !rep.Balance.WasCompared() && strings.Contains(strings.Join(rep.Verdict, "; "), "what the server holds could not be read, and is not compared"),
				"%+v; %q", rep.Balance, rep.Verdict)
			assert(t, len(readFile(t, filepath.Join(run.out, "server.log"))) > 0, "the server's log is empty")
		})
	}
}

// A first Ctrl-C waits for what is on its way, which a server that hangs does not answer; a second one ends at once,
// with the server, and says that there is no report and what there is.
func TestLoadSecondInterrupt(t *testing.T) {
	t.Parallel()
	run := startLoadRun(t, tinyScenario(t, ""))
	run.awaitSecond(t)
	signalServerIn(t, run.temp, syscall.SIGSTOP)
	run.Signal(syscall.SIGINT)
	run.AwaitLog("Ctrl-C again ends at once")
	harness.Until(t, time.Minute, "it has ended", func() (string, bool) { // what comes within a second is the same one
		if !run.Ended() {
			_ = syscall.Kill(run.PID(), syscall.SIGINT)
		}
		return run.Log(), run.Ended()
	})
	run.AwaitExit(130, "stopped, and there is no report", "what was seen of each second until then is in "+run.out)
	expectNothingLeft(t, run.temp)
	expectNoReport(t, run.out)
}

// signalServerIn sends a signal to the server whose data is below a folder.
func signalServerIn(t *testing.T, dir string, sig syscall.Signal) {
	t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if words, err := os.ReadFile(f); err == nil && bytes.Contains(words, []byte(dir)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			testenv.NoError(t, syscall.Kill(pid, sig))
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
	mountTmpfs(t, out, "4k")
	ran := harness.Run(t, []string{"TMPDIR=" + temp}, loadWords(tinyScenario(t, ""), out)...)
	ran.Expect(7, "the seconds of this run cannot be kept: ", "the disk of "+out+" is full: nothing of the report is there")
	expectTexts(t, ran.Out, "nothing lost, nothing twice")
	expectNoReport(t, out)
	expectNothingLeft(t, temp)
}
