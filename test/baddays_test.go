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
func TestKilledInTheMiddleOfAnEscalation(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.Login()
	pager, lead := newNotebook(t), newNotebook(t)
	s.Apply(pager.handler("pager") + lead.handler("lead") +
		"kind: Route\nmetadata: {name: default}\nspec:\n  groupWait: 0s\n  groupBy: [node, check]\n  steps: [{to: [pager]}, {to: [lead], after: 15s}]\n")
	a := s.NewAgent("web01")
	a.Start()
	check := s.Counter("disk", "web01")
	check.Ran(1)
	check.Exit(2)
	pager.hears("disk", "opened")
	opened := time.Now()
	// Until it is written down that somebody was told, a kill has them told again (TestKilledBetweenDeliveryAndRecord).
	harness.Until(t, 10*time.Second, "that the pager was told is known", func() (string, bool) {
		out := s.CLI("describe", "event", "web01/disk")
		return out, strings.Contains(out, "pager about opened: delivered")
	})
	s.Kill()
	s.Start()
	s.WaitReady(time.Minute)
	if early := lead.told("disk"); len(early) > 0 && time.Since(opened) < 14*time.Second {
		t.Errorf("the lead heard %q after %v", early, time.Since(opened))
	}
	s.Kill()
	wait(t.Context(), time.Until(opened.Add(16*time.Second)))
	s.Start()
	s.WaitReady(time.Minute)
	lead.hears("disk", "opened")
	pager.hears("disk", "opened")
	check.Exit(0)
	lead.hears("disk", "opened", "closed")
	pager.hears("disk", "opened", "closed")
}

// A check that runs each second and fails every second time is one problem that flaps: one message, shown as flapping with its
// beginning, no result missed, and over when it is steady again.
func TestACheckThatFlapsEachSecond(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute")
	}
	t.Parallel()
	s := harness.StartServer(t)
	s.Login()
	book := newNotebook(t)
	at := filepath.Join(t.TempDir(), "steady")
	s.Apply(book.handler("pager") + "kind: Route\nmetadata: {name: default}\nspec:\n  groupWait: 0s\n  groupBy: [node, check]\n  steps: [{to: [pager]}]\n" +
		fmt.Sprintf("---\nkind: Check\nmetadata: {name: link}\nspec:\n  targets: {nodes: [web01]}\n  interval: 1s\n  alert: {flapping: {start: 50, end: 25}}\n"+
			"  command: 'test -e %[1]s && exit 0; if test -e %[1]s.up; then rm %[1]s.up; echo down; exit 2; fi; touch %[1]s.up; echo up'\n", at))
	s.NewAgent("web01").Start()
	api := s.Client()
	harness.Until(t, 2*time.Minute, "it flaps", func() (string, bool) {
		e := event(t, api, "web01", "link")
		return fmt.Sprintf("%+v", e), e.State == "flapping"
	})
	before := len(book.told("link"))
	ran := event(t, api, "web01", "link").Results
	harness.Until(t, time.Minute, "ten more results", func() (string, bool) {
		e := event(t, api, "web01", "link")
		return fmt.Sprintf("%+v", e), e.Results >= ran+10
	})
	if e := event(t, api, "web01", "link"); e.State != "flapping" || e.Problem == nil {
		t.Errorf("%+v", e)
	}
	if more := book.told("link")[before:]; len(more) > 1 {
		t.Errorf("while it flapped were told %q", more)
	}
	if out := s.CLI("describe", "event", "web01/link"); !strings.Contains(out, "flap") {
		t.Errorf("%s", out)
	}
	write(t, at, nil)
	harness.Until(t, 2*time.Minute, "it is steady again", func() (string, bool) {
		e := event(t, api, "web01", "link")
		return fmt.Sprintf("%+v", e), e.State != "flapping" && e.Problem == nil
	})
	harness.Until(t, time.Minute, "its end is told", func() (string, bool) {
		told := book.told("link")
		return fmt.Sprint(told), len(told) > 0 && told[len(told)-1] == "closed"
	})
}
