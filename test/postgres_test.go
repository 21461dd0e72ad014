//go:build linux

package test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/pgtest"
	"github.com/muster-fleet/muster/test/harness"
)

// webhookRecorder is a webhook that remembers what it was told.
type webhookRecorder struct {
	*httptest.Server
	mu   sync.Mutex
	keys []string
}

func newWebhookRecorder(t *testing.T) *webhookRecorder {
	w := &webhookRecorder{}
	w.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.keys = append(w.keys, r.Header.Get("Idempotency-Key"))
	}))
	t.Cleanup(w.Close)
	return w
}

// kindsOf are the keys of one problem, in the order in which they first came.
func (w *webhookRecorder) kindsOf(problem string) (kinds []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range w.keys {
		id, rest, _ := strings.Cut(key, "/")
		kind, _, _ := strings.Cut(rest, "/")
		if id == problem && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// toggled is a check whose status is what a file says, and a handler that hears of it.
const toggled = `
apiVersion: muster/v1
kind: Handler
metadata: {name: hook}
spec: {webhook: {url: %q}}
---
apiVersion: muster/v1
kind: Check
metadata: {name: toggle}
spec:
  targets: {groups: [all]}
  interval: 1s
  command: exit $(cat %s)
  alert: {handlers: [hook]}
`

// A server with intent and history in PostgreSQL, through a day: applied, joined,
// watched, restarted; PostgreSQL stopped for an upgrade meanwhile, and a second server
// started on the same database by mistake.
func TestServerOnPostgreSQL(t *testing.T) {
	if testing.Short() {
		t.Skip("starts PostgreSQL")
	}
	t.Parallel()
	pg := pgtest.Start(t)
	dsn := pg.Database(t)
	s := harness.NewServer(t, "--intent-db", dsn, "--history-db", dsn, "--snapshot-cycle", "2s")
	fleet := harness.Fleet{Agents: 10, Checks: 5, Interval: 200 * time.Millisecond}
	s.Prepare(fleet, "--intent-db", dsn)
	s.Start()
	api := s.Client()
	hook := newWebhookRecorder(t)

	dir := t.TempDir()
	file := filepath.Join(dir, "status")
	say := func(status string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(status), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	say("0")
	declared := filepath.Join(dir, "check.yaml")
	if err := os.WriteFile(declared, fmt.Appendf(nil, toggled, hook.URL, file), 0o600); err != nil {
		t.Fatal(err)
	}
	s.CLI("apply", "-f", declared)
	token, err := api.Enrolment.CreateToken(t.Context(), v1.JoinTokenRequest{Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	harness.Launch(t, nil, "agent", "--token", token.Token, "--server", s.Listen, "--state-dir", filepath.Join(dir, "agent"), "--name", "web01")

	status := func(want model.Status) {
		t.Helper()
		harness.Until(t, 30*time.Second, "the event is "+want.String(), func() (string, bool) {
			e, err := api.Events.Get(t.Context(), "default", "web01", "toggle")
			return fmt.Sprint(e.Status, err), err == nil && e.Status == want
		})
	}
	status(model.OK)
	say("2")
	status(model.Critical)
	problem := openProblemID(t, api)
	awaitWebhookKinds(t, hook, problem, "opened")

	s.Stop()
	s.Start()
	if again := openProblemID(t, api); again != problem {
		t.Errorf("after the restart the open problem is %s, was %s", again, problem)
	}

	// A load runs while PostgreSQL is away: every result is acknowledged in time.
	end := startLoad(t, s, fleet, 12*time.Second)
	pg.Stop(t)
	say("0")
	status(model.OK)
	expectStoreOutage(t, s, declared)
	pg.Restart(t)
	harness.Until(t, 40*time.Second, "the status warns no more", func() (string, bool) {
		st, err := api.Status(t.Context(), "")
		warns := slices.ContainsFunc(st.Warnings, func(text string) bool {
			return !strings.HasPrefix(text, "nobody is told of problems in namespace load")
		})
		return fmt.Sprint(st.Warnings, st.Reactions, err), err == nil && !warns && st.Reactions.Waiting == 0
	})
	awaitWebhookKinds(t, hook, problem, "opened", "closed")
	e := <-end
	if e.err != nil || !e.rep.OK() {
		t.Errorf("load run: %v, %+v", e.err, e.rep)
	}
	if e.rep.BeyondLinger.P99 > 3000 {
		t.Errorf("acknowledgements waited for PostgreSQL: %+v", e.rep.BeyondLinger)
	}
	s.CLI("apply", "-f", declared)
	compareChangesWithHistory(t, api, 50)

	second := harness.NewServer(t, "--intent-db", dsn, "--history-db", dsn)
	second.Launch()
	if code := second.Wait(30 * time.Second); code != model.Conflict.Exit() || !strings.Contains(second.Log(), "another server uses this database: muster intent: process") {
		t.Errorf("the second server ended with %d:\n%s", code, second.Log())
	}
	if why, ok := s.Ready(); !ok {
		t.Errorf("the first server is not ready: %s", why)
	}
	s.Stop()
}

// openProblemID is the id of the one open problem of the check toggle.
func openProblemID(t *testing.T, api *client.Client) (id string) {
	t.Helper()
	harness.Until(t, 30*time.Second, "history holds the open problem", func() (string, bool) {
		list, err := api.Problems.List(t.Context(), "default", "web01", "toggle", true, 10, "")
		if len(list.Items) == 1 {
			id = list.Items[0].ID
		}
		return fmt.Sprint(list, err), len(list.Items) == 1
	})
	return id
}

func awaitWebhookKinds(t *testing.T, hook *webhookRecorder, problem string, want ...string) {
	t.Helper()
	harness.Until(t, 40*time.Second, fmt.Sprintf("the handler was told %v", want), func() (string, bool) {
		got := hook.kindsOf(problem)
		return fmt.Sprint(got), slices.Equal(got, want)
	})
}

// expectStoreOutage is what people see while PostgreSQL does not answer: what needs it says so, the
// rest answers.
func expectStoreOutage(t *testing.T, s *harness.Server, declared string) {
	t.Helper()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"apply", "-f", declared}, "the intent store does not answer"},
		{[]string{"get", "checks"}, "the intent store does not answer"},
		{[]string{"get", "problems"}, "the history store does not answer"},
	} {
		r := harness.Run(t, s.Env(), c.args...)
		if r.Code != model.Unavailable.Exit() || !strings.Contains(r.Errors, c.want) || !strings.Contains(r.Errors, "PostgreSQL") {
			t.Errorf("muster %v: code %d\n%s%s", c.args, r.Code, r.Out, r.Errors)
		}
	}
	if out := s.CLI("get", "events", "--node", "web01"); !strings.Contains(out, "toggle") {
		t.Errorf("get events:\n%s", out)
	}
	if out := s.CLI("status"); !strings.Contains(out, "warning: the intent store does not answer") || !strings.Contains(out, "warning: the history store does not answer") {
		t.Errorf("status:\n%s", out)
	}
	if why, ok := s.Ready(); !ok {
		t.Errorf("agents are served, but readyz says %s", why)
	}
}
