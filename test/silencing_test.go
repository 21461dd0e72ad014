//go:build linux

package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/test/harness"
)

// notificationFile is a handler that writes down what it is told, a line each.
type notificationFile struct {
	t    *testing.T
	path string
}

func newNotificationFile(t *testing.T) *notificationFile {
	t.Helper()
	return &notificationFile{t, filepath.Join(t.TempDir(), "told")}
}

// handlerYAML declares it.
func (n *notificationFile) handlerYAML(name string) string {
	return fmt.Sprintf("kind: Handler\nmetadata: {name: %s}\nspec: {command: 'cat >> %s'}\n---\n", name, n.path)
}

// kinds are the kinds of the messages so far, of a check.
func (n *notificationFile) kinds(check string) (kinds []string) {
	n.t.Helper()
	data, err := os.ReadFile(n.path)
	if err != nil && !os.IsNotExist(err) {
		n.t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var m struct{ Kind, Check string }
		if err := json.Unmarshal([]byte(line), &m); err == nil && m.Check == check { // else it is still written
			kinds = append(kinds, m.Kind)
		}
	}
	return kinds
}

func (n *notificationFile) awaitKinds(check string, want ...string) {
	n.t.Helper()
	harness.Until(n.t, time.Minute, "messages "+strings.Join(want, ", "), func() (string, bool) {
		got := strings.Join(n.kinds(check), ", ")
		return got, got == strings.Join(want, ", ")
	})
}

// A silence from its making by an operator to its end: what it covers runs, is judged and
// shown, marked with who and why; nobody is told; what is still open at its end is told then.
// One until the problem resolves goes with it. What would be told, and when, is said before.
func TestSilenceLifecycle(t *testing.T) {
	t.Parallel()
	s := harness.NewServer(t)
	s.Start()
	s.WaitReady(time.Minute)
	s.Login()
	book := newNotificationFile(t)
	s.Apply(book.handlerYAML("pager") + "kind: Route\nmetadata: {name: default}\nspec:\n  groupWait: 0s\n  groupBy: [node, check]\n  steps: [{to: [pager], repeat: 4h}, {to: [pager], after: 30m}]\n")
	s.NewAgent("web01").Start()
	check := s.Counter("disk", "web01")
	check.AwaitRuns(1)

	if out := s.CLI("route", "test", "web01/disk"); !strings.Contains(out, "no other route matches") || !strings.Contains(out, "default/pager, again every 4h") || !strings.Contains(out, "+30m") {
		t.Errorf("%s", out)
	}
	for words, want := range map[string]string{
		"web01/disk --for 2h":                    "-m TEXT",
		"web01/disk -m why":                      "--until-resolved",
		"-m why --for 2h":                        "muster silence NODE",
		"nobody/disk --for 2h -m why --dry-run":  "muster get nodes",
		"web01/disk --for 2h --until 18:00 -m x": "--for and --until",
	} {
		if r := s.Try(append([]string{"silence"}, strings.Fields(words)...)...); !strings.Contains(r.Out+r.Errors, want) {
			t.Errorf("silence %s: %d %s%s, want %q", words, r.Code, r.Out, r.Errors, want)
		}
	}
	out := s.CLI("silence", "web01/disk", "--for", "2h", "-m", "a new disk", "--name", "work")
	if !strings.Contains(out, "silence work silences disk on 1 node, until") || !strings.Contains(out, "muster silence end work") {
		t.Errorf("%s", out)
	}
	harness.Until(t, time.Minute, "the silence in a test of the route", func() (string, bool) {
		out := s.CLI("route", "test", "web01/disk")
		return out, strings.Contains(out, "! silenced by default/work (admin: a new disk), until")
	})
	check.Exit(2)
	harness.Until(t, time.Minute, "a held problem", func() (string, bool) {
		out := s.CLI("get", "problems", "--open", "-o", "wide")
		return out, strings.Contains(out, "SILENCED CRITICAL") && strings.Contains(out, "silenced by default/work (admin: a new disk)")
	})
	for _, words := range []string{"get events --problem -o wide", "describe event web01/disk", "why web01/disk", "get problems --open -o json"} {
		if out := s.CLI(strings.Fields(words)...); !strings.Contains(out, "a new disk") || !strings.Contains(out, "admin") {
			t.Errorf("muster %s does not say who silenced it and why:\n%s", words, out)
		}
	}
	if out := s.CLI("silence", "list"); !strings.Contains(out, "disk on web01") || !strings.Contains(out, "1 problem") || !strings.Contains(out, "admin") {
		t.Errorf("%s", out)
	}
	if got := book.kinds("disk"); len(got) > 0 {
		t.Errorf("told %q while it is silenced", got)
	}
	if out := s.CLI("silence", "end", "work", "-m", "it is in"); !strings.Contains(out, "it held 1 problem") {
		t.Errorf("%s", out)
	}
	book.awaitKinds("disk", "opened")

	if out := s.CLI("silence", "web01/disk", "--until-resolved", "-m", "known", "--name", "known"); !strings.Contains(out, "until the first of its problems closes; open now: 1 problem") {
		t.Errorf("%s", out)
	}
	check.Exit(0)
	book.awaitKinds("disk", "opened", "closed") // who knows of it hears its end
	harness.Until(t, time.Minute, "the silence to go with its problem", func() (string, bool) {
		r := s.Try("get", "silence", "known")
		return r.Out + r.Errors, r.Code != 0
	})
	if out := s.CLI("audit", "silence/known"); !strings.Contains(out, "the problem that it silenced has closed") || !strings.Contains(out, "known") {
		t.Errorf("%s", out)
	}
}

