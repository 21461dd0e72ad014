//go:build linux

package test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// TestMain builds the binary and runs the tests.
func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// assert fails the test unless ok is true, but lets the test continue. The test continues.
func assert(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
	}
}

// require ends the test unless ok is true.
func require(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Fatalf(format, args...)
	}
}

// skipIfShort skips the test in short test runs (flag -short), with the given reason.
func skipIfShort(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip(why)
	}
}

// selectIfShort returns the first value in a short test run (flag -short), otherwise the second. Otherwise it
// returns the value full.
func selectIfShort[T any](short, full T) T {
	if testing.Short() {
		return short
	}
	return full
}

// expectEqual fails the test unless got equals want.
func expectEqual[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// awaitEqual waits until the function get returns want.
func awaitEqual[T comparable](t testing.TB, what string, want T, got func() T) {
	t.Helper()
	harness.Until(t, 2*time.Minute, fmt.Sprintf("%s: %v", what, want), func() (string, bool) {
		v := got()
		return fmt.Sprint(v), v == want
	})
}

// awaitFile waits until a file contains the given text at least n times.
func awaitFile(t testing.TB, path string, times int, text string) {
	t.Helper()
	harness.Until(t, time.Minute, fmt.Sprintf("%s holds %q %d times", path, text, times), func() (string, bool) {
		data, _ := os.ReadFile(path)
		return string(data), strings.Count(string(data), text) >= times
	})
}

// decodeJSON decodes JSON text.
func decodeJSON[T ~string | ~[]byte](t testing.TB, text T, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
}

// receiveValue waits for the next value of a channel, at most a minute. After a minute without a value it ends the test.
func receiveValue[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(time.Minute):
		t.Fatal("nothing comes within a minute")
		panic("unreachable")
	}
}

// mountTmpfs mounts a tmpfs of a given size at a folder. If mounting is not allowed, it skips the test.
func mountTmpfs(t testing.TB, dir, size string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		testenv.Skip(t, "tmpfs cannot be mounted here: "+err.Error(), "sudo scripts/nightly.sh blackbox")
	}
	t.Cleanup(func() { unmount(t, dir) })
}

// unmount unmounts a file system.
func unmount(t testing.TB, dir string) {
	t.Helper()
	err := syscall.Unmount(dir, syscall.MNT_DETACH)
	assert(t, err == nil, "unmount: %v", err)
}

// newPublicFolder creates a temporary folder that every user may enter and read.
func newPublicFolder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "muster-test-")
	testenv.NoError(t, errors.Join(err, os.Chmod(dir, 0o755)))
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// writeFile writes a file.
func writeFile[T ~string | ~[]byte](t testing.TB, path string, data T) {
	t.Helper()
	testenv.NoError(t, os.WriteFile(path, []byte(data), 0o600))
}

// writeFileInFolder writes a file into a folder and returns its path.
func writeFileInFolder(t testing.TB, dir, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(dir, name)
	writeFile(t, path, text)
	return path
}

// tempFile writes a file into a new temporary folder and returns its path.
func tempFile[T ~string | ~[]byte](t testing.TB, name string, data T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	writeFile(t, path, data)
	return path
}

// readFile returns the content of a file.
func readFile(t testing.TB, path string) []byte {
	t.Helper()
	data := testenv.Value(os.ReadFile(path))(t)
	return data
}

// readReport reads the report of a load run.
func readReport(t testing.TB, dir string) *report.Report {
	t.Helper()
	rep := testenv.Value(report.Read(filepath.Join(dir, "run.json")))(t)
	return rep
}

// expectTexts fails the test if an output lacks any of the given texts.
func expectTexts(t testing.TB, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !harness.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// expectNoTexts fails the test if an output contains any of the given texts.
func expectNoTexts(t testing.TB, text string, unwanted ...string) {
	t.Helper()
	for _, one := range unwanted {
		if strings.Contains(text, one) {
			t.Errorf("%q is in\n%s", one, text)
		}
	}
}

// awaitEvent waits until an event of the default namespace fulfils a condition, and returns the event.
func awaitEvent(
	t testing.TB, api *client.Client, node, check, what string, ok func(v1.Event) bool,
) (e v1.Event) {
	t.Helper()
	harness.Until(t, 2*time.Minute, fmt.Sprintf("%s/%s: %s", node, check, what), func() (string, bool) {
		e = getEvent(t, api, node, check)
		return fmt.Sprintf("%+v", e), ok(e)
	})
	return e
}
