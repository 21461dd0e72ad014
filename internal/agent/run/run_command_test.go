//go:build unix

package run

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// newTestRunner returns a Runner on node web01 with a short grace period.
func newTestRunner() *Runner {
	return &Runner{Node: func() string { return "web01" }, Grace: 300 * time.Millisecond}
}

// TestExitCodesBecomeStatusesWithCauses runs commands that exit, crash or cannot start, and expects status and
// cause in each result.
func TestExitCodesBecomeStatusesWithCauses(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	testenv.NoError(t, os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o644))
	for _, c := range []struct {
		cmd    Command
		status model.Status
		want   []string
	}{
		{Command{Shell: "echo fine; exit 0"}, model.OK, []string{"fine"}},
		{Command{Shell: "echo hm; exit 1"}, model.Warning, []string{"hm"}},
		{Command{Argv: []string{"sh", "-c", "echo bad >&2; exit 2"}}, model.Critical, []string{"bad"}},
		{Command{Shell: "exit 3"}, model.Unknown, []string{"(no output)"}},
		{Command{Shell: "echo text; exit 42"}, model.Unknown, []string{"exit code 42", "\ntext"}},
		{Command{Shell: "check_gone -w 1"}, model.Unknown, []string{"check_gone: not found in PATH on web01\n  install it there, or name its folder to the agent: --plugin-path FOLDER\nPATH is ", "/usr/lib/nagios/plugins"}},
		{Command{Argv: []string{"check_gone"}}, model.Unknown, []string{"check_gone: not found in PATH on web01\n  install it there, or name its folder to the agent: --plugin-path FOLDER\nPATH is "}},
		{Command{Argv: []string{plain}}, model.Unknown, []string{plain + ": found but not executable on web01"}},
		{Command{Shell: plain}, model.Unknown, []string{"exit code 126"}},
		{Command{Argv: []string{"/no/such"}}, model.Unknown, []string{"/no/such: no such file on web01"}},
		{Command{Shell: "kill -9 $$"}, model.Unknown, []string{"killed by signal 9 (KILL)"}},
		{Command{Shell: "echo half; sleep 60", Timeout: time.Second}, model.Unknown, []string{"timed out after 1s\nhalf"}},
		{Command{Shell: "  "}, model.Unknown, []string{"the command is empty"}},
		{Command{Shell: "echo $A-$B", Env: map[string]string{"A": "1 2", "B": "$x"}}, model.OK, []string{"1 2-$x"}},
		{Command{Argv: []string{"cat"}, Stdin: "line one\nit's $HOME\n"}, model.OK, []string{"line one\nit's $HOME"}},
		{Command{Argv: []string{"true"}, Stdin: strings.Repeat("nobody reads this\n", 10000)}, model.OK, []string{"(no output)"}},
		{Command{Shell: "cat"}, model.OK, []string{"(no output)"}},
		{Command{Shell: "printf 'a\\000b\\377c'"}, model.OK, []string{"a\uFFFDb\uFFFDc"}},
		{Command{Shell: "true", RunAs: "nobody-at-all"}, model.Unknown, []string{"the user does not exist"}},
	} {
		got := newTestRunner().Run(t.Context(), c.cmd)
		for _, want := range c.want {
			if got.Status != c.status || !strings.Contains(string(got.Output), want) {
				t.Errorf("%+v: %s %q, want %s …%q…", c.cmd, got.Status, got.Output, c.status, want)
			}
		}
	}
}

// TestCommandsDoNotGetAgentSecrets runs env and expects no MUSTER_ variable in its output.
func TestCommandsDoNotGetAgentSecrets(t *testing.T) {
	r := newTestRunner()
	r.Environ = []string{"MUSTER_TOKEN=secret", "LANG=C", "PATH=/usr/bin:/bin"}
	got := string(r.Run(t.Context(), Command{Shell: "env"}).Output)
	if strings.Contains(got, "secret") || !strings.Contains(got, "LANG=C") {
		t.Error(got)
	}
}

// TestRunAsChangesTheUser runs a command with runAs nobody and expects the user id and the variable USER of nobody.
func TestRunAsChangesTheUser(t *testing.T) {
	testenv.SkipUnlessRoot(t)
	who, err := user.Lookup("nobody")
	if err != nil {
		testenv.Skip(t, "there is no user nobody", "useradd nobody")
	}
	got := newTestRunner().Run(t.Context(), Command{Shell: "id -u; echo $USER", RunAs: "nobody"})
	if string(got.Output) != who.Uid+"\nnobody" {
		t.Errorf("%s", got.Output)
	}
}

