//go:build linux

package harness

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
)

// Process is one run of the muster binary, or of a helper program.
type Process struct {
	t    testing.TB
	cmd  *exec.Cmd
	out  buffer
	done chan struct{}
}

// Launch starts a muster process with the given arguments, without waiting. The process is killed at the end of the
// test, and if the test itself is killed.
func Launch(t testing.TB, env []string, args ...string) *Process {
	t.Helper()
	return LaunchCommand(t, env, append([]string{Binary()}, args...)...)
}

// LaunchCommand starts a program other than muster.
func LaunchCommand(t testing.TB, env []string, words ...string) *Process {
	t.Helper()
	return launch(t, "", env, words)
}

// launch starts a command in a folder as a Process.
func launch(t testing.TB, dir string, env, words []string) *Process {
	t.Helper()
	p := &Process{t: t, done: make(chan struct{})}
	p.cmd = command(context.Background(), env, words) // the test's clean-up ends it
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, &p.out, &p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %v: %v", words, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%v said:\n%s", words, tail(p.Log(), 60))
		}
	})
	return p
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log returns the standard output and error so far.
func (p *Process) Log() string { return p.out.String() }

// AwaitLog waits until the process's log contains all given texts.
func (p *Process) AwaitLog(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		Until(p.t, 90*time.Second, "the log has "+text, func() (string, bool) {
			// A value with spaces is quoted, and so are the quotes and lines in it.
			log := p.Log()
			plain := strings.NewReplacer(`\"`, `"`, `\n`, "\n").Replace(log)
			return tail(plain, 5), strings.Contains(log, text) || strings.Contains(plain, text)
		})
	}
}

// Signal sends a signal, such as SIGTERM, to the process.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("signal %s: %v", s, err)
	}
}

// Kill sends SIGKILL and returns when the process has ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Wait waits until the process ends by itself and returns its exit code.
func (p *Process) Wait(within time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(within):
		p.t.Fatalf("still running after %s:\n%s", within, tail(p.Log(), 40))
	}
	return p.cmd.ProcessState.ExitCode()
}

// AwaitExit waits until the process ends by itself. It fails the test unless the process has the given exit code and
// log texts.
func (p *Process) AwaitExit(code int, texts ...string) {
	p.t.Helper()
	if is := p.Wait(2 * time.Minute); is != code && (code != AnyFailure || is == 0) {
		p.t.Fatalf("exit code %d, want %d:\n%s", is, code, tail(p.Log(), 40))
	}
	for _, text := range texts {
		if !strings.Contains(p.Log(), text) {
			p.t.Errorf("no %q in\n%s", text, tail(p.Log(), 60))
		}
	}
}

// Stop sends SIGTERM and fails the test unless the process ends with code 0.
func (p *Process) Stop() {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(40 * time.Second); code != 0 {
		p.t.Errorf("a planned stop ended with code %d:\n%s", code, tail(p.Log(), 40))
	}
}

// buffer collects the output of a process. Tests read the output while the process runs.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends to the collected output.
func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String returns the output of the process so far.
func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// tail returns the last lines of a text, for the message of a failed test.
func tail(text string, lines int) string {
	all := bytes.Split([]byte(text), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}

// binaryEnv names a ready binary to test, such as the binary of a release.
const binaryEnv = "MUSTER_TEST_BIN"

// maxParallelTests is the number of parallel tests unless -parallel is set. Tests mostly wait, so that it does not depend on
// the number of processors.
const maxParallelTests = 8

// Main builds the muster binary, runs the tests and removes the binary.
func Main(m *testing.M) int {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(max(maxParallelTests, runtime.GOMAXPROCS(0))))
	}
	if os.Getenv(binaryEnv) == "" {
		dir, err := os.MkdirTemp("", "muster-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		_ = os.Chmod(dir, 0o755) // tests run the binary as other users
		binary := filepath.Join(dir, "muster")
		build := exec.Command("go", "build", "-o", binary, "./cmd/muster")
		build.Dir = Root()
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build the binary: %v\n%s", err, out)
			return 1
		}
		os.Setenv(binaryEnv, binary)
	}
	return m.Run()
}

// Binary returns the path of the built muster binary.
func Binary() string { return os.Getenv(binaryEnv) }