// What is over the rate of a route waits, `why` says so, and comes in one message when its time
// is over, over a kill of the server too.
func TestRouteRate(t *testing.T) {
	t.Parallel()
	s := harness.NewServer(t)
	s.Start()
	s.WaitReady(time.Minute)
	s.Login()
	book := newNotificationFile(t)
	route := func(per string) string {
		return "kind: Route\nmetadata: {name: default}\nspec:\n  groupWait: 0s\n  groupBy: [node, check]\n  rate: {messages: 1, per: " + per + "}\n  steps: [{to: [pager]}]\n"
	}
	s.Apply(book.handlerYAML("pager") + route("6h"))
	s.NewAgent("web01").Start()
	first, second, third := s.Counter("a", "web01"), s.Counter("b", "web01"), s.Counter("c", "web01")
	first.AwaitRuns(1)
	first.Exit(2)
	book.awaitKinds("a", "opened")
	second.Exit(2)
	third.Exit(1)
	for _, name := range []string{"b", "c"} {
		harness.Until(t, time.Minute, "the reason why nobody is told", func() (string, bool) {
			out := s.CLI("why", "web01/"+name)
			return out, strings.Contains(out, "over the rate of route default/default (more than 1 message in 6h)")
		})
	}
	s.Kill()
	s.Start()
	s.WaitReady(time.Minute)
	if got := append(book.kinds("b"), book.kinds("c")...); len(got) > 0 {
		t.Errorf("told %q over the rate", got)
	}
	first.Exit(0)
	book.awaitKinds("a", "opened", "closed")
	s.Apply("kind: Route\nmetadata: {name: default}\nspec:\n  groupWait: 0s\n  groupBy: [node, check]\n  steps: [{to: [pager]}]\n") // nothing bounds it any more
	book.awaitKinds("b", "summary")
}

// A silence over many nodes names the first ten, and says how many more there are: where it is refused, in a dry run, and
// where it is made; one over a few names all of them.
func TestSilenceListsCoveredNodes(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.Login()
	var nodes strings.Builder
	for i := range 64 {
		fmt.Fprintf(&nodes, "---\nkind: Node\nmetadata: {name: rack%02d, labels: {row: r%d}}\nspec: {proxy: true}\n", i, i/32)
	}
	s.Apply(nodes.String())
	first := "rack00, rack01, rack02, rack03, rack04, rack05, rack06, rack07, rack08, rack09"
	silence := func(code int, words string, want ...string) {
		t.Helper()
		r := s.Try(append([]string{"silence", "--for", "2h", "-m", "moving"}, strings.Fields(words)...)...)
		said := strings.Join(strings.Fields(r.Out+r.Errors), " ")
		for _, text := range want {
			if (r.Code != 0) != (code != 0) || !strings.Contains(said, text) {
				t.Errorf("silence %s: %d %s, want %q", words, r.Code, r.Out+r.Errors, text)
			}
		}
	}
	silence(1, "--all", "this would silence 64 nodes ("+first+" and 54 more); without --yes at most 50", "--dry-run")
	silence(0, "--all --dry-run", "on 64 nodes", first+" and 54 more")
	silence(0, "--all --yes --name everything", "on 64 nodes", first+" and 54 more", "muster silence end everything")
	silence(0, "-l row=r1", "on 32 nodes", "rack32, rack33, rack34, rack35, rack36, rack37, rack38, rack39, rack40, rack41 and 22 more")
	silence(0, "rack63 rack07 rack08", "on 3 nodes", "rack07, rack08, rack63 ")
	if out := s.CLI("silence", "rack07", "--for", "2h", "-m", "alone", "-o", "json"); !strings.Contains(out, `"first": [`) || !strings.Contains(out, `"rack07"`) {
		t.Errorf("%s", out)
	}
}
