// Package testenv serves tests that need a Debian package or root on the machine, and tests that wait for a condition
// which no channel reports.
//
// Start reading at LeftOut. No goroutines and no locks.
package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// LeftOut skips the test and adds it to the list that `make check` prints at its end: the test, the reason, and the command
// that makes it run.
func LeftOut(t testing.TB, why, command string) {
	t.Helper()
	t.Skip("left out: " + note(t, why, "To run it: "+command))
}

// Shortened puts the test on the same list and lets it go on: it shows less than it
// could.
func Shortened(t testing.TB, how, command string) {
	t.Helper()
	t.Log("shortened: " + note(t, how, "In full: "+command))
}

func note(t testing.TB, what, command string) string {
	line := fmt.Sprintf("%s: %s. %s", t.Name(), what, command)
	if path := os.Getenv("MUSTER_LEFT_OUT"); path != "" {
		if f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			fmt.Fprintln(f, line)
			f.Close()
		}
	}
	return line
}

// Program returns the path of a program, searched for in PATH and the given
// folders (glob patterns), or leaves the test out.
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
	LeftOut(t, name+" is not installed", "sudo apt-get install "+debianPackage)
	return ""
}

// Plugin returns the path of a Nagios plug-in, or leaves the test out.
func Plugin(t testing.TB, name string) string {
	t.Helper()
	return Program(t, name, "monitoring-plugins-basic", "/usr/lib/nagios/plugins", "/usr/lib64/nagios/plugins")
}

// Root leaves the test out unless it runs as root on Linux.
func Root(t testing.TB) {
	t.Helper()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		LeftOut(t, "it needs root on Linux", "sudo make check")
	}
}
