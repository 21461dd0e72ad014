//go:build linux

package test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// startAgents starts agents, and waits until all agents are connected.
func startAgents(t *testing.T, s *harness.Server, names ...string) map[string]*harness.Agent {
	t.Helper()
	agents := map[string]*harness.Agent{}
	for _, name := range names {
		agents[name] = s.NewAgent(name)
		agents[name].Start()
	}
	awaitConnected(t, s, len(names))
	return agents
}

// awaitConnected waits until n agents are connected.
func awaitConnected(t *testing.T, s *harness.Server, n int) {
	t.Helper()
	s.AwaitMetric(float64(n), "muster_session_handshakes_total", `"welcome"`) // before it, no session gets a request
}

// runLines decodes the output of an ad-hoc run, which is one JSON object per line.
func runLines(t *testing.T, text string) (list []v1.RunLine) {
	t.Helper()
	for line := range strings.Lines(text) {
		var l v1.RunLine
		decodeJSON(t, line, &l)
		list = append(list, l)
	}
	return list
}

// The output of an ad-hoc command arrives while the command runs.
func TestRunNowStreamsOutput(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	startAgents(t, s, "web01", "web02")
	dir := t.TempDir()
	s.Apply(`{apiVersion: muster/v1, kind: Check, metadata: {name: daily}, spec: {targets: {groups: [all]}, interval: 24h, command: "echo it is fine | tee -a ` + dir + `/$(date +%s%N)"}}`)
	var before v1.Event
	for _, node := range []string{"web01", "web02"} {
		before = awaitEvent(t, s.API, node, "daily", "it has a first result", func(e v1.Event) bool { return e.Results > 0 })
	}
	out := s.CLI("run", "daily", "--on", "web02")
	expectTexts(t, out, "web02  it is fine\n", "1 node:  1 OK")
	expectNoTexts(t, out, "web01")
	awaitEvent(t, s.API, "web02", "daily", "one result more", func(e v1.Event) bool { return e.Results == before.Results+1 })
	if out := s.CLI("run", "daily"); !strings.Contains(out, "2 nodes:  2 OK") { // on every node that is assigned the check
		t.Errorf("run a check everywhere:\n%s", out)
	}

	// Output arrives before the end: the command waits for a file that the test makes after it.
	gate := filepath.Join(dir, "gate")
	run := harness.Command(t, s.Env(), "run", "--command", "echo ready $$; while ! [ -e "+gate+" ]; do sleep 0.05; done; echo gone", "--on", "group:all", "-o", "json", "--yes")
	stdout := testenv.Value(run.StdoutPipe())(t)
	testenv.NoError(t, run.Start())
	ready, gone := 0, 0
	for scan := bufio.NewScanner(stdout); scan.Scan(); {
		l := runLines(t, scan.Text())[0]
		switch {
		case l.Type == v1.RunOutput && strings.Contains(l.Output, "ready"):
			if ready++; ready == 2 {
				writeFile(t, gate, "")
			}
		case l.Type == v1.RunOutput && strings.Contains(l.Output, "gone"):
			gone++
		}
	}
	err := run.Wait()
	assert(t, err == nil && ready == 2 && gone == 2, "%v: %d ready, %d gone", err, ready, gone)

	// Each ending of a run has its exit code and text.
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"--command", "exit 2", "--on", "web01"}, 20, []string{"web01  ", "CRITICAL after", "1 CRITICAL (web01)"}},
		{[]string{"--command", "test $(cat /proc/sys/kernel/hostname)x = x; exit 0", "--on", "all"}, 0, []string{"2 nodes:  2 OK"}},
		{[]string{"--command", "seq 100000", "--on", "web01", "--max-output", "1000"}, 0, []string{"bytes of output were truncated)", "1 node:  1 OK"}},
		{[]string{"--command", "echo same", "--on", "web01,web02", "--together"}, 0, []string{"2 nodes: web01, web02\n  same\n"}},
		{[]string{"--command", "id", "--on", `where:node.name in ["web01", "webx"],web01`}, 0, []string{"web01  uid=", "1 node:"}},
		{[]string{"--command", "id", "--on", "all", "--except", "web01"}, 0, []string{"web02  uid=", "1 node:"}},
		{[]string{"--command", "id", "--on", "web03"}, 3, []string{`node "web03" does not exist`, "did you mean web0"}},
		{[]string{"--command", "id", "--on", "group:wbe"}, 3, []string{"group/wbe does not exist"}},
		{[]string{"--command", "id", "--on", "where:node.nam == 1"}, 2, []string{"node.nam"}},
		{[]string{"--command", "id"}, 2, []string{"--on is missing"}},
		{[]string{"--command", "id", "--on", "all", "--max-affected", "1"}, 10, []string{"on 2 nodes", "--yes"}},
		{[]string{"dialy"}, 3, []string{"did you mean daily?"}},
		{[]string{"--command", "sleep 60; : " + dir + "/x", "--on", "web01", "--timeout", "1s"}, 20, []string{"timed out after 1s", "UNKNOWN"}},
	} {
		r := harness.Run(t, s.Env(), append([]string{"run"}, c.args...)...)
		for _, want := range c.says {
			if text := r.Out + r.Errors; r.Code != c.code || !strings.Contains(text, want) {
				t.Errorf("%v: code %d, want %d and %q:\n%s", c.args, r.Code, c.code, want, text)
			}
		}
	}
	left := commandLinesMentioning(dir + "/x")
	assert(t, len(left) == 0, "it goes on after its time-out: %v", left)
	audit := s.CLI("audit", "run")
	expectTexts(t, audit, "admin from 127.0.0.1 ran the command \"id\" on 1 node: all, but not web01", "ran check daily on 1 node: web02", `ran the command "exit 2" on 1 node: web01`)
	expectNoTexts(t, audit, "group:wbe")
}

