//go:build linux

package test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/agent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// TestErrorMessagesSayWhatToType expects each error message to name the failed operation and the command to
// type. The messages are about checks and commands.
func TestErrorMessagesSayWhatToType(t *testing.T) {
	t.Parallel()
	s, _ := newUpServer(t)
	s.Args = []string{"--demo", "60"}
	s.Start()
	file := func(name, text string) string { return writeFileInFolder(t, s.Dir, name, text) }
	check := func(name, rest string) string {
		return "apiVersion: muster/v1\nkind: Check\nmetadata: {name: " + name + "}\nspec:\n  interval: 1s\n  " + rest + "\n"
	}
	testenv.Value(pki.Open(filepath.Join(s.Dir, "other"), []string{"localhost"}, time.Now))(t)
	host := testenv.Value(os.Hostname())(t)
	file("field.yaml", check("typing", "comand: date\n  targets: {groups: [all]}"))
	file("unit.yaml", check("typing", "command: date\n  ttl: 300\n  targets: {groups: [all]}"))
	s.CLI("apply", "-f", file("names.yaml", "kind: Group\nmetadata: {name: web}\nspec: {where: 'node.labels.role == \"web\"'}\n---\nkind: Handler\nmetadata: {name: pager}\nspec: {command: 'true'}\n"))
	file("nobody.yaml", check("lonely", "command: date\n  targets: {groups: [wbe]}"))
	file("handler.yaml", check("lonely", "command: date\n  alert: {handlers: [pagr]}"))
	file("missing.yaml", check("missing", "command: check_nothing -w 1\n  targets: {groups: [all]}"))
	file("unset.yaml", check("unset", "command: 'echo {{ .props.nothing_warn }}'\n  targets: {groups: [all]}"))
	file("fleet.yaml", strings.Replace(check("wide", "command: date\n  targets: {groups: [fleet]}"), "{name: wide}", "{name: wide, namespace: demo}", 1))

	var text strings.Builder
	say := func(env []string, line string) {
		t.Helper()
		words := strings.Fields(strings.ReplaceAll(line, "DIR", s.Dir))
		r := harness.Run(t, append(s.Env(), env...), words...)
		fmt.Fprintf(&text, "$ muster %s\n%s%s", line, r.Out, r.Errors)
		if r.Code != 0 {
			fmt.Fprintf(&text, "[exit code %d]\n", r.Code)
		}
		text.WriteByte('\n')
	}
	say(nil, "--server https://"+harness.ReservePort(t)+" status")
	say(nil, "--ca DIR/other/ca.crt status")
	say([]string{"MUSTER_SERVER=https://127.0.0.1:" + s.Listen[strings.LastIndexByte(s.Listen, ':')+1:]}, "status")
	token := s.CLI("auth", "token", "create", "--expires", "1s")
	expired := []string{"MUSTER_TOKEN=" + strings.TrimSpace(token)}
	harness.Until(t, 20*time.Second, "the token expires", func() (string, bool) {
		r := harness.Run(t, append(s.Env(), expired...), "auth", "whoami")
		return r.Out, r.Code == model.Unauthenticated.Exit()
	})
	say(expired, "status")
	say([]string{"MUSTER_TOKEN=" + strings.TrimSpace(s.CLI("auth", "token", "create"))}, "apply -f DIR/missing.yaml")
	for _, line := range []string{"lint DIR/field.yaml", "lint DIR/unit.yaml", "apply -f DIR/nobody.yaml", "apply -f DIR/handler.yaml",
		"apply -f DIR/missing.yaml -m try", "apply -f DIR/unset.yaml", "plan -f DIR/fleet.yaml", "apply -f DIR/fleet.yaml"} {
		say(nil, line)
	}
	for _, name := range []string{"missing", "unset"} {
		harness.Until(t, 30*time.Second, name+" has a result", func() (string, bool) {
			e := eventsByCheck(t, s)[name]
			if e.Results > 0 {
				fmt.Fprintf(&text, "the event %s is %s: %s\n\n", name, e.Status, e.Output)
			}
			return e.Output, e.Results > 0
		})
	}
	say(nil, "up --data "+s.Data)
	hide := []struct{ what, with string }{
		{regexp.QuoteMeta(s.Data), "DATA"}, {regexp.QuoteMeta(s.Dir), "DIR"}, {regexp.QuoteMeta(s.Listen), "LISTEN"}, {`(localhost|127\.0\.0\.1):\d+`, "$1:PORT"},
		{`\b` + regexp.QuoteMeta(host) + `\b`, "HOST"}, {`\d{4}-\d\d-\d\dT[0-9:]+Z`, "TIME"}, {`process \d+`, "process PID"},
		{`sha256:[0-9a-f]{16}…`, "SUM"},
		{`PATH is \S+`, "PATH is …"},
	}
	said := text.String()
	for _, h := range hide {
		said = regexp.MustCompile(h.what).ReplaceAllString(said, h.with)
	}
	compareGoldenFile(t, "messages.txt", said)
	s.Stop()
}

