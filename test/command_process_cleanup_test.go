//go:build linux

package test

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// When a server or agent is killed, the processes of its checks and handlers end.
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
		awaitEqual(t, mark+" ends", 0, func() int { return len(markedProcessNames(mark)) })
	}
	killed := func(t *testing.T, p *harness.Process) {
		t.Helper()
		started := descendants(p.PID())
		if len(started) < 4 { // sh, sleep, sleep, cat
			t.Fatalf("it started only %v", started)
		}
		p.Kill()
		harness.Until(t, 10*time.Second, "all started processes have ended", func() (string, bool) {
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
		s, _ := newUpServer(t)
		s.Start()
		mark := newProcessMarker(t)
		s.Apply(resources(mark))
		runs(t, mark+"-check")
		runs(t, mark+"-handler")
		killed(t, s.Process)
		ends(t, mark)
		s.Start() // the delivery did not succeed: its handler is called again
		runs(t, mark+"-handler")
		s.Stop()
		ends(t, mark)
	})
	t.Run("server and muster agent", func(t *testing.T) {
		t.Parallel()
		s := harness.StartServer(t)
		a := s.NewAgent("branchy")
		mark := newProcessMarker(t)
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
		skipIfShort(t, "builds the small binary")
		binary := filepath.Join(t.TempDir(), "muster-agent")
		build := exec.Command("go", "build", "-o", binary, "./cmd/muster-agent")
		build.Dir, build.Env = harness.Root(), append(os.Environ(), "CGO_ENABLED=0")
		out, err := build.CombinedOutput()
		require(t, err == nil, "%v\n%s", err, out)
		s := harness.StartServer(t)
		a := s.NewAgent("small")
		mark := newProcessMarker(t)
		s.Apply(resources(mark))
		a.Process = harness.LaunchCommand(t, []string{"MUSTER_TOKEN=" + a.Token}, append([]string{binary, "--state-dir", a.State, "--name", a.Name}, a.Args...)...)
		runs(t, mark+"-check")
		killed(t, a.Process)
		ends(t, mark+"-check")
		s.Stop()
	})
}

