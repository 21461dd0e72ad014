//go:build linux

package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
)

// Tracer is strace at a running process: it shows its system calls, and lets them
// fail or stall.
type Tracer struct {
	*Process
	t    testing.TB
	file string
}

// Trace attaches strace with these arguments (see strace(1), -e trace= and
// -e inject=) to all threads of the process, and returns once it is there.
func (p *Process) Trace(args ...string) *Tracer {
	p.t.Helper()
	strace := testenv.Program(p.t, "strace", "strace")
	x := &Tracer{t: p.t, file: filepath.Join(p.t.TempDir(), "trace")}
	words := append([]string{strace, "-f", "-y", "-o", x.file, "-e", "signal=none"}, args...)
	x.Process = launch(p.t, "", nil, append(words, "-p", fmt.Sprint(p.PID())))
	Until(p.t, 20*time.Second, "strace is attached", func() (string, bool) {
		if x.Ended() && strings.Contains(x.Log(), "not permitted") {
			testenv.LeftOut(p.t, "strace may not look at another process here", "sudo scripts/nightly.sh blackbox")
		}
		return x.Log(), strings.Contains(x.Log(), " attached")
	})
	return x
}

// Detach lets the process continue without strace, and returns the trace: a line for each call, or two if other calls came
// between its beginning and its end.
func (x *Tracer) Detach() []string {
	x.t.Helper()
	if !x.Ended() {
		x.Signal(syscall.SIGINT)
		x.Wait(30 * time.Second)
	}
	return x.Lines()
}

// Lines returns the trace so far.
func (x *Tracer) Lines() []string {
	x.t.Helper()
	data, err := os.ReadFile(x.file)
	if err != nil {
		x.t.Fatal(err)
	}
	return strings.Split(string(data), "\n")
}
