//go:build linux

package test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-fleet/muster/test/harness"
)

// A pager, from its file to the incident's end: its key stands in a file; tried by hand; a
// check fails while the service refuses, the dead letter is seen and sent again; the check
// is well, and the incident is resolved under the same key.
func TestPagerIncident(t *testing.T) {
	t.Parallel()
	type event struct {
		Action string `json:"event_action"`
		Key    string `json:"routing_key"`
		Dedup  string `json:"dedup_key"`
	}
	var refuse atomic.Bool
	events := make(chan event, 100)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e event
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil || r.URL.Path != "/v2/enqueue" {
			t.Errorf("%s: %v", r.URL, err)
		}
		if refuse.Load() {
			http.Error(w, `{"status":"invalid event"}`, http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		events <- e
	}))
	t.Cleanup(service.Close)
	next := func(action string) event {
		t.Helper()
		select {
		case e := <-events:
			if e.Action != action || e.Key != "R0123456789ABCDEF0123456789ABCDE" {
				t.Fatalf("%+v, want %s", e, action)
			}
			return e
		case <-time.After(time.Minute):
			t.Fatalf("no %s within a minute", action)
			panic("unreachable")
		}
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("R0123456789ABCDEF0123456789ABCDE\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	s := harness.NewServer(t)
	s.Start()
	s.WaitReady(time.Minute)
	s.Login()
	s.Apply(fmt.Sprintf("kind: Handler\nmetadata: {name: pager}\nspec:\n  pagerduty: {routingKey: {fromFile: %q}, url: %q}\n---\nkind: Namespace\nmetadata: {name: default}\nspec: {handlers: [pager]}\n", file, service.URL))
	if out := s.CLI("handler", "test", "pager"); !strings.Contains(out, "202 Accepted") || strings.Contains(out, "R0123") {
		t.Errorf("%s", out)
	}
	next("trigger")

	refuse.Store(true)
	if r := s.Try("handler", "test", "pager"); r.Code != 2 || !strings.Contains(r.Out, "400 Bad Request") {
		t.Errorf("%d %s%s", r.Code, r.Out, r.Errors)
	}
	a := s.NewAgent("web01")
	a.Start()
	check := s.Counter("disk", "web01")
	check.AwaitRuns(1)
	check.Exit(2)
	harness.Until(t, time.Minute, "a dead letter", func() (string, bool) {
		out := s.CLI("handler", "dead", "pager")
		return out, strings.Contains(out, "CRITICAL: disk on web01: run ")
	})
	refuse.Store(false)
	if out := s.CLI("handler", "replay", "pager", "-m", "mended"); !strings.Contains(out, "1 message queued") {
		t.Errorf("%s", out)
	}
	opened := next("trigger")
	check.Exit(0)
	if closed := next("resolve"); closed.Dedup != opened.Dedup {
		t.Errorf("%+v, %+v", opened, closed)
	}
	if out := s.CLI("audit", "run"); !strings.Contains(out, "a replay of dead letters of handler default/pager: mended") {
		t.Errorf("%s", out)
	}
}
