//go:build linux

package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// newUpServer returns a test server that the command muster up will start in empty folders. Its Start runs the
// command muster up in that folder.
func newUpServer(t *testing.T) (s *harness.Server, home string) {
	t.Helper()
	s = harness.NewServer(t)
	dir := filepath.Dir(s.Data)
	home = filepath.Join(dir, "home")
	s.Command, s.Plain, s.Dir = "up", "", filepath.Join(dir, "work")
	s.Data = filepath.Join(s.Dir, "muster-data")
	s.Context = filepath.Join(home, ".config", "muster", "context.yaml")
	s.Environ = []string{"HOME=" + home}
	for _, d := range []string{home, s.Dir} {
		testenv.NoError(t, os.Mkdir(d, 0o700))
	}
	return s, home
}

// eventsByCheck returns a map of events of the default namespace, with check names as keys.
func eventsByCheck(t *testing.T, s *harness.Server) map[string]model.Event {
	t.Helper()
	var list struct {
		Items []model.Event `json:"items"`
	}
	text := s.CLI("get", "events", "-o", "json", "--limit", "0")
	decodeJSON(t, text, &list)
	out := map[string]model.Event{}
	for _, e := range list.Items {
		out[e.Check] = e
	}
	return out
}

// statusLine matches the output of status for one machine with eight checks, in any state.
var statusLine = regexp.MustCompile(`^(All is well|Nearly well|Not well)[:.].*\n[\s\S]*\nevents +(9|[1-9]\d+): [\s\S]*\nagents +1 connected of 1 node`)

// TestFirstResultsWithinFifteenSeconds starts a new server, and expects results of eight checks within fifteen
// seconds.
func TestFirstResultsWithinFifteenSeconds(t *testing.T) {
	s, home := newUpServer(t)
	began := time.Now()
	s.Start()
	harness.Until(t, 40*time.Second, "eight checks have results", func() (string, bool) {
		got := eventsByCheck(t, s)
		real := 0
		for _, e := range got {
			if e.Results > 0 && e.Output != "" && e.CheckID >= model.FirstCheck {
				real++
			}
		}
		return fmt.Sprint(got), real >= 8
	})
	took := time.Since(began)
	t.Logf("results of all checks after %s", took)
	limit := 15 * time.Second
	assert(t, took <= limit, "results after %s, want within %s", took, limit)
	out := s.CLI("status")
	assert(t, statusLine.MatchString(out), "status says %q, want %s", out, statusLine)

	// Nothing outside the data folder and the context file.
	var outside []string
	for _, root := range []string{home, s.Dir} {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if path == s.Data {
				return filepath.SkipDir
			}
			if err == nil && !d.IsDir() && path != s.Context {
				outside = append(outside, path)
			}
			return err
		})
	}
	assert(t, len(outside) == 0, "files outside the data folder: %v", outside)

	// After a kill, the next start succeeds and finds the earlier events.
	before := eventsByCheck(t, s)["disk"]
	s.Kill()
	s.Start()
	after := eventsByCheck(t, s)["disk"]
	assert(t, after.Results >= before.Results && after.NodeID == before.NodeID, "disk was %+v, is %+v", before, after)
	s.Stop()
}

// pageRunner runs the commands of a documentation page in a test. It writes the page's files, and runs the
// page's commands in a shell.
type pageRunner struct {
	t       *testing.T
	s       *harness.Server
	replace *strings.Replacer // replaces intervals by shorter ones, and folders by those of the test
	typed   int
	said    map[string]string // output of each line
}

// runUntil runs the commands of a documentation page up to a given line, and returns the remaining page. The
// line starts with the text until.
func (f *pageRunner) runUntil(page, until string) (rest string) {
	f.t.Helper()
	lines := strings.SplitAfter(page, "\n")
	for i := 0; i < len(lines); i++ {
		if until != "" && strings.HasPrefix(lines[i], until) {
			return strings.Join(lines[i:], "")
		}
		fence, ok := strings.CutPrefix(strings.TrimSpace(lines[i]), "```")
		if !ok {
			continue
		}
		var block []string
		for i++; !strings.HasPrefix(lines[i], "```"); i++ {
			block = append(block, strings.TrimRight(lines[i], "\n"))
		}
		switch fence {
		case "yaml":
			name := strings.TrimPrefix(block[0], "# ")
			text := f.replace.Replace(strings.Join(block, "\n") + "\n")
			writeFile(f.t, filepath.Join(f.s.Dir, name), text)
		case "sh":
			for _, line := range block {
				f.runLine(line)
			}
		}
	}
	require(f.t, until == "", "the page has no line %q", until)
	return ""
}