// Root returns the root of the source tree, which is the folder of go.mod. Paths from the runtime would be wrong in a
// test built with -trimpath.
func Root() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(fmt.Sprintf("BUG: no working directory: %v", err))
	}
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "go.mod")); err == nil {
			return d
		}
		if d == filepath.Dir(d) {
			panic(fmt.Sprintf("BUG: no go.mod at or above %s", dir))
		}
	}
}

// Result is the exit code and output of a command.
type Result struct {
	Code        int
	Out, Errors string

	t     testing.TB
	words []string
}

// AnyCode and AnyFailure are values for the exit code that Expect compares.
const (
	AnyCode    = -1
	AnyFailure = -2 // any but 0
)

// Expect fails the test unless the command ended with the given exit code and printed the given texts. The
// output must contain the texts. A space in a text also matches a line break.
func (r Result) Expect(code int, texts ...string) Result {
	r.t.Helper()
	if code != r.Code && code != AnyCode && (code != AnyFailure || r.Code == 0) {
		r.t.Errorf("muster %v: code %d, want %d\n%s%s", r.words, r.Code, code, r.Out, r.Errors)
	}
	for _, text := range texts {
		if !Contains(r.Out+r.Errors, text) {
			r.t.Errorf("muster %v: no %q in\n%s%s", r.words, text, r.Out, r.Errors)
		}
	}
	return r
}

// ExpectNot fails the test if the command's output contains any of the given texts.
func (r Result) ExpectNot(texts ...string) Result {
	r.t.Helper()
	for _, text := range texts {
		if strings.Contains(r.Out+r.Errors, text) {
			r.t.Errorf("muster %v: %q is in\n%s%s", r.words, text, r.Out, r.Errors)
		}
	}
	return r
}

// Contains reports whether a text contains another text, even across line breaks. Line breaks within the other
// text are ignored.
func Contains(text, want string) bool {
	return strings.Contains(text, want) || strings.Contains(strings.Join(strings.Fields(text), " "), want)
}

// Run runs a muster command, with a time limit of one minute. The environment is PATH and env.
func Run(t testing.TB, env []string, args ...string) Result {
	t.Helper()
	return runCommand(t, env, append([]string{Binary()}, args...)...)
}

// runCommand runs a command, with a time limit of three minutes. The environment is PATH and env.
func runCommand(t testing.TB, env []string, words ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := command(ctx, env, words)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%v: %v", words, errors.Join(err, ctx.Err()))
	}
	return Result{cmd.ProcessState.ExitCode(), out.String(), errs.String(), t, words[1:]}
}

// Command returns a muster command, for a test to start. Tests read its output while the command runs. It ends with
// the test.
func Command(t testing.TB, env []string, args ...string) *exec.Cmd {
	t.Helper()
	return command(t.Context(), env, append([]string{Binary()}, args...))
}

// command returns a command with the given environment variables and the test process's PATH.
func command(ctx context.Context, env, words []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	if words[0] == Binary() {
		cmd.Args[0] = "muster" // the hints of the program name it so
	}
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	return cmd
}

// Tracer is strace attached to a running process. It records system calls, and can make system calls fail or stall.
type Tracer struct {
	*Process
	t    testing.TB
	file string
}

// Trace attaches strace with the given arguments to all threads of the process.
func (p *Process) Trace(args ...string) *Tracer {
	p.t.Helper()
	strace := testenv.Program(p.t, "strace", "strace")
	x := &Tracer{t: p.t, file: filepath.Join(p.t.TempDir(), "trace")}
	words := append([]string{strace, "-f", "-y", "-o", x.file, "-e", "signal=none"}, args...)
	x.Process = launch(p.t, "", nil, append(words, "-p", fmt.Sprint(p.PID())))
	Until(p.t, 20*time.Second, "strace is attached", func() (string, bool) {
		if x.Ended() && strings.Contains(x.Log(), "not permitted") {
			testenv.Skip(p.t, "strace may not look at another process here", "sudo scripts/nightly.sh blackbox")
		}
		return x.Log(), strings.Contains(x.Log(), " attached")
	})
	return x
}

// Detach detaches strace and returns the trace. A call has one line, or two lines if other calls came between its
// start and end.
func (x *Tracer) Detach() []string {
	x.t.Helper()
	if !x.Ended() {
		x.Signal(syscall.SIGINT)
		x.Wait(30 * time.Second)
	}
	return x.Lines()
}

// Lines returns the lines of the trace so far.
func (x *Tracer) Lines() []string {
	x.t.Helper()
	data := testenv.Value(os.ReadFile(x.file))(x.t)
	return strings.Split(string(data), "\n")
}
