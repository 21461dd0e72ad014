package api_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/api/apitest"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// Agents come with the oldest version first, then by trouble, page by page, filtered.
func TestAgents(t *testing.T) {
	r := apitest.New(t)
	c := dial(t, r, r.Token)
	now := r.Now()
	for _, x := range []struct {
		name, version string
		stats         *v1.AgentStats
	}{
		{"fine", "0.10.0", &v1.AgentStats{Runs: 10}},
		{"quiet", "0.10.0", nil},
		{"old", "0.9.1", &v1.AgentStats{}},
		{"spools", "0.10.0", &v1.AgentStats{Spooled: 400, OldestSeconds: 90}},
		{"skips", "0.10.0", &v1.AgentStats{Skipped: 3}},
		{"loses", "0.10.0", &v1.AgentStats{GaveWay: 7}},
	} {
		r.Joined(x.name, map[string]string{"agentVersion": "0.1"}) // what the session says is newer
		r.Session(x.name, &v1.AgentSession{Version: x.version, Since: now, Address: "192.0.2.7:4711", Stats: x.stats})
	}
	r.Joined("gone", map[string]string{"agentVersion": "0.10.0"})
	r.Mark("gone", true, false)
	r.Mark("gone", false, false)
	r.Joined("stopped", map[string]string{"agentVersion": "0.10.0"})
	r.Mark("stopped", true, false)
	r.Mark("stopped", false, true)
	r.Nodes("default", nil, "declared") // never had an agent

	ask := func(f v1.AgentFilter) (names []string, list v1.AgentList) {
		t.Helper()
		f.Limit = max(f.Limit, 3)
		for {
			page, err := c.Nodes.Agents(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range page.Items {
				names = append(names, a.Name)
			}
			if list.Items = append(list.Items, page.Items...); page.Next == "" {
				page.Items = list.Items
				return names, page
			}
			f.After = page.Next
		}
	}
	names, list := ask(v1.AgentFilter{})
	want := []string{"old", "gone", "loses", "spools", "skips", "fine", "quiet", "stopped"}
	if !slices.Equal(names, want) {
		t.Errorf("in order %q, want %q", names, want)
	}
	if fmt.Sprint(list.Versions) != "[{0.9.1 1} {0.10.0 7}]" || list.Total != 8 || list.Disconnected != 1 || list.Spooling != 1 {
		t.Errorf("%+v", list)
	}
	for _, a := range list.Items {
		if trouble := fmt.Sprint(a.Trouble); a.Name == "loses" && trouble != "[7 signals that its spool gave up]" || a.Name == "gone" && trouble != "[not connected]" {
			t.Errorf("%s: %s", a.Name, trouble)
		}
	}
	for _, x := range []struct {
		filter v1.AgentFilter
		want   string
	}{
		{v1.AgentFilter{Version: "0.9"}, "[old]"}, {v1.AgentFilter{Spooling: true}, "[spools]"},
		{v1.AgentFilter{Disconnected: true}, "[gone]"}, {v1.AgentFilter{Namespace: "shared"}, "[]"},
		{v1.AgentFilter{Namespace: "default", Name: "skips"}, "[skips]"}, {v1.AgentFilter{Selector: "agentVersion=0.1,!x", Version: "0.9"}, "[old]"},
	} {
		if names, _ := ask(x.filter); fmt.Sprint(names) != x.want {
			t.Errorf("%+v: %q", x.filter, names)
		}
	}
	if _, err := c.Nodes.Agents(t.Context(), v1.AgentFilter{Namespace: "nope", Limit: 1}); model.ClassOf(err) != model.NotFound {
		t.Errorf("a namespace that is not there: %v", err)
	}
	if _, err := c.Nodes.Agents(t.Context(), v1.AgentFilter{After: "bm9wZQ", Limit: 1}); model.ClassOf(err) != model.Invalid {
		t.Errorf("a token that is none: %v", err)
	}
}

// A page of a large fleet is there at once.
func TestAgentsOfALargeFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 15,000 nodes")
	}
	r := apitest.New(t)
	names := make([]string, 15_000)
	for i := range names {
		names[i] = fmt.Sprintf("web%05d", i)
	}
	r.Nodes("default", map[string]string{"env": "prod"}, names...)
	for i, name := range names {
		r.Session(name, &v1.AgentSession{Version: fmt.Sprintf("0.%d.0", i%7), Address: "192.0.2.1:1", Stats: &v1.AgentStats{Runs: uint64(i)}})
	}
	c := dial(t, r, r.Token)
	best := time.Hour
	for range 5 {
		began := time.Now()
		list, err := c.Nodes.Agents(t.Context(), v1.AgentFilter{Limit: 50})
		if err != nil || list.Total != len(names) || len(list.Items) != 50 {
			t.Fatalf("%d of %d, %v", len(list.Items), list.Total, err)
		}
		best = min(best, time.Since(began))
	}
	t.Logf("a page of 50 of 15,000 agents in %s", best)
	if best > 500*time.Millisecond { // 30 ms on a quiet machine
		t.Errorf("a page took %s", best)
	}
}