// runLine runs one command line of a documentation page in the shell. It repeats a command that failed because no
// result has arrived yet.
func (f *pageRunner) runLine(line string) {
	f.t.Helper()
	if line == "make up" {
		return // the server runs
	}
	f.typed++
	watch := strings.Contains(line, " -w")
	harness.Until(f.t, 40*time.Second, "$ "+line, func() (string, bool) {
		ctx, cancel := context.WithTimeout(f.t.Context(), 30*time.Second)
		if watch {
			ctx, cancel = context.WithTimeout(f.t.Context(), time.Second) // Ctrl-C
		}
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", "-c", "exec "+f.replace.Replace(line))
		cmd.Dir, cmd.Env, cmd.WaitDelay = f.s.Dir, append(f.s.Env(), "PATH="+filepath.Join(f.s.Dir, "bin")+":"+os.Getenv("PATH")), 5*time.Second
		out, err := cmd.CombinedOutput()
		f.t.Logf("$ %s\n%s", line, out)
		typed, _, _ := strings.Cut(line, " #")
		f.said[strings.TrimSpace(typed)] = string(out)
		if code := cmd.ProcessState.ExitCode(); strings.HasSuffix(line, "--exit-code") && (code == 20 || code == 21) {
			return string(out), true // codes 20 and 21 report the state of this machine
		}
		if watch {
			return string(out), strings.Contains(string(out), "NODE")
		}
		code := cmd.ProcessState.ExitCode()
		require(f.t, code == 0 || code == model.NotFound.Exit(), "$ %s\ncode %d, %v", line, code, err)
		return string(out), err == nil
	})
}

// Every command on the page docs/first-run.md works as shown.
func TestSmokeFirstRun(t *testing.T) {
	t.Parallel()
	s, _ := newUpServer(t)
	s.Context = filepath.Join(filepath.Dir(s.Dir), "elsewhere", "context.yaml") // the path in MUSTER_CONTEXT
	s.Start()
	page := readPage(t, "first-run.md")
	notebook, watched := filepath.Join(s.Dir, "notebook.jsonl"), filepath.Join(s.Dir, "files")
	linkBinary(t, s.Dir)
	testenv.NoError(t, os.Mkdir(watched, 0o700))
	writeFile(t, filepath.Join(watched, "one"), "")
	f := &pageRunner{t: t, s: s, said: map[string]string{}, replace: strings.NewReplacer("/tmp/muster-notebook.jsonl", notebook, "ls /var/tmp ", "ls "+watched+" ", "interval: 30s", "interval: 1s")}
	status := func(want model.Status, problem bool) {
		t.Helper()
		harness.Until(t, 30*time.Second, fmt.Sprintf("tmp-files is %s, problem %v", want, problem), func() (string, bool) {
			e := eventsByCheck(t, s)["tmp-files"]
			return fmt.Sprintf("%+v", e), e.Results > 0 && e.Status == want && (e.Problem != nil) == problem
		})
	}
	told := func(n int) (lines []string) {
		t.Helper()
		harness.Until(t, 30*time.Second, fmt.Sprintf("%d lines in the notebook", n), func() (string, bool) {
			data, _ := os.ReadFile(notebook)
			lines = strings.Split(strings.TrimSpace(string(data)), "\n")
			return string(data), len(lines) >= n && lines[0] != ""
		})
		return lines
	}
	rest := f.runUntil(page, "## 4.")
	status(model.OK, false)
	rest = f.runUntil(rest, "After two failures")
	status(model.Warning, true)
	told(1)
	rest = f.runUntil(rest, "## 5.")
	status(model.OK, false)
	lines := told(2)
	f.runUntil(rest, "")
	assert(t, f.typed >= 15, "only %d commands were typed", f.typed)
	assert(t, len(lines) == 2 && strings.Contains(lines[0], "opened") && strings.Contains(lines[1], "closed"),
		"the handler received:\n%s", strings.Join(lines, "\n"))
	for _, line := range lines {
		assert(t, json.Valid([]byte(line)) && strings.Contains(line, "tmp-files"), "the handler received %q", line)
	}
	problems, err := s.Client().Problems.List(t.Context(), "default", "", "tmp-files", false, 10, "")
	assert(t, err == nil && len(problems.Items) == 1 && !problems.Items[0].Closed.IsZero(), "problems: %+v, %v", problems, err)
	s.Stop()
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "rm ") {
			f.runLine(strings.TrimSpace(line))
		}
	}
	for _, file := range []string{s.Data, s.Context, notebook, filepath.Join(s.Dir, "files.yaml"), filepath.Join(s.Dir, "limit.yaml")} {
		_, err := os.Stat(file)
		assert(t, errors.Is(err, fs.ErrNotExist), "the page leaves %s (%v)", file, err)
	}
}

