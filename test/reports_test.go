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
func TestWhatAShadowWouldHaveSent(t *testing.T) {
	t.Parallel()
	s := harness.NewServer(t)
	s.Start()
	s.WaitReady(time.Minute)
	s.Login()
	book := newNotebook(t)
	s.Apply("kind: Namespace\nmetadata: {name: default}\nspec: {notifications: shadow}\n---\n" + book.handler("pager") +
		"kind: Route\nmetadata: {name: default}\nspec:\n  groupWait: 0s\n  groupBy: [node, check]\n  steps: [{to: [pager], repeat: 4h}]\n")
	s.NewAgent("web01").Start()
	check := s.Counter("disk", "web01")
	check.Ran(1)
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
	shadow("report shadow", "pager    default  disk   1       –      –         1", "1 message would have called somebody")
	shadow("report noise --since 100d", "1 page ", "1 only shown (shadow)", "disk   1      ", "1/1", "! history is kept for 90d")
	if got := book.told("disk"); len(got) > 0 {
		t.Errorf("told %q in the shadow", got)
	}
}
