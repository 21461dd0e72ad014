//go:build linux

package test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/test/harness"
)

// The server is killed after the first step of a route was told, and again when the next is due: who was told is not told again,
// the next step is told once, although it fell due while nobody was there, and all of them hear of the end.
func TestKillDuringEscalation(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.Login()
	pager, lead := newNotificationFile(t), newNotificationFile(t)
	s.Apply(pager.handlerYAML("pager") + lead.handlerYAML("lead") +
		"kind: Route\nmetadata: {name: default}\nspec:\n  groupWait: 0s\n  groupBy: [node, check]\n  steps: [{to: [pager]}, {to: [lead], after: 15s}]\n")
	a := s.NewAgent("web01")
	a.Start()
	check := s.Counter("disk", "web01")
	check.AwaitRuns(1)
	check.Exit(2)
	pager.awaitKinds("disk", "opened")
	opened := time.Now()
	// Until it is written down that somebody was told, a kill has them told again (TestKilledBetweenDeliveryAndRecord).
	harness.Until(t, 10*time.Second, "that the pager was told is known", func() (string, bool) {
		out := s.CLI("describe", "event", "web01/disk")
		return out, strings.Contains(out, "pager of opened: delivered")
	})
	s.Kill()
	s.Start()
	s.WaitReady(time.Minute)
	if early := lead.kinds("disk"); len(early) > 0 && time.Since(opened) < 14*time.Second {
		t.Errorf("the lead heard %q after %v", early, time.Since(opened))
	}
	s.Kill()
	sleep(t.Context(), time.Until(opened.Add(16*time.Second)))
	s.Start()
	s.WaitReady(time.Minute)
	lead.awaitKinds("disk", "opened")
	pager.awaitKinds("disk", "opened")
	check.Exit(0)
	lead.awaitKinds("disk", "opened", "closed")
	pager.awaitKinds("disk", "opened", "closed")
}

// A check that runs each second and fails every second time is one problem that flaps: one message, shown as flapping with its
// beginning, no result missed, and over when it is steady again.
func TestFlappingCheck(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute")
	}
	t.Parallel()
	s := harness.StartServer(t)
	s.Login()
	book := newNotificationFile(t)
	at := filepath.Join(t.TempDir(), "steady")
	s.Apply(book.handlerYAML("pager") + "kind: Route\nmetadata: {name: default}\nspec:\n  groupWait: 0s\n  groupBy: [node, check]\n  steps: [{to: [pager]}]\n" +
		fmt.Sprintf("---\nkind: Check\nmetadata: {name: link}\nspec:\n  targets: {nodes: [web01]}\n  interval: 1s\n  alert: {flapping: {start: 50, end: 25}}\n"+
			"  command: 'test -e %[1]s && exit 0; if test -e %[1]s.up; then rm %[1]s.up; echo down; exit 2; fi; touch %[1]s.up; echo up'\n", at))
	s.NewAgent("web01").Start()
	api := s.Client()
	harness.Until(t, 2*time.Minute, "it flaps", func() (string, bool) {
		e := eventOf(t, api, "web01", "link")
		return fmt.Sprintf("%+v", e), e.State == "flapping"
	})
	before := len(book.kinds("link"))
	ran := eventOf(t, api, "web01", "link").Results
	harness.Until(t, time.Minute, "ten more results", func() (string, bool) {
		e := eventOf(t, api, "web01", "link")
		return fmt.Sprintf("%+v", e), e.Results >= ran+10
	})
	if e := eventOf(t, api, "web01", "link"); e.State != "flapping" || e.Problem == nil {
		t.Errorf("%+v", e)
	}
	if more := book.kinds("link")[before:]; len(more) > 1 {
		t.Errorf("while it flapped were told %q", more)
	}
	if out := s.CLI("describe", "event", "web01/link"); !strings.Contains(out, "flap") {
		t.Errorf("%s", out)
	}
	writeFile(t, at, nil)
	harness.Until(t, 2*time.Minute, "it is steady again", func() (string, bool) {
		e := eventOf(t, api, "web01", "link")
		return fmt.Sprintf("%+v", e), e.State != "flapping" && e.Problem == nil
	})
	harness.Until(t, time.Minute, "its end is told", func() (string, bool) {
		told := book.kinds("link")
		return fmt.Sprint(told), len(told) > 0 && told[len(told)-1] == "closed"
	})
}