// TestFrequentErrorsSayWhatToType expects the ten most frequent error messages to name the command to type.
// docs/troubleshooting.md shows the same texts.
func TestFrequentErrorsSayWhatToType(t *testing.T) {
	t.Parallel()
	for _, m := range frequentErrors {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			x := &transcript{t: t, dir: t.TempDir()}
			m.provoke(x)
			x.compareTranscript(m.name)
		})
	}
}

var frequentErrors = []struct {
	name    string
	provoke func(x *transcript)
}{
	{"no-server", (*transcript).recordNoServer},
	{"wrong-ca", (*transcript).recordWrongCA},
	{"token-expired", (*transcript).recordTokenExpired},
	{"port-taken", (*transcript).recordPortInUse},
	{"plug-in-missing", (*transcript).recordPlugInMissing},
	{"group-empty", (*transcript).recordEmptyGroup},
	{"property-unset", (*transcript).recordPropertyUnset},
	{"clock-off", (*transcript).recordWrongClock},
	{"disk-budget", (*transcript).recordFullJournal},
	{"frame-refused", (*transcript).recordResultsRefused},
}

// transcript collects command outputs and log lines, for comparison with a documentation page. A test compares
// the collected text with a documentation page.
type transcript struct {
	t    *testing.T
	s    *harness.Server
	dir  string
	text strings.Builder
	hide [][2]string // a text that differs between runs, and its placeholder
}

// startServer starts a server and, if node is not empty, an agent for the node.
func (x *transcript) startServer(node string, args ...string) *harness.Agent {
	x.t.Helper()
	x.s = harness.StartServer(x.t, args...)
	if node == "" {
		return nil
	}
	a := x.s.StartAgent(node)
	a.AwaitLog("msg=connected")
	return a
}

// addHeading adds a heading that names the source of the next text, such as the agent's log.
func (x *transcript) addHeading(format string, args ...any) {
	if x.text.Len() > 0 {
		x.text.WriteByte('\n')
	}
	fmt.Fprintf(&x.text, format+"\n", args...)
}

// recordCommand runs a command, and records the command line and the output.
func (x *transcript) recordCommand(env []string, line string) {
	x.t.Helper()
	if x.s != nil {
		env = append(x.s.Env(), env...)
	} else {
		env = append([]string{"HOME=" + x.dir}, env...)
	}
	r := harness.Run(x.t, env, strings.Fields(strings.NewReplacer("DIR", x.dir).Replace(line))...)
	x.addHeading("$ muster %s\n%s", line, strings.TrimSpace(r.Out+r.Errors))
}

// recordLogLine waits for a log line that contains given words, and adds the line to the transcript.
func (x *transcript) recordLogLine(where string, log func() string, words string) {
	x.t.Helper()
	harness.Until(x.t, 60*time.Second, fmt.Sprintf("%s says %q", where, words), func() (string, bool) {
		for line := range strings.Lines(log()) {
			if strings.Contains(line, words) {
				x.addHeading("# %s\n%s", where, strings.TrimSpace(line))
				_, rest, _ := strings.Cut(log(), line) // the hint to type on the following lines
				for more := range strings.Lines(rest) {
					if !strings.HasPrefix(more, "  ") {
						break
					}
					x.text.WriteString(strings.TrimRight(more, "\n") + "\n")
				}
				return "", true
			}
		}
		return log(), false
	})
}

// recordEventOutput waits for the event of a check and records its output.
func (x *transcript) recordEventOutput(check string) {
	x.t.Helper()
	harness.Until(x.t, 40*time.Second, check+" has a result", func() (string, bool) {
		e := eventsByCheck(x.t, x.s)[check]
		if e.Results > 0 {
			x.addHeading("# event %s is %s\n%s", check, e.Status, e.Output)
		}
		return e.Output, e.Results > 0
	})
}

