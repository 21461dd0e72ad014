//go:build linux

package test

import (
	"fmt"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/test/harness"
)

// eventOf reads one event of the default namespace; one that is not there yet is empty.
func eventOf(t *testing.T, api *client.Client, node, check string) v1.Event {
	t.Helper()
	e, err := api.Events.Get(t.Context(), model.DefaultNamespaceName, node, check)
	if err != nil && model.ClassOf(err) != model.NotFound {
		t.Fatalf("event %s/%s: %v", node, check, err)
	}
	return e
}

// awaitAllResults lets no more runs begin, waits until the server has the result of each that
// was, once, and lets runs go on.
func awaitAllResults(t *testing.T, api *client.Client, node, check string, c *harness.Counter) {
	t.Helper()
	awaitLastResult(t, api, node, check, c)
	c.Unblock()
}

// awaitLastResult is settled, and runs do not go on.
func awaitLastResult(t *testing.T, api *client.Client, node, check string, c *harness.Counter) {
	t.Helper()
	c.Block()
	harness.Until(t, time.Minute, fmt.Sprintf("every run of %s/%s is applied", node, check), func() (string, bool) {
		e := eventOf(t, api, node, check)
		runs := c.Runs()
		if e.Results > runs {
			t.Fatalf("%s/%s: %d runs, %d results applied", node, check, runs, e.Results)
		}
		return fmt.Sprintf("%d runs, %d results, %q", runs, e.Results, e.Output), e.Results == runs && e.Output == fmt.Sprint("run ", runs)
	})
}

// The agent is killed while the server has not acknowledged what it holds. Back within
// the time-out nobody notices; one that stays away is reported once. Nothing is lost
// or applied twice either way.
func TestAgentKilledWithUnacknowledgedResults(t *testing.T) {
	t.Parallel()
	const timeout = 5 * time.Second
	s := harness.StartServer(t, "--keepalive-interval", "1s", "--keepalive-timeout", timeout.String())
	api := s.Client()
	var agents [2]*harness.Agent
	var counters [2]*harness.Counter
	for i, name := range []string{"soon", "late"} {
		agents[i], counters[i] = s.NewAgent(name), s.Counter("count-"+name, name)
		agents[i].Start()
	}
	for _, c := range counters {
		c.AwaitRuns(2)
	}
	soon, late := agents[0], agents[1]

	s.Pause()
	for _, c := range counters {
		c.AwaitRuns(3)
		c.Block()
	}
	sleep(t.Context(), 2*time.Second) // what the spool lingers before it writes, and more
	soon.Kill()
	late.Kill()
	s.Resume()
	for _, c := range counters {
		c.Unblock()
	}
	soon.Start()
	awaitAllResults(t, api, "soon", "count-soon", counters[0])

	harness.Until(t, timeout+30*time.Second, "the one that stays away is reported", func() (string, bool) {
		e := eventOf(t, api, "late", model.KeepaliveCheckName)
		return fmt.Sprintf("%+v", e), e.Status == model.Critical && e.Problem != nil
	})
	late.Start()
	awaitAllResults(t, api, "late", "count-late", counters[1])
	harness.Until(t, 20*time.Second, "its problem is closed", func() (string, bool) {
		e := eventOf(t, api, "late", model.KeepaliveCheckName)
		return fmt.Sprintf("%+v", e), e.Status == model.OK && e.Problem == nil
	})

	harness.Until(t, 20*time.Second, "history has both changes", func() (string, bool) {
		got := statusChanges(t, api, "late", model.KeepaliveCheckName)
		return fmt.Sprintf("%+v", got), len(got) == 2
	})
	if got := problemsOf(t, api, "late"); len(got) != 1 || got[0].Check != model.KeepaliveCheckName {
		t.Errorf("the one that stayed away: problems %+v, want one of its keepalive", got)
	}
	if got := statusChanges(t, api, "soon", model.KeepaliveCheckName); len(got) != 0 {
		t.Errorf("the one that came back in time was reported: %+v", got)
	}
	if got := problemsOf(t, api, "soon"); len(got) != 0 {
		t.Errorf("the one that came back in time has problems: %+v", got)
	}
}

// statusChanges are those changes of an event that judged it anew.
func statusChanges(t *testing.T, api *client.Client, node, check string) (out []v1.Entry) {
	t.Helper()
	list, err := api.Events.History(t.Context(), model.DefaultNamespaceName, node, check, 100)
	if err != nil {
		t.Fatalf("history of %s/%s: %v", node, check, err)
	}
	for _, e := range list.Items {
		if e.Kind == "status" {
			out = append(out, e)
		}
	}
	return out
}

// problemsOf are all that a node ever had.
func problemsOf(t *testing.T, api *client.Client, node string) []v1.Problem {
	t.Helper()
	list, err := api.Problems.List(t.Context(), model.DefaultNamespaceName, node, "", false, 100, "")
	if err != nil {
		t.Fatalf("problems of %s: %v", node, err)
	}
	return list.Items
}
