package react

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/store/history"
)

func TestTry(t *testing.T) {
	code := atomic.Int64{}
	code.Store(200)
	spec, got := hook(t, func(posted) int { return int(code.Load()) })
	spec.Webhook.URL += "/{{ .props.team }}"
	names := someNames(map[string]*model.HandlerSpec{"pager": spec})
	names.props = map[string]string{"10/team": `"ops"`}
	r := run(t, Options{Store: sqlite(t), Names: names})
	pager := history.HandlerRef{Namespace: "default", Name: "pager"}
	if _, err := r.Try(t.Context(), pager, spec, "ann", 0); model.ClassOf(err) != model.Invalid || !strings.Contains(err.Error(), "--node NODE") {
		t.Errorf("a variable without a node: %v", err)
	}
	for status, want := range map[int64]struct{ failed, final bool }{200: {}, 503: {failed: true}, 404: {failed: true, final: true}} {
		code.Store(status)
		trial, err := r.Try(t.Context(), pager, spec, "ann", 10)
		if err != nil || (trial.Err != nil) != want.failed || trial.Final != want.final {
			t.Errorf("%d: %+v %v", status, trial, err)
		}
		p := receive(t, "request", got)
		if p.uri != "/ops" || !strings.Contains(p.body, `"kind":"test"`) || strings.Contains(trial.Sent, "/ops") || !strings.Contains(trial.Sent, "ann tries handler pager") {
			t.Errorf("%+v\n%s", p, trial.Sent)
		}
	}
}

// A dead letter that is sent again is tried for as long as a new one, and told.
func TestReplay(t *testing.T) {
	s := sqlite(t)
	code := atomic.Int64{}
	code.Store(404)
	spec, got := hook(t, func(posted) int { return int(code.Load()) })
	now := noon.Add(48 * time.Hour) // the problem is older than GiveUp
	r := run(t, Options{Store: s, Names: someNames(map[string]*model.HandlerSpec{"pager": spec}), Delivery: DeliveryOptions{Retry: quick}, Now: func() time.Time { return now }})
	r.Emit([]event.Transition{opening("p1", 1)})
	receive(t, "request", got)
	if a := receive(t, "attempt", s.tried); a.State != history.Dead {
		t.Fatalf("%+v", a)
	}
	pager := history.HandlerRef{Namespace: "default", Name: "pager"}
	code.Store(200)
	done, err := r.Replay(t.Context(), pager, history.Revival{Limit: 10})
	if err != nil || done.Sent != 1 {
		t.Fatalf("%+v %v", done, err)
	}
	if p := receive(t, "request again", got); p.key != "p1/opened/default/pager" {
		t.Errorf("%+v", p)
	}
	if a := receive(t, "attempt", s.tried); a.State != history.Delivered {
		t.Errorf("%+v", a)
	}
	if done, err := r.Replay(t.Context(), pager, history.Revival{Limit: 10}); err != nil || done.Sent != 0 {
		t.Errorf("%+v %v", done, err)
	}
}

// An Alertmanager is told again of what is open, with the labels of the opening, and no
// more of what has closed.
func TestAlertmanagersAreToldAgain(t *testing.T) {
	got := make(chan []map[string]any, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var list []map[string]any
		if err := json.Unmarshal(body, &list); err != nil {
			t.Errorf("%v: %s", err, body)
		}
		got <- list
	}))
	t.Cleanup(server.Close)
	s := sqlite(t)
	spec := &model.HandlerSpec{Alertmanager: &model.Alertmanager{URLs: []string{server.URL}}}
	names := someNames(map[string]*model.HandlerSpec{"am": spec})
	r := run(t, Options{Store: s, Names: names, Delivery: DeliveryOptions{Retry: quick}})
	r.Emit([]event.Transition{opening("p1", 1), opening("p2", 2)})
	for range 2 {
		receive(t, "alert", got)
		receive(t, "attempt", s.tried)
	}
	again := func() int {
		if err := r.deliver.refreshHandler(t.Context(), history.HandlerRef{Namespace: "default", Name: "am"}); err != nil {
			t.Fatal(err)
		}
		select {
		case list := <-got:
			return len(list)
		default:
			return 0
		}
	}
	if n := again(); n != 2 {
		t.Errorf("told again of %d", n)
	}
	names.mu.Lock()
	names.gone = true // the node's labels are others now
	names.mu.Unlock()
	r.Emit([]event.Transition{closing("p1", 61)})
	list := receive(t, "end", got)
	if env := list[0]["labels"].(map[string]any)["env"]; env != "prod" {
		t.Errorf("the end has other labels: %v", list)
	}
	receive(t, "attempt", s.tried)
	if n := again(); n != 1 {
		t.Errorf("told again of %d", n)
	}
	if handler.AlertEvery > 5*time.Minute {
		t.Error("Alertmanager's resolve_timeout is 5 minutes unless set")
	}
}