// TestOutputIsCutAndMarked runs a command with too much output, and expects shortened output with a note about
// the cut. The output ends with the number of cut bytes.
func TestOutputIsCutAndMarked(t *testing.T) {
	got := newTestRunner().Run(t.Context(), Command{Shell: "printf 'é%.0s' $(seq 1000)", MaxOutput: 500})
	if len(got.Output) > 500 || !utf8.Valid(got.Output) || !strings.HasSuffix(string(got.Output), "… [cut "+strconv.FormatUint(got.Cut, 10)+" bytes]") {
		t.Errorf("%d bytes, cut %d: %q", len(got.Output), got.Cut, got.Output)
	}
	body, _, _ := strings.Cut(string(got.Output), "…")
	if uint64(len(body))+got.Cut != 2000 {
		t.Errorf("kept %d and cut %d of 2000", len(body), got.Cut)
	}
}

// TestHundredMegabytesOfOutputCostNoMemory runs a command with 100 MB of output, and expects at most 2 MiB of
// allocations.
func TestHundredMegabytesOfOutputCostNoMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := newTestRunner().Run(t.Context(), Command{Shell: "head -c 104857600 /dev/zero | tr '\\0' x; exit 1", Timeout: time.Minute})
	runtime.ReadMemStats(&after)
	if got.Status != model.Warning || got.Cut < 104857600-model.DefaultOutputBytes {
		t.Errorf("%s, cut %d", got.Status, got.Cut)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 2<<20 {
		t.Errorf("%d bytes allocated", grown)
	}
}

// TestTimeoutKillsTheProcessGroup runs a command whose children ignore SIGTERM, and expects none alive after the
// timeout.
func TestTimeoutKillsTheProcessGroup(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	began := time.Now()
	got := newTestRunner().Run(t.Context(), Command{
		Shell:   "trap '' TERM; (trap '' TERM; echo $$ >&2; while :; do sleep 1; done) & echo $! >" + pidFile + "; while :; do sleep 1; done",
		Timeout: time.Second,
	})
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	if !strings.HasPrefix(string(got.Output), "timed out after 1s") {
		t.Errorf("%s", got.Output)
	}
	awaitProcessEnd(t, pidFile)
}

// TestChildThatKeepsTheOutputOpenIsKilled expects the death of a child process that outlives its command and keeps the
// output pipe open.
func TestChildThatKeepsTheOutputOpenIsKilled(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	began := time.Now()
	got := newTestRunner().Run(t.Context(), Command{Shell: "sleep 600 & echo $! >" + pidFile + "; echo done", Timeout: time.Minute})
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	if got.Status != model.OK || !strings.HasPrefix(string(got.Output), "done\n(its child processes kept") {
		t.Errorf("%s %s", got.Status, got.Output)
	}
	awaitProcessEnd(t, pidFile)
}

// awaitProcessEnd waits until a process has ended. The process id is in a file.
func awaitProcessEnd(t *testing.T, pidFile string) {
	t.Helper()
	data, err := os.ReadFile(pidFile)
	testenv.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	testenv.NoError(t, err)
	testenv.Until(t, "process "+strconv.Itoa(pid)+" is gone", func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH || isZombie(pid) })
}

// isZombie reports whether a process has ended but its parent has not yet read the exit code.
func isZombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}

// TestCancelledContextEndsTheCommand cancels the context of a running command and expects UNKNOWN with the reason.
func TestCancelledContextEndsTheCommand(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	got := newTestRunner().Run(ctx, Command{Shell: "echo began; sleep 600", Timeout: time.Minute, Stream: func([]byte) { cancel() }})
	if got.Status != model.Unknown || !strings.Contains(string(got.Output), "the agent stops") {
		t.Errorf("%s %s", got.Status, got.Output)
	}
}

// TestDistributionPluginsRun runs Nagios plug-ins of the Linux distribution, and expects status and output.
func TestDistributionPluginsRun(t *testing.T) {
	for _, c := range []struct{ plugin, args, summary, label string }{
		{"check_disk", "-w 0 -c 0 -p /", "DISK OK", "/"},
		{"check_load", "-w 1000,1000,1000 -c 2000,2000,2000", "LOAD OK", "load1"},
		{"check_procs", "-w 100000 -c 200000", "PROCS OK", "procs"},
	} {
		testenv.Plugin(t, c.plugin)
		got := newTestRunner().Run(t.Context(), Command{Shell: c.plugin + " " + c.args, Timeout: 20 * time.Second})
		out := model.ParseOutput(got.Output)
		if got.Status != model.OK || !strings.Contains(string(out.Summary), c.summary) || len(out.PerfData) == 0 || out.PerfData[0].Label != c.label {
			t.Errorf("%s: %s %s", c.plugin, got.Status, got.Output)
		}
	}
}

