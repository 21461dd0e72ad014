//go:build linux

package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/test/harness"
)

// Of what checks and handlers run nothing is left when the program that started it was
// killed: neither the shell nor what the shell has started, and not the guard itself.
func TestKillEndsCommands(t *testing.T) {
	t.Parallel()
	const compound = `sh -c "sleep 1000 & sleep 1000 | cat; :"`
	resources := func(mark string) string {
		return fmt.Sprintf(`
{apiVersion: muster/v1, kind: Check, metadata: {name: hangs}, spec: {targets: {groups: [all]}, interval: 1h, timeout: 30m, command: %[1]q, env: {MARK: %[2]s-check}}}
---
{apiVersion: muster/v1, kind: Handler, metadata: {name: hangs}, spec: {command: %[1]q, timeout: 10m, env: {MARK: %[2]s-handler}}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: bad}, spec: {targets: {groups: [all]}, interval: 1s, command: "exit 2", alert: {handlers: [hangs]}}}
`, compound, mark)
	}
	runs := func(t *testing.T, mark string) {
		t.Helper()
		harness.Until(t, 60*time.Second, mark+" runs", func() (string, bool) {
			names := markedProcessNames(mark)
			count := func(name string) (n int) {
				for _, x := range names {
					if x == name {
						n++
					}
				}
				return n
			}
			return fmt.Sprint(names), count("sleep") == 2 && count("cat") == 1
		})
	}
	ends := func(t *testing.T, mark string) {
		t.Helper()
		harness.Until(t, 10*time.Second, mark+" ends", func() (string, bool) { names := markedProcessNames(mark); return fmt.Sprint(names), len(names) == 0 })
	}
	killed := func(t *testing.T, p *harness.Process) {
		t.Helper()
		started := descendants(p.PID())
		if len(started) < 4 { // sh, sleep, sleep, cat
			t.Fatalf("it started only %v", started)
		}
		p.Kill()
		harness.Until(t, 10*time.Second, "all that it started is gone", func() (string, bool) {
			var left []string
			for pid, one := range started {
				if now, ok := processes()[pid]; ok && now.began == one.began {
					left = append(left, now.name)
				}
			}
			return fmt.Sprint(left), len(left) == 0
		})
	}

	t.Run("muster up", func(t *testing.T) {
		t.Parallel()
		s, _ := startUp(t)
		s.Start()
		mark := newProcessMark(t)
		s.Apply(resources(mark))
		runs(t, mark+"-check")
		runs(t, mark+"-handler")
		killed(t, s.Process)
		ends(t, mark)
		s.Start() // the message was not delivered: the handler is called again
		runs(t, mark+"-handler")
		s.Stop()
		ends(t, mark)
	})
	t.Run("server and muster agent", func(t *testing.T) {
		t.Parallel()
		s := harness.StartServer(t)
		s.Client()
		a := s.NewAgent("branchy")
		mark := newProcessMark(t)
		s.Apply(resources(mark))
		a.Start()
		runs(t, mark+"-check")
		runs(t, mark+"-handler")
		killed(t, a.Process)
		ends(t, mark+"-check")
		runs(t, mark+"-handler")
		killed(t, s.Process)
		ends(t, mark)
	})
	t.Run("muster-agent", func(t *testing.T) {
		t.Parallel()
		if testing.Short() {
			t.Skip("builds the small binary")
		}
		binary := filepath.Join(t.TempDir(), "muster-agent")
		build := exec.Command("go", "build", "-o", binary, "./cmd/muster-agent")
		build.Dir, build.Env = harness.Root(), append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		s := harness.StartServer(t)
		s.Client()
		a := s.NewAgent("small")
		mark := newProcessMark(t)
		s.Apply(resources(mark))
		a.Process = harness.LaunchCommand(t, []string{"MUSTER_TOKEN=" + a.Token}, append([]string{binary, "--state-dir", a.State, "--name", a.Name}, a.Args...)...)
		runs(t, mark+"-check")
		killed(t, a.Process)
		ends(t, mark+"-check")
		s.Stop()
	})
}

// newProcessMark is what the environment of a test's commands holds; whatever still runs with it
// at the end is killed.
func newProcessMark(t *testing.T) string {
	mark := filepath.Base(filepath.Dir(t.TempDir()))
	t.Cleanup(func() {
		for pid := range markedProcesses(mark) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return mark
}

// markedProcessNames are the names of running processes whose environment holds a mark.
func markedProcessNames(mark string) (names []string) {
	for _, one := range markedProcesses(mark) {
		names = append(names, one.name)
	}
	slices.Sort(names)
	return names
}

func markedProcesses(mark string) map[int]process {
	list := processes()
	for pid := range list {
		if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err != nil || !strings.Contains(string(env), "MARK="+mark) {
			delete(list, pid)
		}
	}
	return list
}

// process is one that runs; a zombie does not.
type process struct {
	name   string
	parent int
	began  string // since boot: tells it from another of the same number
}

func processes() map[int]process {
	list := map[int]process{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		text := string(data) // PID (NAME) STATE PARENT …, the start is the 22nd
		begin, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
		f := strings.Fields(text[end+1:])
		one := process{name: text[begin+1 : end], began: f[19]}
		var pid int
		if _, err := fmt.Sscan(text, &pid); err != nil || f[0] == "Z" {
			continue
		}
		if _, err := fmt.Sscan(f[1], &one.parent); err == nil {
			list[pid] = one
		}
	}
	return list
}

// descendants are all that a process and its children have started.
func descendants(pid int) map[int]process {
	all, found := processes(), map[int]process{}
	for more := true; more; {
		more = false
		for n, one := range all {
			if _, known := found[n]; !known && (one.parent == pid || found[one.parent].name != "") {
				found[n], more = one, true
			}
		}
	}
	return found
}
