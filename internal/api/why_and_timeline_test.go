package api_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/api/apitest"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestWhyOfBuiltInCheckPromisesNoRun asks why a built-in check has no result, and expects no promise of a run. No
// agent runs such a check.
func TestWhyOfBuiltInCheckPromisesNoRun(t *testing.T) {
	r := apitest.NewServer(t)
	r.DeclareNodes("default", nil, "web01")
	r.SetSession("web01", nil)
	r.ConnectNodes("default", "web01")
	c := newTestClient(t, r, r.Token)
	for check, want := range map[string]string{
		"muster-files": "is about the server: muster why muster-server/muster-files", "muster-journal": "muster why muster-server/muster-journal",
		"limits": "none: this node reached no limit", "identity": "none: no second machine", "sensu-metrics": "none: no Sensu agent sent metrics",
	} {
		trace, err := c.Events.Trace(t.Context(), "default", "web01", check)
		testenv.NoError(t, err)
		var text strings.Builder
		for _, l := range trace.Links {
			text.WriteString(l.Text + "\n")
		}
		if !strings.Contains(text.String(), want) || strings.Contains(text.String(), "within 10 seconds") {
			t.Errorf("%s:\n%s", check, text.String())
		}
	}
}

// TestTimelineShowsADeletedSilence creates and deletes a silence after a problem opened, and expects both times in
// the problem's timeline. The timeline has both times.
func TestTimelineShowsADeletedSilence(t *testing.T) {
	r := apitest.NewServer(t)
	r.DeclareNodes("default", nil, "web01")
	r.Apply(fleetYAML)
	node, _ := r.Directory.NodeByName("default", "web01")
	check, _ := r.Directory.CheckByName("default", "disk")
	opened := r.Now()
	testenv.NoError(t, r.History.Record(t.Context(), history.Batch{Opened: []history.Problem{{Namespace: "default", Node: "web01", SourceName: "disk",
		Problem: model.Problem{ID: "one", NodeID: node, Source: model.CheckSource(check), Status: model.Critical, Severity: model.High, Opened: opened, Output: "full"}}}}))
	c := newTestClient(t, r, r.Token)
	r.Advance(time.Hour)
	r.Apply("kind: Silence\nmetadata: {name: night}\nspec: {checks: [disk], reason: repair}\n")
	r.Advance(time.Hour)
	if _, err := r.Intent.Delete(t.Context(), intent.Actor{User: "ann"}, []intent.Key{{Kind: "Silence", Namespace: "default", Name: "night"}}, intent.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	timeline, err := c.Problems.Timeline(t.Context(), "one")
	testenv.NoError(t, err)
	times := map[string]time.Duration{}
	for _, m := range timeline.Items {
		times[m.Kind] = m.At.Sub(opened).Round(time.Minute)
	}
	if times["silenced"] != time.Hour || times["silence ended"] != 2*time.Hour {
		t.Errorf("silenced after %s, ended after %s: %+v", times["silenced"], times["silence ended"], timeline.Items)
	}
}

// TestUnknownTriggerIsRefused asks the API about a trigger that no Template declares, and expects the nearest
// name. The questions are muster why and muster route test.
func TestUnknownTriggerIsRefused(t *testing.T) {
	r := apitest.NewServer(t)
	r.DeclareNodes("default", nil, "web01")
	r.Apply("kind: Template\nmetadata: {name: linux}\nspec:\n  targets: {groups: [all]}\n  items: [{key: agent.ping}]\n" +
		"  triggers: [{name: AgentSilent, expression: 'nodata(//agent.ping,5m)=1'}]\n")
	c := newTestClient(t, r, r.Token)
	ask := map[string]func(check string) error{
		"why": func(check string) error {
			_, err := c.Events.Trace(t.Context(), "default", "web01", check)
			return err
		},
		"route test": func(check string) error {
			_, err := c.Notifications.TestRoute(t.Context(), "default", "web01", check, time.Time{}, "", "")
			return err
		},
	}
	for command, about := range ask {
		testenv.NoError(t, about("linux:AgentSilent"))
		err := about("linux:AgentSilnt")
		var refused *model.Error
		if !errors.As(err, &refused) || !strings.Contains(refused.Hint, "did you mean linux:AgentSilent?") {
			t.Errorf("%s: %v; want the hint to name linux:AgentSilent", command, err)
		}
	}
}

// TestWhyShowsAFailedNotification lets a handler refuse notifications, and expects the command muster why to
// show the failure. It and muster describe handler must show the start of the failure, the handler's answer and
// the time of the next attempt.
func TestWhyShowsAFailedNotification(t *testing.T) {
	r := apitest.NewServer(t)
	r.DeclareNodes("default", nil, "web01")
	r.Apply("kind: Handler\nmetadata: {name: pager}\nspec: {webhook: {url: 'http://" + testenv.Port(t) + "/'}}\n---\n" +
		"kind: Check\nmetadata: {name: disk}\nspec: {targets: {groups: [all]}, interval: 60s, command: x, alert: {handlers: [pager]}}\n")
	r.RunDispatcher()
	c := newTestClient(t, r, r.Token)
	trace := func() string {
		out, err := c.Events.Trace(t.Context(), "default", "web01", "disk")
		testenv.NoError(t, err)
		var text strings.Builder
		for _, l := range out.Links {
			fmt.Fprintf(&text, "%s %t: %s %s\n", l.Name, l.Holds, l.Text, l.At.Format(time.TimeOnly))
			for _, under := range l.Steps {
				fmt.Fprintf(&text, "  %s %s\n", under.Text, under.At.Format(time.TimeOnly))
			}
		}
		return text.String()
	}
	failed := func(messages int) {
		testenv.Until(t, "failed messages", func() bool {
			unsent, err := r.History.Unsent(t.Context(), r.Now())
			testenv.NoError(t, err)
			return len(unsent) == 1 && unsent[0].Failing == messages
		})
	}
	r.RecordResult("default", "web01", "disk", model.Critical, "full")
	failed(1)
	text := trace()
	for _, want := range []string{
		"notified false: pager (opened): not notified, failed once, next attempt 12:00:0", "failing since 12:00:00", "last error: send webhook request",
		"notified false: handlers pager: pager is not notified, its message fails and is tried again",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	state, err := c.Resources.State(t.Context(), kind.Handler().KindInfo, "default", "pager")
	testenv.NoError(t, err)
	if u := state.Unsent; u == nil || u.Waiting != 1 || u.Failing != 1 || !strings.Contains(u.LastError, "send webhook request") {
		t.Errorf("describe handler: %+v", u)
	}
	r.RecordResult("default", "web01", "disk", model.OK, "fine")
	r.AwaitHistory()
	if text = trace(); !strings.Contains(text, "notified true: pager (closed): waiting") && !strings.Contains(text, "notified false: pager (closed): not notified") {
		t.Errorf("no message of the recovery in\n%s", text)
	}
}