// TestUpKeepsLoginOfOtherServer expects muster up to keep another server's saved login (context file) under a new name.
func TestUpKeepsLoginOfOtherServer(t *testing.T) {
	t.Parallel()
	s, _ := newUpServer(t)
	const elsewhere = "server: https://muster.example.org:8443\ntoken: theirs\n"
	testenv.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(s.Context), 0o700), os.WriteFile(s.Context, []byte(elsewhere), 0o600)))
	s.Start()
	aside := s.Context + ".muster.example.org-8443"
	if kept, err := os.ReadFile(aside); err != nil || string(kept) != elsewhere {
		t.Errorf("kept %q, %v", kept, err)
	}
	s.AwaitLog(aside)
	s.Try("get", "namespaces").Expect(0, "default")
	s.Stop()
	writeFile(t, s.Context, elsewhere)
	own := filepath.Join(filepath.Dir(s.Context), "own.yaml")
	s.Args = append(s.Args, "--context-file", own)
	s.Start()
	s.AwaitLog(own)
	s.Try("--context-file", own, "get", "namespaces").Expect(0, "default")
	is, err := os.ReadFile(s.Context)
	assert(t, err == nil && string(is) == elsewhere, "beside --context-file, MUSTER_CONTEXT holds %q, %v", is, err)
	s.Stop()
}

// TestRestartedDemoStopsItsNodes restarts a demo server, and expects its simulated nodes to be reported as
// stopped. `--demo 0` removes them.
func TestRestartedDemoStopsItsNodes(t *testing.T) {
	t.Parallel()
	s, _ := newUpServer(t)
	s.Args = []string{"--demo", "60"}
	s.Start()
	fleet := func() v1.NodeStateList {
		list, err := s.Client().Nodes.States(t.Context(), v1.NodeFilter{Namespace: "demo", Limit: 100})
		require(t, err == nil || model.ClassOf(err) == model.NotFound, "%v", err)
		return list
	}
	harness.Until(t, 60*time.Second, "all nodes of the fleet are connected", func() (string, bool) {
		connected := 0
		for _, n := range fleet().Items {
			if n.Connected && !n.LastHeartbeat.IsZero() {
				connected++
			}
		}
		return fmt.Sprint(connected), connected == 60
	})
	s.Stop()
	s.Args = nil
	s.Start()
	for _, n := range fleet().Items {
		assert(t, n.Stopped, "%s did not say goodbye: %+v", n.Name, n)
	}
	s.Try("status").Expect(0, "60 nodes (", "stopped")
	s.AwaitLog("60 simulated machines of an earlier --demo")
	s.Stop()
	s.Args = []string{"--demo", "0"}
	s.Start()
	awaitEqual(t, "the fleet exists", false, func() bool { return strings.Contains(s.CLI("get", "namespaces"), "demo") || fleet().Total > 0 })
	awaitEqual(t, "events of the fleet exist", false, func() bool { return strings.Contains(s.CLI("get", "events", "-A"), "demo") })
	s.Stop()
}

// startPageServer starts a server with one agent (web01), and returns a pageRunner for the server. The server
// has no checks.
func startPageServer(t *testing.T) *pageRunner {
	t.Helper()
	s := harness.NewServer(t)
	s.Dir = filepath.Join(filepath.Dir(s.Data), "work")
	linkBinary(t, s.Dir)
	s.Start()
	s.Login()
	s.Try("plan", "-f", filepath.Join(harness.Root(), "docs/examples/starter.yaml")).Expect(0, "runs on no node yet: no machine has joined\n").ExpectNot("warning")
	s.StartAgent("web01")
	return &pageRunner{t: t, s: s, said: map[string]string{}, replace: strings.NewReplacer("FILE", "starter.yaml")}
}

// readPage returns the text of a documentation page.
func readPage(t *testing.T, name string) string {
	t.Helper()
	return string(readFile(t, filepath.Join(harness.Root(), "docs", name)))
}

