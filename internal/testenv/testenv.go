// Package testenv serves tests that need a Debian package or root on the machine, and tests that wait for a condition
// which no channel reports.
//
// Start reading at Skip. No goroutines and no locks.
package testenv

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/aymanbagabas/go-udiff"
)

// Skip skips the test, and records the reason for the summary of make check. It also records the command that makes
// the test run.
func Skip(t testing.TB, why, command string) {
	t.Helper()
	t.Skip("left out: " + recordSkip(t, why, "To run it: "+command))
}

// Shortened records that the running test leaves something out, and lets the test continue. It also records the
// command for the full test.
func Shortened(t testing.TB, how, command string) {
	t.Helper()
	t.Log("shortened: " + recordSkip(t, how, "In full: "+command))
}

// recordSkip appends a line about a test's omitted part to a summary file, and returns the line.
// MUSTER_LEFT_OUT names the file.
func recordSkip(t testing.TB, what, command string) string {
	line := fmt.Sprintf("%s: %s. %s", t.Name(), what, command)
	if path := os.Getenv("MUSTER_LEFT_OUT"); path != "" {
		if f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			fmt.Fprintln(f, line)
			f.Close()
		}
	}
	return line
}

// Program returns the path of a program, or skips the test if the program is missing. It looks in PATH and in given
// folders (glob patterns).
func Program(t testing.TB, name, debianPackage string, folders ...string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, folder := range folders {
		if found, _ := filepath.Glob(filepath.Join(folder, name)); len(found) > 0 {
			return found[len(found)-1]
		}
	}
	Skip(t, name+" is not installed", "sudo apt-get install "+debianPackage)
	return ""
}

// Plugin returns the path of a Nagios plug-in, or skips the test if the plug-in is missing.
func Plugin(t testing.TB, name string) string {
	t.Helper()
	return Program(t, name, "monitoring-plugins-basic", "/usr/lib/nagios/plugins", "/usr/lib64/nagios/plugins")
}

// SkipUnlessRoot skips tests that need root, unless the user is root on Linux.
func SkipUnlessRoot(t testing.TB) {
	t.Helper()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		Skip(t, "it needs root on Linux", "sudo make check")
	}
}

// Port reserves a free port on loopback until the end of the test, and returns its address. No other test gets the
// address, even while no server listens there. The port lies below those of the kernel and of load runs, and no other
// process can take it.
func Port(t testing.TB) string {
	t.Helper()
	for range 1000 {
		port := 10_000 + rand.N(10_000)
		if release, err := reservePort(port); err == nil {
			t.Cleanup(release)
			return fmt.Sprintf("127.0.0.1:%d", port)
		}
	}
	t.Fatal("no free port found")
	return ""
}

// Until polls a condition until the condition is true. After a minute it ends the test.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// Value returns a function that unwraps a call's result, or ends the test on the call's error. Use it as
// testenv.Value(os.Open(name))(t).
func Value[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		NoError(t, err)
		return v
	}
}

var update = flag.Bool("update", false, "write golden files and reference pages anew")

// Golden compares a text with a golden file. The command go test -update rewrites the file. before are commands that
// must run before -update.
func Golden[T string | []byte](t testing.TB, path string, got T, before ...string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(path)
	if err != nil || string(kept) != string(got) {
		do := strings.Join(append(before, "go test -update in this package writes it (make docs: all pages)"), "; then ")
		t.Errorf("%s differs from the text that the test made (%v). If you intended this: %s\n%s", path, err, do, udiff.Unified("kept", "made", string(kept), string(got)))
	}
}

// Updating reports whether the test run rewrites golden files.
func Updating() bool { return *update }

// NoError ends the test with the error err, or does nothing if err is nil.
func NoError(t interface {
	Helper()
	Fatal(args ...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