// TestDistributionCheckHTTPRuns runs the distribution's check_http plug-in against a test server.
func TestDistributionCheckHTTPRuns(t *testing.T) {
	testenv.Plugin(t, "check_http")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.Error(w, "broken", http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	host, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	for path, want := range map[string]model.Status{"/": model.OK, "/bad": model.Critical} {
		got := newTestRunner().Run(t.Context(), Command{Argv: []string{"check_http", "-I", host, "-p", port, "-u", path}, Timeout: 20 * time.Second})
		out := model.ParseOutput(got.Output)
		if got.Status != want || !strings.HasPrefix(string(out.Summary), "HTTP ") || len(out.PerfData) == 0 || out.PerfData[0].Label != "time" {
			t.Errorf("%s: %s %s", path, got.Status, got.Output)
		}
	}
}

// BenchmarkRunTrue measures one run of /bin/true.
func BenchmarkRunTrue(b *testing.B) {
	r := newTestRunner()
	b.ReportAllocs()
	for b.Loop() {
		r.Run(b.Context(), Command{Argv: []string{"/bin/true"}})
	}
}

// TestOutputIsRedactedBeforeItIsCut expects no part of a secret in truncated output or in the live stream
func TestOutputIsRedactedBeforeItIsCut(t *testing.T) {
	const secret = "correct horse battery staple"
	var heard strings.Builder
	r := &Runner{}
	result := r.Run(t.Context(), Command{
		Shell: `i=0; while [ $i -lt 40 ]; do printf 'x%s' "$S"; i=$((i+1)); done; exit 1`, Env: map[string]string{"S": secret}, Hide: []string{secret},
		MaxOutput: 200, Stream: func(p []byte) { heard.Write(p) },
	})
	for _, text := range []string{string(result.Output), heard.String(), result.Note} {
		if strings.Contains(text, "corr") {
			t.Errorf("left: %q", text)
		}
	}
	if !strings.HasPrefix(string(result.Output), "x(hidden)x(hidden)") || result.Cut == 0 || result.Status != model.Warning {
		t.Errorf("got %+v\n%s", result, result.Output)
	}
	all := r.Run(t.Context(), Command{Shell: `printf 'begins %s' correct; exit 0`, Hide: []string{secret}})
	if string(all.Output) != "begins correct" || all.Cut != 0 {
		t.Errorf("what was held back is lost: %+v %s", all, all.Output)
	}
}

// FuzzOutput composes check outputs from random bytes and expects valid UTF-8 within the length limit.
func FuzzOutput(f *testing.F) {
	f.Add([]byte("OK - all is well | load=0.1\n"), "", "", uint16(1000))
	f.Add([]byte("\x00\xff\xfe ä"), "", "", uint16(0))
	f.Add([]byte("/bin/sh: 1: check_disk: not found\n"), "exit code 127", "", uint16(50))
	f.Add(bytes.Repeat([]byte("\xff"), 300), "", "timed out after 5s", uint16(0))
	f.Fuzz(func(t *testing.T, printed []byte, cause, note string, beyond uint16) {
		if !utf8.ValidString(cause) || !utf8.ValidString(note) || len(cause)+len(note) > 200 || bytes.ContainsRune([]byte(cause+note), 0) {
			return // ours
		}
		const keep = 512
		o := outputBuffer{maxKept: keep}
		o.addBytes(printed)
		o.addBytes(make([]byte, beyond))
		text, cut := exitStatus{cause: cause, note: note}.composeOutput(o.tail, o.total, keep)
		if len(text) == 0 || len(text) > keep || !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
			t.Errorf("%d bytes of text: %q", len(text), text)
		}
		if cut > o.total {
			t.Errorf("%d of %d bytes are cut", cut, o.total)
		}
		if cut == 0 && o.total > uint64(len(o.tail)) && len(bytes.TrimSpace(o.tail)) > 0 {
			t.Errorf("%d bytes printed, %d kept, and no word of a cut: %q", o.total, len(o.tail), text)
		}
		_ = notFoundName(printed)
	})
}