// addFile writes a file for the recorded commands into the transcript's folder.
func (x *transcript) addFile(name, text string) {
	x.t.Helper()
	writeFile(x.t, filepath.Join(x.dir, name), text)
}

// replaceText puts a placeholder into the transcript for a text that differs between runs.
func (x *transcript) replaceText(text, name string) {
	x.hide = append(x.hide, [2]string{regexp.QuoteMeta(text), name})
}

// compareTranscript compares the collected texts with a golden file.
func (x *transcript) compareTranscript(name string) {
	x.t.Helper()
	said := x.text.String()
	hide := x.hide
	if x.s != nil {
		port := x.s.Listen[strings.LastIndexByte(x.s.Listen, ':'):]
		hide = append(hide, [2]string{regexp.QuoteMeta(x.s.Data), "DATA"}, [2]string{regexp.QuoteMeta(port) + `\b`, ":8443"},
			[2]string{regexp.QuoteMeta(filepath.Dir(x.s.Data)), "FOLDER"})
	}
	hide = append(hide, [2]string{regexp.QuoteMeta(x.dir), "DIR"}, [2]string{`join token [0-9a-f]{16}`, "join token ID"}, [2]string{`time=\S+ level`, "level"}, [2]string{`in=[0-9.]+m?s`, "in=1s"},
		[2]string{`\d{4}-\d\d-\d\d[T ][0-9:]+ ?(Z|UTC)`, "TIME"}, [2]string{`PATH is [^\s"]+`, "PATH is …"}, [2]string{`number=\d+`, "number=N"},
		[2]string{`from 127\.0\.0\.1:\d+`, "from 127.0.0.1:PORT"}, [2]string{`sha256:[0-9a-f]+`, "sha256:…"}, [2]string{`\d+(ms|s) ago`, "0s ago"}, [2]string{` reached a limit \d+ times, last by sender `, " reached a limit 3 times, last by sender "}, [2]string{`revision \d+`, "revision 7"},
		[2]string{`count=\d+`, "count=1"})
	for _, h := range hide {
		said = regexp.MustCompile(h[0]).ReplaceAllString(said, h[1])
	}
	said = strings.TrimSpace(said)
	compareGoldenFile(x.t, filepath.Join("messages", name+".golden"), said+"\n")
}

// startAgentWithoutSession starts an agent that the server never accepts.
func (x *transcript) startAgentWithoutSession(server, token string, more ...string) *harness.Process {
	args := append([]string{"agent", "--state-dir", filepath.Join(x.dir, "state"), "--name", "web01", "--server", server}, more...)
	return harness.Launch(x.t, []string{"MUSTER_TOKEN=" + token}, args...)
}

// recordNoServer records the messages of commands and of an agent when the server does not run.
func (x *transcript) recordNoServer() {
	address := harness.ReservePort(x.t)
	x.replaceText(address[strings.LastIndexByte(address, ':'):], ":8443")
	x.recordCommand(nil, "--server https://"+address+" status")
	x.recordCommand(nil, "status")
	x.startServer("")
	a := x.s.NewAgent("web01")
	x.s.Stop()
	x.recordLogLine("log of the agent, before it has joined", x.startAgentWithoutSession(x.s.Listen, a.Token).Log, "cannot join")
	x.s.Start()
	b := x.s.StartAgent("web02")
	b.AwaitLog("msg=connected")
	x.s.Kill()
	x.recordLogLine("log of the agent, when the server goes", b.Log, "no session")
}

// recordWrongCA records the messages about a server whose certificate is from an unexpected CA.
func (x *transcript) recordWrongCA() {
	x.startServer("")
	testenv.Value(pki.Open(filepath.Join(x.dir, "other"), []string{"localhost"}, time.Now))(x.t)
	x.recordCommand([]string{"MUSTER_CA=" + filepath.Join(x.dir, "other/ca.crt")}, "status")
	other := harness.StartServer(x.t)
	x.recordLogLine("log of an agent with the token of another server", x.startAgentWithoutSession(x.s.Listen, other.NewAgent("web01").Token).Log, "join")
	x.replaceText(other.Listen[strings.LastIndexByte(other.Listen, ':'):], ":9443")
}