// linkBinary creates a symbolic link to the muster binary in the folder dir/bin.
func linkBinary(t *testing.T, dir string) {
	t.Helper()
	bin := filepath.Join(dir, "bin")
	testenv.NoError(t, os.MkdirAll(bin, 0o700))
	testenv.NoError(t, os.Symlink(harness.Binary(), filepath.Join(bin, "muster")))
}

// Every command on the page docs/first-week.md works as shown.
func TestFirstWeekPageWorks(t *testing.T) {
	t.Parallel()
	f := startPageServer(t)
	f.s.AwaitOutput("status", "muster apply -f docs/examples/starter.yaml")
	starter := regexp.MustCompile(`interval: \w+`).ReplaceAllString(readPage(t, "examples/starter.yaml"), "interval: 2s")
	writeFile(t, filepath.Join(f.s.Dir, "starter.yaml"), starter)
	f.runLine("muster apply -f FILE")
	harness.Until(t, 40*time.Second, "the checks have results", func() (string, bool) {
		got, all := eventsByCheck(t, f.s), true
		for _, check := range []string{"disk", "memory", "swap", "load", "processes", "systemd", "clock", "reboot"} {
			all = all && got[check].Results > 0
		}
		return fmt.Sprint(got), all
	})
	text := readPage(t, "first-week.md")
	f.runUntil(text, "")
	for _, command := range regexp.MustCompile("`(muster [^`]+)`").FindAllStringSubmatch(text, -1) {
		f.runLine(command[1])
	}
	assert(t, f.typed >= 12, "only %d commands were typed", f.typed)
	for line, want := range map[string]string{
		"muster status":                       `^(All is|Nearly|Not) well`,
		"muster why web01/disk":               `(?s)assigned +check disk is assigned to this node.*agent +the agent is connected.*its last known run started.*\nevent `,
		"muster why web01":                    `(?s)checks +checks of this node: 8\n +clock, disk, load, memory, processes, reboot, swap, systemd\n +it is in group all\n`,
		"muster get agents -A":                `default +\S+ +web01 +for `,
		"muster get agents -A --disconnected": `no agents match`,
		"muster describe node web01":          `(?s)node/web01 is .*\nchecks +8: clock`,
		"muster audit":                        `created check/disk`,
		"muster plan -f FILE":                 `check/disk unchanged`,
	} {
		if !regexp.MustCompile(want).MatchString(f.said[line]) {
			t.Errorf("$ %s\n%swant %s", line, f.said[line], want)
		}
	}
	f.s.Try("why", "web01/identity").Expect(0, "no second machine has this node's identity")
	f.s.Try("run", "keepalive").Expect(model.Invalid.Exit(), "built into the server")
}

// Every command on the page docs/namespaces.md works as shown.
func TestNamespacesPageWorks(t *testing.T) {
	t.Parallel()
	f := startPageServer(t)
	f.runUntil(readPage(t, "namespaces.md"), "")
	for line, want := range map[string]string{
		"muster apply -f shop.yaml":      `handler/shop/mail-team-b created   used by 1 namespace`,
		"muster get nodes -n shop":       `no nodes in namespace shop`,
		"muster describe namespace shop": `states 5000, 0 used`,
	} {
		expectTexts(t, f.said[line], want)
	}
	out := f.s.CLI("node", "token", "list", "-n", "shop")
	assert(t, regexp.MustCompile(`shop +- +0 of 50`).MatchString(out), "tokens:\n%s", out)
}

// TestStoryPageWorks runs every command on the page docs/story.md, and expects the shown output.
func TestStoryPageWorks(t *testing.T) {
	t.Parallel()
	f := startPageServer(t)
	text := readPage(t, "story.md")
	deliveries := func() string {
		out, _ := os.ReadFile(filepath.Join(f.s.Dir, "pages.jsonl"))
		return string(out)
	}
	f.replace = strings.NewReplacer("interval: 30s", "interval: 1s", "cat >> ", "cat >> "+f.s.Dir+"/")
	rest := f.runUntil(text, "## The engineer")
	awaitEqual(t, "the pager has the problem", true, func() bool { return strings.Contains(deliveries(), `"kind":"opened"`) })
	rest = f.runUntil(rest, "## Morning")
	awaitEqual(t, "the pager has the recovery", true, func() bool { return strings.Contains(deliveries(), `"kind":"closed"`) })
	f.runUntil(rest, "")
	lead, err := os.ReadFile(filepath.Join(f.s.Dir, "lead.jsonl"))
	assert(t, err != nil, "the lead was notified despite the acknowledgement: %s", lead)
	assert(t, f.typed >= 14, "only %d commands were typed", f.typed)
}
