//go:build linux

package test

import (
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/test/harness"
)

// A fleet beside the system that calls people today: what would have been sent can be listed
// and compared, nobody hears anything, and the noise of it can be counted.
func TestShadowReport(t *testing.T) {
	t.Parallel()
	s := harness.NewServer(t)
	s.Start()
	s.WaitReady(time.Minute)
	s.Login()
	book := newNotificationFile(t)
	s.Apply("kind: Namespace\nmetadata: {name: default}\nspec: {notifications: shadow}\n---\n" + book.handlerYAML("pager") +
		"kind: Route\nmetadata: {name: default}\nspec:\n  groupWait: 0s\n  groupBy: [node, check]\n  steps: [{to: [pager], repeat: 4h}]\n")
	s.NewAgent("web01").Start()
	check := s.Counter("disk", "web01")
	check.AwaitRuns(1)
	check.Exit(2)
	shadow := func(words string, want ...string) {
		t.Helper()
		harness.Until(t, time.Minute, words, func() (out string, ok bool) {
			out = s.CLI(strings.Fields(words)...)
			for _, text := range want {
				if !strings.Contains(out, text) {
					return out, false
				}
			}
			return out, true
		})
	}
	shadow("report shadow --each", "opened", "web01", "CRITICAL: disk on web01")
	check.Exit(0)
	shadow("report shadow --since 1h -o csv", ",default/pager,default/default,opened,default,web01,disk,CRITICAL,", ",default/pager,default/default,closed,default,web01,disk,OK,")
	shadow("report shadow", "pager    default  disk   1       -      -         1", "1 message would")
	shadow("report noise --since 100d", "1 page ", "1 in shadow mode", "disk   1      ", "1/1", "! history is kept for 90d")
	if got := book.kinds("disk"); len(got) > 0 {
		t.Errorf("told %q in the shadow", got)
	}
}

// An operator acknowledges what one rack has, in one request; a node that was deleted since is
// still told of as it was.
func TestBulkAcknowledge(t *testing.T) {
	t.Parallel()
	s := harness.NewServer(t)
	s.Start()
	s.WaitReady(time.Minute)
	s.Login()
	s.NewAgent("web01").Start()
	s.Apply("kind: Check\nmetadata: {name: disk}\nspec: {targets: {nodes: [web01]}, interval: 1s, command: 'echo full; exit 2'}\n---\nkind: Check\nmetadata: {name: load}\nspec: {targets: {nodes: [web01]}, interval: 1s, command: 'echo high; exit 1'}")
	harness.Until(t, time.Minute, "two problems", func() (string, bool) {
		out := s.CLI("get", "problems", "--open")
		return out, strings.Contains(out, "disk") && strings.Contains(out, "load")
	})
	if out := s.CLI("event", "ack", "--node", "web01", "--status", "critical,warning", "-m", "the switch"); !strings.Contains(out, "2 events match:\n  CRITICAL web01/disk\n  WARNING  web01/load\n2 events acknowledged") {
		t.Errorf("%s", out)
	}
	if out := s.CLI("get", "events", "--where", "event.acknowledged", "-o", "wide"); !strings.Contains(out, "disk") || !strings.Contains(out, "load") {
		t.Errorf("%s", out)
	}
	if out := s.CLI("audit", "run"); !strings.Contains(out, "ran a bulk acknowledge: 2 events picked (namespace default, node web01, status critical,warning): the switch") ||
		!strings.Contains(out, "done to 2 of 2") {
		t.Errorf("%s", out)
	}
	before := time.Now().UTC().Format(time.RFC3339Nano)
	s.CLI("delete", "node", "web01", "--yes")
	harness.Until(t, time.Minute, "the node as it was", func() (string, bool) {
		r := s.Try("get", "events", "--at", before, "--check", "disk")
		return r.Out + r.Errors, strings.Contains(r.Out, "web01 (gone)  disk") && strings.Contains(r.Out, "full")
	})
	if out := s.CLI("report", "availability", "web01/disk", "--since", "1h"); !strings.Contains(out, "web01 (gone)  disk   0.000 %") {
		t.Errorf("%s", out)
	}
}