// recordTokenExpired records the messages about an expired API token.
func (x *transcript) recordTokenExpired() {
	x.startServer("")
	token := strings.TrimSpace(x.s.CLI("auth", "token", "create", "--expires", "1s"))
	harness.Until(x.t, 20*time.Second, "the token expires", func() (string, bool) {
		r := harness.Run(x.t, append(x.s.Env(), "MUSTER_TOKEN="+token), "auth", "whoami")
		return r.Out, r.Code == model.Unauthenticated.Exit()
	})
	x.recordCommand([]string{"MUSTER_TOKEN=" + token}, "status")
	line := x.s.CLI("node", "token", "--for", "1s")
	join := regexp.MustCompile(`mj1\.\S+|(?:TOKEN=|--token )(\S+)`).FindString(line)
	join = strings.Trim(join[strings.LastIndexAny(join, "= ")+1:], `'"`)
	made := time.Now()
	harness.Until(x.t, 20*time.Second, "the token's second has passed", func() (string, bool) { return "", time.Since(made) > 2*time.Second })
	x.recordLogLine("an agent that joins with it", x.startAgentWithoutSession(x.s.Listen, join).Log, "expired at")
}

// recordPortInUse records the server's messages when its port is in use.
func (x *transcript) recordPortInUse() {
	x.startServer("")
	second := harness.NewServer(x.t)
	second.Listen = x.s.Listen
	second.Launch()
	second.Wait(40 * time.Second)
	port := x.s.Listen[strings.LastIndexByte(x.s.Listen, ':')+1:]
	x.replaceText("sport = :"+port, "sport = :8443")
	x.addHeading("$ muster server --listen %s\n%s", x.s.Listen, strings.TrimSpace(strings.Join(outputLines(second.Log()), "\n")))
}

// outputLines returns the lines of a program's output that are not log lines.
func outputLines(log string) (lines []string) {
	for line := range strings.Lines(log) {
		if !strings.HasPrefix(line, "time=") {
			lines = append(lines, strings.TrimRight(line, "\n"))
		}
	}
	return lines
}

// recordPlugInMissing records the messages about a check whose monitoring plug-in is not installed.
func (x *transcript) recordPlugInMissing() {
	x.startServer("web01")
	x.addFile("mail.yaml", "kind: Check\nmetadata: {name: mail}\nspec: {interval: 1s, command: check_smtp_tls -H localhost, targets: {groups: [all]}}\n")
	x.s.CLI("apply", "-f", filepath.Join(x.dir, "mail.yaml"))
	x.recordEventOutput("mail")
	if host, err := os.Hostname(); err == nil {
		x.replaceText("on "+host, "on HOST")
	}
}

// recordEmptyGroup records the messages about a check whose group has no members.
func (x *transcript) recordEmptyGroup() {
	x.startServer("web01")
	x.addFile("web.yaml", "kind: Group\nmetadata: {name: web}\nspec: {where: 'node.labels.role == \"web\"'}\n---\nkind: Check\nmetadata: {name: https}\nspec: {interval: 60s, probe: {name: tcp, args: {address: 'localhost:443'}}, targets: {groups: [web]}}\n")
	x.recordCommand(nil, "apply -f DIR/web.yaml")
	x.s.AwaitOutput("why web01/https", "assigned") // the planner compiles after apply has answered
	x.recordCommand(nil, "why web01/https")
}

// recordPropertyUnset records the messages about a check that uses a property without a value.
func (x *transcript) recordPropertyUnset() {
	x.startServer("web01")
	x.addFile("queue.yaml", "kind: Check\nmetadata: {name: queue}\nspec: {interval: 1s, command: 'ls {{ .props.queue_dir }}', targets: {groups: [all]}}\n")
	x.recordCommand(nil, "apply -f DIR/queue.yaml")
	x.recordEventOutput("queue")
}