// TestCancelledRunEndsOnItsMachine cancels ad-hoc runs, and expects the processes on the machine to end.
func TestCancelledRunEndsOnItsMachine(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	agents := startAgents(t, s, "web01", "web02")
	dir := t.TempDir()
	stays := "echo began; sh -c 'sleep 1000; : " + dir + "' & wait"
	begun := func(n int) {
		t.Helper()
		awaitEqual(t, fmt.Sprintf("it runs on %d", n), n, func() int { return len(sleepingProcesses(dir)) })
	}
	gone := func() {
		t.Helper()
		awaitEqual(t, "all processes ended", 0, func() int { return len(sleepingProcesses(dir)) })
	}
	run := harness.Command(t, s.Env(), "run", "--command", stays, "--on", "web01,web02", "--timeout", "10m")
	var errs strings.Builder
	run.Stderr = &errs
	testenv.NoError(t, run.Start())
	begun(2)
	testenv.NoError(t, run.Process.Signal(syscall.SIGINT))
	_ = run.Wait()
	assert(t, run.ProcessState.ExitCode() == 130 && strings.Contains(errs.String(), "on 2 nodes: web01, web02"),
		"code %d: %s", run.ProcessState.ExitCode(), errs.String())
	gone()

	done := make(chan harness.Result, 1)
	go func() {
		done <- harness.Run(t, s.Env(), "run", "--command", stays, "--on", "web01", "--timeout", "10m")
	}()
	begun(1)
	agents["web01"].Kill()
	if r := <-done; r.Code != 21 || !strings.Contains(r.Out, "web01  LOST: ") {
		t.Errorf("the agent was killed: code %d\n%s%s", r.Code, r.Out, r.Errors)
	}
	gone()
	// A run on a disconnected node fails at once.
	s.Try("run", "--command", "id", "--on", "all").Expect(21, "web01  LOST: ", "1 OK  1 lost (web01)")
}

