//go:build linux

package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/test/harness"
)

// A node that is renamed stays the node that it is while its results flow: nothing is
// lost, its event, its history and what is declared of it go on under the new name.
func TestRenameNode(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	api := s.Client()
	a, runs := s.NewAgent("old"), s.Counter("count", "old")
	runs.Exit(1) // a problem opens
	s.Apply("apiVersion: muster/v1\nkind: Property\nmetadata: {name: p}\nspec: {scope: 'node:old', value: 7}")
	a.Start()
	runs.AwaitRuns(2)
	harness.Until(t, 20*time.Second, "its results are there", func() (string, bool) {
		e, err := api.Events.Get(t.Context(), "default", "old", "count")
		return fmt.Sprintf("%+v, %v", e, err), err == nil && e.Results >= 2
	})
	said := s.CLI("node", "rename", "old", "new", "-m", "moved to the shop")
	for _, part := range []string{"node/old renamed new", "check/count updated", "property/p updated", "your files"} {
		if !strings.Contains(said, part) {
			t.Errorf("%q does not say %q", said, part)
		}
	}
	harness.Until(t, 20*time.Second, "the agent hears its new name", func() (string, bool) {
		return a.Log(), strings.Contains(a.Log(), "name=new")
	})
	runs.Exit(2) // and gets worse
	runs.AwaitRuns(2)
	runs.Block()
	harness.Until(t, 20*time.Second, "every run is applied, under the new name", func() (string, bool) {
		e, err := api.Events.Get(t.Context(), "default", "new", "count")
		return fmt.Sprintf("%d runs, %+v, %v", runs.Runs(), e, err), err == nil && e.Results == runs.Runs() && e.Lost == 0
	})
	if out := s.CLI("why", "new/count"); !strings.Contains(out, "new") {
		t.Errorf("why: %s", out)
	}
	if out := s.CLI("audit", "node", "old"); !strings.Contains(out, "renamed node/old to new") || !strings.Contains(out, "moved to the shop") {
		t.Errorf("audit:\n%s", out)
	}
	if out := s.CLI("get", "problems", "--node", "new"); !regexp.MustCompile(`OPEN CRITICAL +new +count`).MatchString(out) {
		t.Errorf("get problems:\n%s", out)
	}
	if out := s.CLI("describe", "event", "new/count"); !strings.Contains(out, "WARNING, the first result") {
		t.Errorf("what happened under the old name is missing:\n%s", out)
	}
	if r := s.Try("why", "old"); r.Code != 3 || !strings.Contains(r.Errors, `no node "old" any more: admin renamed it new at `) {
		t.Errorf("why of the old name: code %d, %s", r.Code, r.Errors)
	}
	if _, err := api.Events.Get(t.Context(), "default", "old", "count"); err == nil {
		t.Error("there is an event under the old name")
	}
	runs.Unblock()
}

// A node gets another machine while its results flow, and is retired later: the machine
// before and the one that was retired are sent away at once and told why, also after the
// server was killed; whoever was told of a problem is told that it is over.
func TestReplaceAndRetireNode(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	api := s.Client()
	told := filepath.Join(t.TempDir(), "told")
	s.Apply(fmt.Sprintf("apiVersion: muster/v1\nkind: Handler\nmetadata: {name: tell}\nspec: {command: %q}", "cat >>"+told+"; echo >>"+told))
	first, runs := s.NewAgent("web01"), s.Counter("count", "web01", "  alert: {handlers: [tell]}")
	runs.Exit(2)
	first.Start()
	applied := func() (results uint64) {
		harness.Until(t, 30*time.Second, "results are applied", func() (string, bool) {
			e, err := api.Events.Get(t.Context(), "default", "web01", "count")
			results = e.Results
			return fmt.Sprintf("%+v, %v", e, err), err == nil && e.Results > 0 && e.Lost == 0
		})
		return results
	}
	runs.AwaitRuns(1)
	was := applied()
	hears := func(a *harness.Agent, parts ...string) {
		t.Helper()
		harness.Until(t, 30*time.Second, "the machine is sent away, and hears why", func() (string, bool) {
			log := a.Log()
			return log, !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(log, p) })
		})
	}

	line := s.CLI("node", "replace", "web01", "-m", "new disk")
	token := regexp.MustCompile(`mj1\.\S+`).FindString(line)
	second := s.NewAgent("some-other-name")
	second.Token = token
	second.Start()
	hears(first, "(replaced)", "web01", "by admin", "new disk", "muster node replace web01")
	first.Kill()
	runs.AwaitRuns(2)
	harness.Until(t, 30*time.Second, "the new machine's results go on with the node's event", func() (string, bool) {
		e, err := api.Events.Get(t.Context(), "default", "web01", "count")
		return fmt.Sprintf("%+v, %v", e, err), err == nil && e.Results > was+1 && e.Lost == 0
	})
	first.Start()
	harness.Until(t, 30*time.Second, "the machine before may not come back", func() (string, bool) {
		return first.Log(), strings.Contains(first.Log(), "(replaced)") && strings.Contains(first.Log(), "new disk")
	})
	first.Kill()
	problem := problemsOf(t, api, "web01")
	if len(problem) != 1 {
		t.Fatalf("problems: %+v", problem)
	}

	if out := s.CLI("node", "retire", "web01", "-m", "scrapped", "--yes"); !strings.Contains(out, "node/web01 retired") {
		t.Errorf("retire says %q", out)
	}
	for _, words := range [][]string{{"audit", "node", "web01"}, {"status", "-o", "wide"}} {
		if out := s.CLI(words...); !strings.Contains(out, "retired node/web01") || strings.Contains(out, "deleted node/web01") {
			t.Errorf("muster %s:\n%s", strings.Join(words, " "), out)
		}
	}
	hears(second, "(retired)", "node web01 was retired by admin", "scrapped", "muster node token")
	harness.Until(t, 30*time.Second, "who was told is told of the end", func() (string, bool) {
		text, _ := os.ReadFile(told)
		return string(text), strings.Count(string(text), problem[0].ID) >= 2
	})
	s.Kill()
	s.Start()
	if list := s.CLI("get", "events"); strings.Contains(list, "web01") {
		t.Errorf("its events are there:\n%s", list)
	}
	second.Kill()
	second.Start()
	harness.Until(t, 30*time.Second, "it may not come back", func() (string, bool) {
		return second.Log(), strings.Contains(second.Log(), "(retired)") && strings.Contains(second.Log(), "scrapped")
	})
	list := s.CLI("node", "list", "--retired")
	for _, part := range []string{"web01", "retired", "replaced", "scrapped", "new disk", "admin"} {
		if !strings.Contains(list, part) {
			t.Errorf("the list does not say %q:\n%s", part, list)
		}
	}
}