// newProcessMarker returns a random text that marks a test's processes in their environment variables. By this
// text, a test finds the commands' processes. Processes with it are killed when the test ends.
func newProcessMarker(t *testing.T) string {
	mark := filepath.Base(filepath.Dir(t.TempDir()))
	t.Cleanup(func() {
		for pid := range markedProcesses(mark) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return mark
}

// markedProcessNames returns the names of the processes with a marker in their environment.
func markedProcessNames(mark string) (names []string) {
	for _, one := range markedProcesses(mark) {
		names = append(names, one.name)
	}
	slices.Sort(names)
	return names
}

// markedProcesses returns the processes with a marker in their environment.
func markedProcesses(mark string) map[int]process {
	list := processes()
	for pid := range list {
		if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err != nil || !strings.Contains(string(env), "MARK="+mark) {
			delete(list, pid)
		}
	}
	return list
}

// process describes a running process.
type process struct {
	name   string
	parent int
	began  string // start time since boot, which tells it from another process of the same id
}

// processes returns all running processes by id, without zombies.
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

// descendants returns the child processes of a process, and their children.
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

// TestMisbehavingCommandsEnd runs checks whose commands flood, hang or ignore SIGTERM, and expects the agent to end
// each. It also ends commands that leave child processes. Each ends with all its processes, and its event says why.
// The agent's memory stays small and its other checks keep their intervals.
func TestMisbehavingCommandsEnd(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
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
		{"parent", "sh -c 'sleep 1000; : " + dir + "' & sh -c 'sleep 1000; : " + dir + "' & echo gone", "30s", model.OK, []string{"gone", "(its child processes kept the output open and were killed)"}},
		{"missing", "check_of_" + filepath.Base(filepath.Dir(dir)) + " -w 1", "30s", model.Unknown, []string{"not found in PATH on busy\n  install it there, or name its folder to the agent: --plugin-path FOLDER\nPATH is ", "/usr/lib/nagios/plugins"}},
	}
	yaml := busyCheck("beat", "1s", "10s", "date +%s%N >>"+beats)
	for _, b := range bad {
		yaml += busyCheck(b.name, "5m", b.timeout, b.command)
	}
	s.Apply(yaml)
	a.Start()
	harness.Until(t, 30*time.Second, "the check runs for the first time", func() (string, bool) { return a.Log(), len(readTimes(t, beats)) > 0 })
	small := peakMemory(t, a.PID())

	for _, b := range bad {
		e := awaitEvent(t, s.API, "busy", b.name, b.name+" has a result", func(e v1.Event) bool { return e.Results > 0 })
		assert(t, e.Status == b.status && len(e.Output) <= 64<<10, "%s is %s with %d bytes", b.name, e.Status, len(e.Output))
		expectTexts(t, e.Output, b.says...)
	}
	awaitEqual(t, "remaining processes of the commands", 0, func() int { return len(commandLinesMentioning(dir)) })
	now := peakMemory(t, a.PID())
	t.Logf("the agent's memory peaked at %d kB, %d kB before", now, small)
	assert(t, now <= small+16<<10, "the agent grew from %d to %d kB", small, now)
	list := readTimes(t, beats)
	for i := 1; i < len(list); i++ {
		gap := list[i].Sub(list[i-1])
		assert(t, gap <= 5*time.Second, "beats %d and %d of %d are %s apart, want a second", i, i+1, len(list), gap)
	}
	// History shows a first result without a status before it.
	harness.Until(t, 20*time.Second, "history has the first result", func() (string, bool) {
		text := s.CLI("describe", "event", "busy/flood")
		expectNoTexts(t, text, "was OK")
		return text, strings.Contains(text, "WARNING, the first result")
	})
	first := statusChanges(t, s.API, "busy", "flood")
	assert(t, len(first) == 1 && first[0].Previous == nil, "history of a first result: %+v", first)
	a.Stop()
}

// busyCheck returns the YAML of a check on the node "busy".
func busyCheck(name, interval, timeout, command string) string {
	return fmt.Sprintf("apiVersion: muster/v1\nkind: Check\nmetadata: {name: %s}\nspec:\n  targets: {nodes: [busy]}\n  interval: %s\n  timeout: %s\n  command: %q\n---\n",
		name, interval, timeout, command)
}

// peakMemory returns the peak memory of a process in kB.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	status := readFile(t, fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kB := testenv.Value(strconv.Atoi(strings.Fields(rest)[0]))(t)
	return kB
}

// commandLinesMentioning returns the command lines of running processes that mention a folder, without agents.
func commandLinesMentioning(dir string) (out []string) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		data, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(data), dir) && !strings.Contains(string(data), "--state-dir") {
			out = append(out, strings.ReplaceAll(string(data), "\x00", " "))
		}
	}
	return out
}

// readTimes reads times in Unix nanoseconds from a file, one per line.
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