// sleepingProcesses returns the running `sleep` processes with a folder's name in their command line.
func sleepingProcesses(dir string) (out []string) {
	for _, line := range commandLinesMentioning(dir) {
		if strings.Contains(line, "sleep 1000") && !strings.Contains(line, "began") {
			out = append(out, line)
		}
	}
	return out
}

// TestAgentRefusesForbiddenCommands forbids commands in an agent's own settings, and expects refused ad-hoc
// runs. The command may come from a check or an ad-hoc run.
func TestAgentRefusesForbiddenCommands(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	marks, evil := t.TempDir(), t.TempDir()
	list := tempFile(t, "commands", "# what may run here\nuptime\n/usr/bin/uname\necho one | cat\n")
	testenv.NoError(t, os.WriteFile(filepath.Join(evil, "uptime"), []byte("#!/bin/sh\ntouch "+marks+"/path\n"), 0o755))
	testenv.NoError(t, os.Symlink("/bin/touch", filepath.Join(evil, "link")))
	for name, args := range map[string][]string{"none": {"--no-run"}, "audit": {"--audit-only"}, "listed": {"--allow-commands", "@" + list}} {
		s.StartAgent(name, args...)
	}
	awaitConnected(t, s, 3)
	touch := "touch " + marks + "/"
	s.Apply(`
{apiVersion: muster/v1, kind: Check, metadata: {name: good}, spec: {targets: {groups: [all]}, interval: 24h, command: uptime}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: bad}, spec: {targets: {nodes: [listed]}, interval: 24h, command: "uptime; ` + touch + `check"}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: path}, spec: {targets: {nodes: [listed]}, interval: 24h, command: uptime, env: {PATH: "` + evil + `"}}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: env}, spec: {targets: {nodes: [listed]}, interval: 24h, command: [uptime], env: {LD_PRELOAD: /tmp/x.so}}}
`)
	for _, name := range []string{"bad", "path", "env"} {
		awaitEvent(t, s.API, "listed", name, "check "+name+" is refused", func(e v1.Event) bool {
			return e.Status == model.Unknown && strings.HasPrefix(e.Output, "refused on listed: the agent runs only the programs in its setting --allow-commands")
		})
	}
	for _, node := range []string{"none", "audit", "listed"} {
		awaitEvent(t, s.API, node, "good", "check good runs on "+node, func(e v1.Event) bool { return e.Status == model.OK && e.Results > 0 })
	}
	expect := func(code int, says string, args ...string) {
		t.Helper()
		s.Try(append([]string{"run"}, args...)...).Expect(code, says)
	}
	expect(21, "REFUSED: refused by the agent's setting --no-run", "--command", touch+"none", "--on", "none")
	expect(21, "--no-run", "good", "--on", "none")
	expect(21, "--audit-only", "--command", touch+"audit", "--on", "audit")
	expect(0, "1 OK", "good", "--on", "audit")
	expect(0, "up", "--command", "uptime", "--on", "listed")
	expect(0, "Linux", "--command", "/usr/bin/uname -s", "--on", "listed")
	expect(0, "one", "--command", "echo one | cat", "--on", "listed")
	for i, command := range []string{
		touch + "0", "uptime; " + touch + "1", "uptime $(" + touch + "2)", "uptime `" + touch + "3`", "uptime\n" + touch + "4", "uptime && " + touch + "5",
		"PATH=" + evil + " uptime", evil + "/uptime", evil + "/link " + marks + "/8", "/usr/bin/../bin/touch " + marks + "/9", "./bin/touch " + marks + "/10",
		"exec " + touch + "11", "env " + touch + "12", "echo one | cat; " + touch + "13", "uptime >" + marks + "/14", "uptime | tee " + marks + "/15",
	} {
		expect(21, "REFUSED", "--command", command, "--on", "listed")
		files, _ := filepath.Glob(marks + "/*")
		require(t, len(files) == 0, "%d: %q ran: %v", i, command, files)
	}
}

