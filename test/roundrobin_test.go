package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/test/harness"
)

// Each run of a round-robin check goes to one of its agents in turn. One that hangs and one
// that is gone are taken over by another, and when nobody is left the event says so.
func TestRoundRobin(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for turns of several intervals")
	}
	t.Parallel()
	s := harness.StartServer(t, "--keepalive-interval", "1s", "--keepalive-timeout", "60s", "--reconnect-grace", "1s")
	api := s.Client()
	ran := filepath.Join(t.TempDir(), "ran")
	s.Apply(switches + fmt.Sprintf(`kind: Check
metadata: {name: ping}
spec:
  targets: {nodes: [poller1, poller2]}
  proxy: {where: 'node.labels.kind == "switch"'}
  roundRobin: true
  interval: 2s
  timeout: 1s
  command: 'echo "$MUSTER_NODE" >>%s; echo "{{ .props.address }} answers"'
`, ran))
	one, two := s.NewAgent("poller1"), s.NewAgent("poller2")
	one.Start()
	two.Start()
	runs := func() int {
		data, _ := os.ReadFile(ran)
		return strings.Count(string(data), "\n")
	}
	// by waits until the last results of both switches are of these pollers only, and all
	// of them were seen.
	by := func(why string, pollers ...string) {
		t.Helper()
		seen := map[string]bool{}
		harness.Until(t, 40*time.Second, why, func() (string, bool) {
			for _, node := range []string{"switch1", "switch2"} {
				if e := eventOf(t, api, node, "ping"); e.Status == model.OK && strings.HasSuffix(e.Output, " answers") {
					seen[node+" by "+e.RanBy] = true
				}
			}
			for _, p := range pollers {
				if !seen["switch1 by "+p] && !seen["switch2 by "+p] {
					return fmt.Sprint(seen), false
				}
			}
			return fmt.Sprint(seen), true
		})
	}
	by("both take turns", "poller1", "poller2")
	before, began := runs(), time.Now()
	harness.Until(t, 40*time.Second, "more runs", func() (string, bool) { return fmt.Sprint(runs()), runs() >= before+6 })
	if n, most := runs()-before, 2*(int(time.Since(began)/(2*time.Second))+2); n > most {
		t.Errorf("%d runs of two switches in %s, at most %d: each agent runs it by itself", n, time.Since(began), most)
	}

	// One hangs: its session is there, and its turns go to the other.
	one.Signal(syscall.SIGSTOP)
	was := [2]uint64{eventOf(t, api, "switch1", "ping").Results, eventOf(t, api, "switch2", "ping").Results}
	harness.Until(t, 40*time.Second, "the other takes over from one that hangs", func() (string, bool) {
		a, b := eventOf(t, api, "switch1", "ping"), eventOf(t, api, "switch2", "ping")
		return fmt.Sprintf("%+v\n%+v", a, b), a.RanBy == "poller2" && b.RanBy == "poller2" && a.Results >= was[0]+3 && b.Results >= was[1]+3
	})
	one.Signal(syscall.SIGCONT)
	by("it comes back", "poller1")

	// One is gone.
	two.Kill()
	was = [2]uint64{eventOf(t, api, "switch1", "ping").Results, eventOf(t, api, "switch2", "ping").Results}
	harness.Until(t, 40*time.Second, "the other takes over from one that is gone", func() (string, bool) {
		a, b := eventOf(t, api, "switch1", "ping"), eventOf(t, api, "switch2", "ping")
		return fmt.Sprintf("%+v\n%+v", a, b), a.RanBy == "poller1" && b.RanBy == "poller1" && a.Results >= was[0]+3 && b.Results >= was[1]+3
	})
	one.Kill()
	harness.Until(t, 40*time.Second, "nobody is there", func() (string, bool) {
		e := eventOf(t, api, "switch1", "ping")
		return fmt.Sprintf("%+v", e), e.Status == model.Unknown && e.Output == "no member of ping's targets is connected" && e.RanBy == ""
	})
	if out := s.CLI("status"); !strings.Contains(out, "check ping: no member of ping's targets is connected") {
		t.Errorf("status does not say so:\n%s", out)
	}
	two.Start()
	by("and then somebody is", "poller2")
}