// An ephemeral machine is forgotten when it was away for long enough, and joins again by
// itself, as a new node. A clean stop before that alarms nobody.
func TestEphemeralNodeExpiresAndRejoins(t *testing.T) {
	t.Parallel()
	if harness.Duration(t, 0, 90*time.Second) == 0 {
		t.Skip("waits for more than a minute: forgetAfter is at least that")
	}
	s := harness.StartServer(t)
	api := s.Client()
	var token struct{ Token string }
	told := filepath.Join(t.TempDir(), "told")
	s.Apply(fmt.Sprintf("{kind: Handler, metadata: {name: cmdb}, spec: {command: 'cat >> %s'}}", told))
	text := s.CLI("node", "token", "--ephemeral", "--forget-after", "1m", "--tell", "cmdb", "-o", "json")
	if err := json.Unmarshal([]byte(text), &token); err != nil {
		t.Fatal(err)
	}
	a := s.NewAgent("worker")
	a.Token = token.Token
	a.Start()
	there := func(want bool) {
		t.Helper()
		harness.Until(t, 120*time.Second, fmt.Sprintf("the node is there: %v", want), func() (string, bool) {
			list, err := api.Nodes.States(t.Context(), v1.NodeFilter{Limit: 10})
			ok := slices.ContainsFunc(list.Items, func(n v1.NodeState) bool { return n.Name == "worker" && n.Connected })
			gone := !slices.ContainsFunc(list.Items, func(n v1.NodeState) bool { return n.Name == "worker" })
			return fmt.Sprintf("%+v, %v", list, err), err == nil && (want && ok || !want && gone)
		})
	}
	there(true)
	harness.Until(t, 20*time.Second, "the agent knows it, too", func() (string, bool) { return a.Log(), strings.Contains(a.Log(), "msg=connected") })
	s.Apply("{kind: Node, metadata: {name: worker}, spec: {}}") // its file takes away nothing of what the token gave
	a.Stop()
	harness.Until(t, 30*time.Second, "it stopped cleanly", func() (string, bool) {
		text := s.CLI("describe", "node", "worker")
		return text, strings.Contains(text, "stopped on purpose")
	})
	if got := problemsOf(t, api, "worker"); len(got) != 0 {
		t.Errorf("somebody is alarmed: %+v", got)
	}
	there(false)
	// Who was named hears so, once.
	harness.Until(t, 30*time.Second, "its handler is told", func() (string, bool) {
		text, _ := os.ReadFile(told)
		return string(text), strings.Contains(string(text), `"kind":"deregistered"`) && strings.Contains(string(text), "DEREGISTERED: node worker was forgotten: no session for 1m")
	})
	s.Stop()
	s.Start()
	s.WaitReady(time.Minute)
	if text := s.CLI("get", "history", "worker/keepalive"); !strings.Contains(text, "forgotten") {
		t.Errorf("history: %s", text)
	}
	if text := s.CLI("audit", "node", "worker"); !strings.Contains(text, "away for too long") {
		t.Errorf("audit: %s", text)
	}
	a.Start()
	there(true)
	if text, err := os.ReadFile(told); err != nil || strings.Count(string(text), "\n") != 1 {
		t.Errorf("told more than once: %s, %v", text, err)
	}
	if log := a.Log(); !strings.Contains(log, "(forgotten)") || !strings.Contains(log, "away for too long") {
		t.Errorf("the agent's log:\n%s", log)
	}
}
