//go:build linux

package test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/test/harness"
)

// startPageServer follows pages on a server as a service has it: no checks yet, one agent, web01.
func startPageServer(t *testing.T) *pageReader {
	t.Helper()
	s := harness.NewServer(t)
	s.Dir = filepath.Join(filepath.Dir(s.Data), "work")
	bin := filepath.Join(s.Dir, "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(harness.Binary(), filepath.Join(bin, "muster")); err != nil {
		t.Fatal(err)
	}
	s.Start()
	s.Login()
	if out := s.CLI("plan", "-f", filepath.Join(harness.Root(), "docs/examples/starter.yaml")); !strings.Contains(out, "runs on no node yet: no machine has joined\n") || strings.Contains(out, "warning") {
		t.Errorf("checks before the first machine:\n%s", out)
	}
	s.NewAgent("web01").Start()
	return &pageReader{t: t, s: s, said: map[string]string{}, replace: strings.NewReplacer("FILE", "starter.yaml")}
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(harness.Root(), "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// docs/first-week.md, every command: those in the text, too.
func TestFirstWeek(t *testing.T) {
	t.Parallel()
	f := startPageServer(t)
	harness.Until(t, 20*time.Second, "status says that there is a machine and no check", func() (string, bool) {
		out := f.s.CLI("status")
		return out, strings.Contains(out, "muster apply -f docs/examples/starter.yaml")
	})
	starter := regexp.MustCompile(`interval: \w+`).ReplaceAllString(readPage(t, "examples/starter.yaml"), "interval: 2s")
	if err := os.WriteFile(filepath.Join(f.s.Dir, "starter.yaml"), []byte(starter), 0o600); err != nil {
		t.Fatal(err)
	}
	f.runLine("muster apply -f FILE")
	harness.Until(t, 40*time.Second, "the checks have results", func() (string, bool) {
		got, all := eventsByCheck(t, f.s), true
		for _, check := range []string{"disk", "memory", "swap", "load", "processes", "systemd", "clock", "reboot"} {
			all = all && got[check].Results > 0
		}
		return fmt.Sprint(got), all
	})
	text := readPage(t, "first-week.md")
	f.followUntil(text, "")
	for _, command := range regexp.MustCompile("`(muster [^`]+)`").FindAllStringSubmatch(text, -1) {
		f.runLine(command[1])
	}
	if f.typed < 12 {
		t.Errorf("only %d commands were typed", f.typed)
	}
	for line, want := range map[string]string{
		"muster status":                       `^(All is|Nearly|Not) well`,
		"muster why web01/disk":               `(?s)wanted +check disk lands here.*agent +the agent is connected.*its last run that is known began.*\nevent `,
		"muster why web01":                    `(?s)checks +checks that land here: 8\n +clock, disk, load, memory, processes, reboot, swap, systemd\n +it is in group all\n`,
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
	if out := f.s.CLI("why", "web01/identity"); !strings.Contains(out, "no second machine came") {
		t.Errorf("why of what did not happen:\n%s", out)
	}
	if r := f.s.Try("run", "keepalive"); r.Code != model.Invalid.Exit() || !strings.Contains(r.Errors, "built into the server") {
		t.Errorf("run keepalive: code %d, %s", r.Code, r.Errors)
	}
}

// docs/namespaces.md, every command: a room is made, has a token of its own, and nothing of the
// others' is in it.
func TestNamespacesPage(t *testing.T) {
	t.Parallel()
	f := startPageServer(t)
	f.followUntil(readPage(t, "namespaces.md"), "")
	for line, want := range map[string]string{
		"muster apply -f shop.yaml":      `handler/shop/mail-team-b created   used by 1 namespace`,
		"muster get nodes -n shop":       `no nodes in namespace shop`,
		"muster describe namespace shop": `states 5000, 0 used`,
	} {
		if !strings.Contains(f.said[line], want) {
			t.Errorf("$ %s\n%swant %s", line, f.said[line], want)
		}
	}
	if out := f.s.CLI("node", "token", "list", "-n", "shop"); !regexp.MustCompile(`shop +- +0 of 50`).MatchString(out) {
		t.Errorf("tokens:\n%s", out)
	}
}

// docs/story.md, every command: an incident from the check to the report.
func TestStoryPage(t *testing.T) {
	t.Parallel()
	f := startPageServer(t)
	text := readPage(t, "story.md")
	deliveries := func() string {
		out, _ := os.ReadFile(filepath.Join(f.s.Dir, "pages.jsonl"))
		return string(out)
	}
	f.replace = strings.NewReplacer("interval: 30s", "interval: 1s", "cat >> ", "cat >> "+f.s.Dir+"/")
	rest := f.followUntil(text, "## The engineer")
	harness.Until(t, 30*time.Second, "the pager receives the problem", func() (string, bool) {
		out := deliveries()
		return out, strings.Contains(out, `"kind":"opened"`)
	})
	rest = f.followUntil(rest, "## Morning")
	harness.Until(t, 30*time.Second, "the pager receives the recovery", func() (string, bool) {
		out := deliveries()
		return out, strings.Contains(out, `"kind":"closed"`)
	})
	f.followUntil(rest, "")
	if lead, err := os.ReadFile(filepath.Join(f.s.Dir, "lead.jsonl")); err == nil {
		t.Errorf("the lead was notified despite the acknowledgement: %s", lead)
	}
	if f.typed < 14 {
		t.Errorf("only %d commands were typed", f.typed)
	}
}
