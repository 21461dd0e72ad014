//go:build linux

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/test/harness"
)

// Commands that misbehave end, with all that they started, and say so in their event;
// the agent stays small, and its other checks keep their rhythm.
func TestMisbehavingCommands(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	api := s.Client()
	a := s.NewAgent("busy", "--max-concurrent", "6")
	dir := t.TempDir()
	beats := filepath.Join(dir, "beats")
	bad := []struct {
		name, command, timeout string
		status                 model.Status
		says                   []string
	}{
		{"flood", "yes " + dir + " | head -c 100000000; exit 1", "45s", model.Warning, []string{dir, "[cut 99"}},
		{"endless", "echo began; while :; do sleep 0.2; : " + dir + "; done", "2s", model.Unknown, []string{"timed out after 2s", "began"}},
		{"stubborn", "trap '' TERM; echo never; while :; do sleep 0.2; : " + dir + "; done", "2s", model.Unknown, []string{"timed out after 2s", "never"}},
		{"parent", "sh -c 'sleep 1000; : " + dir + "' & sh -c 'sleep 1000; : " + dir + "' & echo gone", "30s", model.OK, []string{"gone", "children held the output open"}},
		{"missing", "check_of_" + filepath.Base(filepath.Dir(dir)) + " -w 1", "30s", model.Unknown, []string{"not found in PATH on busy\n  install it there, or name its folder to the agent: --plugin-path FOLDER\nPATH is ", "/usr/lib/nagios/plugins"}},
	}
	yaml := busyCheck("beat", "1s", "10s", "date +%s%N >>"+beats)
	for _, b := range bad {
		yaml += busyCheck(b.name, "5m", b.timeout, b.command)
	}
	s.Apply(yaml)
	a.Start()
	harness.Until(t, 30*time.Second, "the first beat", func() (string, bool) { return a.Log(), len(readTimes(t, beats)) > 0 })
	small := peakMemory(t, a.PID())

	for _, b := range bad {
		var e v1.Event
		harness.Until(t, 90*time.Second, b.name+" has a result", func() (string, bool) {
			e = eventOf(t, api, "busy", b.name)
			return fmt.Sprintf("%+v", e), e.Results > 0
		})
		if e.Status != b.status || len(e.Output) > 64<<10 {
			t.Errorf("%s is %s with %d bytes", b.name, e.Status, len(e.Output))
		}
		for _, want := range b.says {
			if !strings.Contains(e.Output, want) {
				t.Errorf("%s does not say %q: %.100s…%s", b.name, want, e.Output, e.Output[max(0, len(e.Output)-100):])
			}
		}
	}
	harness.Until(t, 20*time.Second, "nothing of them runs any more", func() (string, bool) {
		left := commandsIn(dir)
		return strings.Join(left, "\n"), len(left) == 0
	})
	now := peakMemory(t, a.PID())
	t.Logf("the agent's memory peaked at %d kB, %d kB before", now, small)
	if now > small+16<<10 {
		t.Errorf("the agent grew from %d to %d kB", small, now)
	}
	list := readTimes(t, beats)
	for i := 1; i < len(list); i++ {
		if gap := list[i].Sub(list[i-1]); gap > 5*time.Second {
			t.Errorf("beats %d and %d of %d are %s apart, want a second", i, i+1, len(list), gap)
		}
	}
	// A first result was nothing before, whatever it is.
	harness.Until(t, 20*time.Second, "history has the first result", func() (string, bool) {
		text := s.CLI("describe", "event", "busy/flood")
		if strings.Contains(text, "was OK") {
			t.Fatalf("there was no result before the first:\n%s", text)
		}
		return text, strings.Contains(text, "WARNING, the first result")
	})
	if first := statusChanges(t, api, "busy", "flood"); len(first) != 1 || first[0].Previous != nil {
		t.Errorf("history of a first result: %+v", first)
	}
	a.Stop()
}

// busyCheck is a check of the node busy.
func busyCheck(name, interval, timeout, command string) string {
	return fmt.Sprintf("apiVersion: muster/v1\nkind: Check\nmetadata: {name: %s}\nspec:\n  targets: {nodes: [busy]}\n  interval: %s\n  timeout: %s\n  command: %q\n---\n",
		name, interval, timeout, command)
}

// peakMemory is the most memory that a process ever had, in kB.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kB, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kB
}

// commandsIn are the command lines that name a folder, but for our own.
func commandsIn(dir string) (out []string) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		data, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(data), dir) && !strings.Contains(string(data), "--state-dir") {
			out = append(out, strings.ReplaceAll(string(data), "\x00", " "))
		}
	}
	return out
}

// readTimes are the nanoseconds in a file.
func readTimes(t *testing.T, path string) (out []time.Time) {
	t.Helper()
	data, _ := os.ReadFile(path)
	for line := range strings.Lines(string(data)) {
		if ns, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64); err == nil && strings.HasSuffix(line, "\n") {
			out = append(out, time.Unix(0, ns))
		}
	}
	return out
}