// TestRunNeedsPermission expects users to start only ad-hoc runs that their role allows.
func TestRunNeedsPermission(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	startAgents(t, s, "web01")
	s.Apply(`{apiVersion: muster/v1, kind: Check, metadata: {name: daily}, spec: {targets: {groups: [all]}, interval: 24h, command: "echo fine"}}`)
	awaitEvent(t, s.API, "web01", "daily", "the first result", func(e v1.Event) bool { return e.Results > 0 })
	token := func(args ...string) []string {
		t.Helper()
		return []string{"MUSTER_CONTEXT=" + s.Context, "MUSTER_TOKEN=" + strings.TrimSpace(s.CLI(append([]string{"auth", "token", "create"}, args...)...))}
	}
	viewer, operator, admin := token("--role", "viewer"), token("--role", "operator"), token("--role", "admin")
	may := token("--role", "operator", "--may-run-commands")
	check, command := []string{"run", "daily"}, []string{"run", "--command", "id", "--on", "all"}
	for _, c := range []struct {
		who  string
		env  []string
		args []string
		code int
		says string
	}{
		{"viewer", viewer, check, 6, "role operator or admin"},
		{"viewer", viewer, command, 6, "role operator or admin"},
		{"operator", operator, check, 0, "1 OK"},
		{"operator", operator, command, 6, "may not run commands"},
		{"operator", operator, []string{"delete", "check", "daily"}, 6, "read, run checks, silence, acknowledge and resolve events, but not"},
		{"operator", operator, []string{"event", "resolve", "web01/daily"}, 0, ""},
		{"operator who may", may, command, 0, "uid="},
		{"operator who may", may, []string{"auth", "token", "create", "--role", "admin"}, 6, ""},
		{"admin", admin, check, 0, "1 OK"},
		{"admin", admin, command, 6, "may not run commands"},
		{"admin", admin, []string{"auth", "user", "create", "eve", "--role", "operator", "--may-run-commands"}, 6, "may not run commands and cannot grant that permission"},
		{"admin", admin, []string{"auth", "token", "create", "--role", "operator", "--may-run-commands"}, 6, "may not run commands and cannot grant that permission"},
		{"first admin", s.Env(), []string{"auth", "token", "create", "--role", "viewer", "--may-run-commands"}, 2, "operator"},
		{"first admin", s.Env(), []string{"auth", "whoami"}, 0, "admin (admin, runs commands)"},
	} {
		harness.Run(t, c.env, c.args...).Expect(c.code, c.says)
	}
	audit := s.CLI("audit", "run")
	assert(t, strings.Count(audit, "the command") == 1, "one command ran:\n%s", audit)
}

// TestRunReachesEveryNode runs an ad-hoc command on 200 nodes, and expects an answer of each node.
func TestRunReachesEveryNode(t *testing.T) {
	t.Parallel()
	fleet := harness.Fleet{Agents: 200, Checks: 1, Interval: 10 * time.Second}
	s := harness.StartFleet(t, fleet)
	runLoadInBackground(t, s.LoadConfig(fleet, 5*time.Minute))
	awaitConnected(t, s, fleet.Agents)
	r := harness.Run(t, s.Env(), "run", "--command", "uptime", "-n", "load", "--on", "all", "--parallel", "20")
	r.Expect(10, "on 200 nodes")
	r = harness.Run(t, s.Env(), "run", "--command", "uptime", "-n", "load", "--on", "all", "--parallel", "20", "--yes")
	assert(t, r.Code == 0 && strings.Count(r.Out, "a simulated agent runs nothing") == 200 && strings.HasSuffix(r.Out, "200 nodes:  200 OK\n"),
		"code %d\n%s%s", r.Code, r.Out, r.Errors)
	r = harness.Run(t, s.Env(), "run", "--command", "uptime", "-n", "load", "--on", "all", "--together", "--yes")
	assert(t, r.Code == 0 && strings.Count(r.Out, "a simulated agent runs nothing") == 1,
		"together: code %d\n%s%s", r.Code, r.Out, r.Errors)
}
