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
	"testing"
	"time"
)

// binaryEnv names a ready binary to test, such as the binary of a release.
const binaryEnv = "MUSTER_TEST_BIN"

// atOnce is how many parallel tests run at the same time, unless -parallel says
// otherwise: most of the time they wait, so that the number of processors says little.
const atOnce = 8

// Main builds the binary, runs the tests and removes it again.
func Main(m *testing.M) int {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(max(atOnce, runtime.GOMAXPROCS(0))))
	}
	if os.Getenv(binaryEnv) == "" {
		dir, err := os.MkdirTemp("", "muster-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		_ = os.Chmod(dir, 0o755) // other users run it too
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

// Binary returns the path of muster.
func Binary() string { return os.Getenv(binaryEnv) }

// Root returns the root of the source tree: the folder of go.mod at or above the working
// directory. Paths from the runtime would be wrong in a test built with -trimpath.
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

// Result holds exit code and output of a command.
type Result struct {
	Code        int
	Out, Errors string
}

// Run runs muster to its end, at most a minute long. env is added to an environment
// that holds nothing but PATH.
func Run(t testing.TB, env []string, args ...string) Result {
	t.Helper()
	return runCommand(t, env, append([]string{Binary()}, args...)...)
}

// runCommand is Run with all words of the command.
func runCommand(t testing.TB, env []string, words ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := command(ctx, env, words)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%v: %v", words, errors.Join(err, ctx.Err()))
	}
	return Result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// Command is muster, not started, for whoever looks at it while it runs. It ends with the
// test.
func Command(t testing.TB, env []string, args ...string) *exec.Cmd {
	t.Helper()
	return command(t.Context(), env, append([]string{Binary()}, args...))
}

func command(ctx context.Context, env, words []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	return cmd
}