// TestRunAsDropsAgentRights runs a check with the setting runAs, and expects only the named user's rights.
func TestRunAsDropsAgentRights(t *testing.T) {
	testenv.SkipUnlessRoot(t)
	nobody, err := user.Lookup("nobody")
	if err != nil {
		testenv.Skip(t, "there is no user nobody", "useradd nobody")
	}
	t.Parallel()
	s := harness.StartServer(t)
	a := s.NewAgent("rooted")
	a.Process = harness.Launch(t, []string{
		"MUSTER_TOKEN=" + a.Token, "LANG=C.UTF-8", "TZ=UTC", "HTTPS_PROXY=http://ann:s3cret@127.0.0.1:9", "NO_PROXY=127.0.0.1", "AWS_SECRET_ACCESS_KEY=s3cret",
		"LD_LIBRARY_PATH=/root/lib", "BASH_ENV=/root/env", "ENV=/root/env",
	}, append([]string{"agent", "--state-dir", a.State, "--name", a.Name}, a.Args...)...)
	const all = `targets: {groups: [all]}, interval: 1m`
	s.Apply(`
{apiVersion: muster/v1, kind: Property, metadata: {name: who}, spec: {value: nobody}}
---
{apiVersion: muster/v1, kind: Property, metadata: {name: empty}, spec: {value: ""}}
---
{apiVersion: muster/v1, kind: Property, metadata: {name: root-again}, spec: {property: tricky, value: "nobody root"}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: id}, spec: {` + all + `, runAs: nobody, command: 'echo "$(id -u) $(id -g) groups: $(id -G)"'}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: by-property}, spec: {` + all + `, runAs: "{{ .props.who }}", command: 'id -un'}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: shadow}, spec: {` + all + `, runAs: nobody, command: 'cat /etc/shadow; cat ` + filepath.Join(a.State, "identity.json") + `; cat /proc/$PPID/environ; kill -0 $PPID && echo may kill'}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: env}, spec: {` + all + `, runAs: nobody, env: {OWN: own}, command: 'env | sort; ls -l /proc/$$/fd'}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: terminal}, spec: {` + all + `, runAs: nobody, command: '(exec </dev/tty) 2>/dev/null && echo has a terminal; test "$(cut -d" " -f6 /proc/$$/stat)" = $$ && echo own session'}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: empty}, spec: {` + all + `, runAs: "{{ .props.empty }}", command: 'id -u'}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: tricky}, spec: {` + all + `, runAs: "{{ .props.tricky }}", command: 'id -u'}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: number}, spec: {` + all + `, runAs: "0", command: 'id -u'}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: nobody-there}, spec: {` + all + `, runAs: no-such-user, command: 'id -u'}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: own}, spec: {` + all + `, command: 'env | sort'}}
`)
	result := func(check string) v1.Event {
		t.Helper()
		e := awaitEvent(t, s.API, "rooted", check, check+" has a result", func(e v1.Event) bool { return e.Results > 0 })
		return e
	}
	if e := result("id"); !strings.HasPrefix(e.Output, nobody.Uid+" "+nobody.Gid+" groups: ") || strings.Contains(e.Output, " 0") {
		t.Errorf("id: %s", e.Output)
	}
	if e := result("by-property"); strings.TrimSpace(e.Output) != "nobody" {
		t.Errorf("by property: %s", e.Output)
	}
	if e := result("shadow"); strings.Contains(e.Output, "root:") || strings.Contains(e.Output, "key") || strings.Contains(e.Output, "may kill") || strings.Contains(e.Output, "s3cret") {
		t.Errorf("what only root may read: %s", e.Output)
	}
	e := result("env")
	expectNoTexts(t, e.Output, "s3cret", "MUSTER_", "LD_LIBRARY_PATH", "BASH_ENV")
	expectTexts(t, e.Output, "HOME="+nobody.HomeDir, "USER=nobody", "LOGNAME=nobody", "LANG=C.UTF-8", "TZ=UTC", "OWN=own")
	descriptors := 0
	for line := range strings.Lines(e.Output) {
		before, link, ok := strings.Cut(strings.TrimSpace(line), " -> ")
		if !ok {
			continue
		}
		fd, err := strconv.Atoi(before[strings.LastIndexByte(before, ' ')+1:])
		require(t, err == nil, "%v", line)
		descriptors++
		// Descriptors that the test runner left open are inherited; descriptors of the agent are not.
		ours, err := os.Readlink(fmt.Sprint("/proc/self/fd/", fd))
		assert(t, fd <= 2 || err == nil && ours == link, "the command of another user holds %s, descriptor %d", link, fd)
	}
	assert(t, descriptors >= 3, "no descriptors are seen:\n%s", e.Output)
	if e := result("terminal"); strings.TrimSpace(e.Output) != "own session" {
		t.Errorf("terminal: %q", e.Output)
	}
	for check, says := range map[string]string{"empty": "is empty", "tricky": ": the user does not exist", "number": ": the user does not exist", "nobody-there": ": the user does not exist"} {
		e := result(check)
		assert(t, e.Status == model.Unknown && strings.Contains(e.Output, says), "%s: %s %s", check, e.Status, e.Output)
	}
	if e := result("own"); strings.Contains(e.Output, "MUSTER_TOKEN") || !strings.Contains(e.Output, "HTTPS_PROXY") {
		t.Errorf("the agent's own user: %s", e.Output)
	}
}
