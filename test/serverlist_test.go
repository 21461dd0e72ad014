//go:build linux

package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/test/harness"
)

// sessionServers are the servers at which an agent's sessions were opened, in order.
func sessionServers(a *harness.Agent) (list []string) {
	for line := range strings.Lines(a.Log()) {
		if _, rest, ok := strings.Cut(line, "msg=connected server="); ok {
			list = append(list, strings.Fields(rest)[0])
		}
	}
	return list
}

// awaitSession waits until the agent's n-th session is opened, and compares where.
func awaitSession(t *testing.T, a *harness.Agent, n int, where string) {
	t.Helper()
	harness.Until(t, 90*time.Second, "the agent is connected again", func() (string, bool) {
		list := sessionServers(a)
		return strings.Join(list, " "), len(list) >= n
	})
	if list := sessionServers(a); list[n-1] != where {
		t.Fatalf("the agent is connected at %v, want the last at %s", list, where)
	}
}

// An agent with two servers takes the next when one fails and begins with the first again;
// a list that the server tells comes before its own, survives its restart, and locks it out
// of nothing when it is wrong.
func TestServerList(t *testing.T) {
	if testing.Short() {
		t.Skip("an agent looks for its server eight times")
	}
	t.Parallel()
	s := harness.StartServer(t)
	s.Client()
	first, second := harness.NewProxy(t, s.Listen), harness.NewProxy(t, s.Listen)
	a := s.NewAgent("lists", "--server", first.Address+","+second.Address)
	a.Start()
	awaitSession(t, a, 1, first.Address)
	first.Stop()
	awaitSession(t, a, 2, second.Address)
	first = harness.NewProxyAt(t, first.Address, s.Listen)
	second.Stop()
	awaitSession(t, a, 3, first.Address)
	second = harness.NewProxyAt(t, second.Address, s.Listen)

	told := harness.NewProxy(t, s.Listen)
	s.Stop()
	s.Args = []string{"--agent-servers", told.Address}
	s.Start()
	awaitSession(t, a, 4, first.Address)
	a.AwaitLog("msg=\"the server tells where to connect from now on", "servers="+"["+told.Address+"]")
	a.Stop()
	if kept, err := os.ReadFile(filepath.Join(a.State, "session.json")); err != nil || !strings.Contains(string(kept), told.Address) {
		t.Errorf("the list is not kept (%v): %s", err, kept)
	}
	a.Start()
	awaitSession(t, a, 1, told.Address)

	s.Stop()
	nobody := harness.Port(t)
	s.Args = []string{"--agent-servers", nobody} // wrong
	s.Start()
	awaitSession(t, a, 2, told.Address)
	a.Stop()
	a.Start()
	awaitSession(t, a, 1, first.Address)

	a.Stop()
	s.Stop()
	s.Args = nil
	s.Start()
	a.Args = []string{"--server", second.Address} // the newer word counts
	a.Start()
	awaitSession(t, a, 1, second.Address)
	a.Stop()
	s.Stop()
}