// recordWrongClock records the messages about an agent whose clock is wrong. The agent runs in the test process.
func (x *transcript) recordWrongClock() {
	x.startServer("")
	x.s.Apply("kind: Check\nmetadata: {name: clock}\nspec: {interval: 1s, probe: {name: clock}, targets: {groups: [all]}}\n")
	joins := x.s.NewAgent("web01")
	var clock wallClock
	clock.ahead.Store(3600)
	machine := agent.ThisMachine()
	machine.Now = clock.now
	log := &logBuffer{}
	a, err := agent.New(agent.Config{StateDir: joins.State, Token: joins.Token, Servers: []string{x.s.Listen}, Name: joins.Name, Machine: machine,
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{ReplaceAttr: model.LogAttr}))})
	testenv.NoError(x.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	x.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			x.t.Error(err)
		}
	})
	x.recordEventOutput("clock")
	x.recordLogLine("log of the agent", log.String, "this machine's clock")
	x.hide = append(x.hide, [2]string{`(1h0m|59m5\d|3600|3599|1h|59m)[0-9.]*m?s?`, "1h0m0s"})
}

// recordFullJournal records the messages about a journal that has reached its size limit.
func (x *transcript) recordFullJournal() {
	fleet := harness.Fleet{Agents: 8, Checks: 4, Interval: 100 * time.Millisecond, OutputBytes: 60_000}
	x.s = harness.StartFleet(x.t, fleet, "--journal-budget", "64MiB")
	release := lockHistory(x.t, x.s) // history that is behind keeps the journal from being cut
	runLoadInBackground(x.t, x.s.LoadConfig(fleet, time.Minute))
	x.t.Cleanup(release)
	x.recordLogLine("readyz", func() string { why, _ := x.s.Ready(); return why }, "The journal cannot delete segments:")
	harness.Until(x.t, 60*time.Second, "status names the cause", func() (string, bool) {
		out := x.s.CLI("status")
		for line := range strings.Lines(out) {
			if strings.Contains(line, "not ready") && strings.Contains(line, "The journal cannot delete segments:") {
				x.addHeading("# muster status\n%s", strings.TrimSpace(line))
				return "", true
			}
		}
		return out, false
	})
	x.hide = append(x.hide, [2]string{`history is \S+ behind, by [0-9.]+ \wiB of the journal( \(its queue [^)]*\))?`, "history is 40s behind, by 60.0 MiB of the journal"})
}

// recordResultsRefused records the messages about results that the server refused because of a limit.
func (x *transcript) recordResultsRefused() {
	a := x.startServer("web01", "--node-states", "3")
	var checks strings.Builder
	for i := range 5 {
		fmt.Fprintf(&checks, "---\nkind: Check\nmetadata: {name: check-%d}\nspec: {interval: 1s, command: 'echo %d', targets: {groups: [all]}}\n", i, i)
	}
	x.s.Apply(checks.String())
	x.recordLogLine("log of the agent", a.Log, "server refused results")
	x.recordLogLine("log of the server", x.s.Log, "refused a signal")
	harness.Until(x.t, 60*time.Second, "status names the cause", func() (string, bool) {
		out := x.s.CLI("status")
		for line := range strings.Lines(out) {
			if strings.Contains(line, "limit") {
				x.addHeading("# muster status\n%s", strings.TrimSpace(line))
				return "", true
			}
		}
		return out, false
	})
	x.s.CLI("delete", "node", "web01", "--yes")
	x.recordLogLine("log of an agent whose node was deleted", a.Log, "no session")
}

// logBuffer is a log in memory that a test can read while the server writes.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write appends to the log.
func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns the log so far.
func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// The page docs/troubleshooting.md shows the same error messages as the program.
func TestTroubleshootingPageShowsMessages(t *testing.T) {
	path := filepath.Join(harness.Root(), "docs/troubleshooting.md")
	page := readFile(t, path)
	text, at := string(page), 0
	for _, m := range frequentErrors {
		said := readFile(t, filepath.Join("testdata/messages", m.name+".golden"))
		mark := "<!-- " + m.name + " -->\n"
		want := mark + "```text\n" + string(said) + "```\n"
		place := regexp.MustCompile(regexp.QuoteMeta(mark) + "(?:```text\n(?s:.*?)\n```\n)?").FindStringIndex(text)
		if place == nil {
			t.Errorf("the page does not speak of %s", m.name)
			continue
		}
		assert(t, place[0] >= at, "%s stands in another place than in the list", m.name)
		text, at = text[:place[0]]+want+text[place[1]:], place[0]
	}
	assert(t, strings.Count(text, "<!-- ") == len(frequentErrors), "the page shows more than the ten")
	testenv.Golden(t, path, text)
}
