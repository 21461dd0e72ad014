package sensu

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/outputs"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
)

// api returns the HTTP API of the fake backend. From then on it sends requests for a created check to each registered
// agent with its subscription.
func (b *fake) api() *httptest.Server {
	done := make(chan struct{})
	var all sync.WaitGroup
	mux := http.NewServeMux()
	mux.HandleFunc("GET /auth", func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "admin" || password != "secret" {
			http.Error(w, `{"message":"bad credentials"}`, http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"access_token":"T","expires_at":1,"refresh_token":"R"}`)
	})
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"sensu_backend":"6.0.0"}`) })
	mux.HandleFunc("PUT /api/core/v2/namespaces/default/checks/{name}", func(w http.ResponseWriter, r *http.Request) {
		var c fakeCheck
		if err := json.NewDecoder(r.Body).Decode(&c); err != nil || r.Header.Get("Authorization") != "Bearer T" || c.Metadata.Name != r.PathValue("name") {
			b.t.Errorf("%v %+v", err, c)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.checks[c.Metadata.Name] = make(chan struct{})
		over := b.checks[c.Metadata.Name]
		all.Go(func() { b.schedule(c, over, done) })
		w.WriteHeader(http.StatusCreated)
	})
	mux.HandleFunc("DELETE /api/core/v2/namespaces/default/checks/{name}", func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		close(b.checks[r.PathValue("name")])
		delete(b.checks, r.PathValue("name"))
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /api/core/v2/namespaces/default/events", func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		var keys []string
		for k := range b.kept {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		from, _ := strconv.Atoi(r.FormValue("continue"))
		to := min(from+7, len(keys)) // pages shorter than asked for
		list := []*fakeEvent{}
		for _, k := range keys[from:to] {
			list = append(list, b.kept[k])
		}
		if to < len(keys) {
			w.Header().Set("Sensu-Continue", strconv.Itoa(to))
		}
		_ = json.NewEncoder(w).Encode(list)
	})
	server := httptest.NewServer(mux)
	b.t.Cleanup(func() {
		close(done)
		server.Close()
		all.Wait()
	})
	return server
}

// second is how long the fake's seconds last: Sensu's shortest interval is one of them. Its
// clock is behind and counts what it asked for, so that no tick that comes late leaves one out.
const second = 100 * time.Millisecond

// schedule sends requests for a check at its interval.
func (b *fake) schedule(c fakeCheck, over, done chan struct{}) {
	tick := time.NewTicker(time.Duration(c.Interval) * second)
	defer tick.Stop()
	for issued := time.Now().Add(-time.Minute).Unix(); ; issued += int64(c.Interval) {
		select {
		case <-over:
			return
		case <-done:
			return
		case <-tick.C:
			b.mu.Lock()
			var list []*fakeSession
			for _, s := range b.sessions {
				if c.Metadata.Name == b.never {
					continue
				}
				for _, name := range c.Subscriptions { // as a backend does: for each that an agent has
					if slices.Contains(s.subscriptions, name) {
						list = append(list, s)
					}
				}
			}
			b.mu.Unlock()
			for _, s := range list {
				b.send(s, sensuwire.TypeCheckRequest, b.request(c, issued))
			}
		}
	}
}

// small returns a small scenario.
func small(changes float64) *scenario.Scenario {
	sc := &scenario.Scenario{Name: "small", Target: "sensu", Seed: 1,
		Agents: []scenario.Class{
			{Name: "web", Count: 6, Checks: []scenario.Check{{Name: "http", Count: 2, Interval: model.Duration(time.Second), Changes: changes}}},
			{Name: "db", Count: 2, Checks: []scenario.Check{{Name: "mysql", Interval: model.Duration(time.Second), Output: scenario.Output{Like: "mysql"}}}},
		},
		Phases: []scenario.Phase{{Ramp: model.Duration(100 * time.Millisecond)}, {Steady: model.Duration(1300 * time.Millisecond), Warmup: model.Duration(200 * time.Millisecond)},
			{Drain: model.Duration(20 * time.Second)}}, // it ends as soon as all is there
	}
	sc.Defaults()
	return sc
}

// playOn plays a scenario against a fake backend.
func playOn(t *testing.T, b *fake, api *API, sc *scenario.Scenario) (*report.Report, error) {
	t.Helper()
	target, err := New(sc, Options{Backends: []string{b.url()}, User: "agent", Password: "secret", Namespace: "default"}, api)
	if err != nil {
		t.Fatal(err)
	}
	return load.RunTarget(t.Context(), load.Config{Options: play.Options{Scenario: sc}, MaxLag: time.Minute, Goals: []report.Goal{{Name: "p99", Want: 1}}}, target)
}

// TestScenario plays a scenario twice against one backend, and expects all sent results, also with changing statuses,
// and no checks left.
func TestScenario(t *testing.T) {
	t.Parallel()
	b := newFake(t, false)
	api := &API{URL: b.api().URL, User: "admin", Password: "secret", Namespace: "default", Client: http.DefaultClient}
	for _, changes := range []float64{0, 0.3} {
		sc := small(changes)
		sc.Objectives = map[string]scenario.Limit{"rate": "1", "beyond-p99": "1ms"}
		sc.Agents[0].Keepalive = &model.Keepalive{Interval: model.Duration(time.Minute), Timeout: model.Duration(6 * time.Minute)}
		sc.Agents[1].TLS = true
		rep, err := playOn(t, b, api, sc)
		if err != nil {
			t.Fatal(err)
		}
		if len(rep.Goals) != 1 || !strings.Contains(strings.Join(rep.Label, "; "), "not judged: beyond-p99, p99") {
			t.Errorf("goals %+v, labels %q: an objective that is left out has to be named", rep.Goals, rep.Label)
		}
		l := rep.Balance
		if !rep.OK() || l.Compared != 14 || l.Sent < 14 || l.Sent != l.Acknowledged || l.Imbalances > 0 {
			t.Errorf("%v %+v", rep.Verdict, l)
		}
		if rep.Targeted.Version != "6.0.0" || rep.Targeted.Requests < l.Sent || rep.Results == 0 || rep.Latency.Max == 0 || len(rep.Samples) < 2 || rep.Plan.Agents != 8 {
			t.Errorf("%+v %+v", rep.Targeted, rep)
		}
		if rep.Plan.Seed != sc.Seed || rep.Plan.TLS || !strings.Contains(strings.Join(rep.Label, "; "), "without TLS") {
			t.Errorf("seed %d, TLS %t, labels %q", rep.Plan.Seed, rep.Plan.TLS, rep.Label)
		}
		b.mu.Lock()
		if web, db := b.lives["web-00000"], b.lives["db-00000"]; web != "60 s, 360 s" || db != "20 s, 120 s" {
			t.Errorf("keepalives of web every %s, of db every %s", web, db)
		}
		if len(b.checks) > 0 {
			t.Errorf("left behind: %v", b.checks)
		}
		b.mu.Unlock()
	}
}

// TestGroupsAreSubscriptions expects that an agent in two groups of a check gets two requests and answers once.
func TestGroupsAreSubscriptions(t *testing.T) {
	t.Parallel()
	b := newFake(t, false)
	api := &API{URL: b.api().URL, User: "admin", Password: "secret", Namespace: "default", Client: http.DefaultClient}
	sc := small(0)
	sc.Agents[0].Groups, sc.Agents[1].Groups = []string{"linux", "eu"}, []string{"linux"}
	sc.Checks = []scenario.GroupCheck{
		{Check: scenario.Check{Name: "disk", Interval: model.Duration(time.Second)}, Groups: []string{"linux", "eu"}},
		{Check: scenario.Check{Name: "ping", Interval: model.Duration(time.Second)}, Each: []string{"linux", scenario.AllGroup}},
	}
	sc.Defaults()
	rep, err := playOn(t, b, api, sc)
	if err != nil {
		t.Fatal(err)
	}
	if l := rep.Balance; !rep.OK() || l.Compared != 6*(2+1+2)+2*(1+1+2) || rep.Targeted.Dropped < uint64(6) {
		t.Errorf("%v %+v %+v", rep.Verdict, l, rep.Targeted)
	}
}

// kept is a backend that holds some events.
type kept struct {
	Backend
	list map[state]held
}

func (k kept) events(_ context.Context, f func(state, held)) error {
	for s, h := range k.list {
		f(s, h)
	}
	return nil
}

// TestLoss compares the events of a backend with the ledger of an agent, and expects a difference for each event that the backend
// lost or changed, also behind events of an earlier run.
func TestLoss(t *testing.T) {
	here := state{"web-00000", "disk"}
	sent := entry{sent: 3, written: 3, executed: 90, status: 1, row: 3}
	for name, c := range map[string]struct {
		before, now held
		kept        uint64 // 3: no difference
	}{
		"all are there":                {held{}, held{90, 1, 3}, 3},
		"all, behind an earlier run's": {held{50, 1, 4}, held{90, 1, 7}, 3},
		"the first one is lost":        {held{}, held{90, 1, 2}, 2},
		"one behind an earlier run's":  {held{50, 1, 4}, held{90, 1, 6}, 2},
		"the last one is lost":         {held{}, held{80, 1, 2}, 2},
		"another status":               {held{}, held{90, 2, 3}, 2},
		"there is no event":            {held{}, held{}, 0},
	} {
		target := &Target{api: kept{list: map[state]held{here: c.now}}, baseline: map[state]held{here: c.before}, checks: []map[string]spoken{{"disk": {says: outputs.Of(small(0), 0, &small(0).Agents[0].Checks[0])}}}}
		a := target.newAgent(sensuwire.Entity{Name: here.entity}, 0)
		a.ledger[here.check] = &sent
		target.agents = []*agent{a}
		differ := 0
		states, got, err := target.Compare(t.Context(), func(i report.Imbalance, _ string) { differ++ })
		if err != nil || states != 1 || got != c.kept || (differ == 0) != (c.kept == 3) {
			t.Errorf("%s: %v, %d states, %d kept, %d differ", name, err, states, got, differ)
		}
	}
}

// TestWhatDidNotComeFails lets the backend send no requests, or close connections, and expects a failed run although
// all sent results are there.
func TestWhatDidNotComeFails(t *testing.T) {
	for name, c := range map[string]struct {
		change func(b *fake, sc *scenario.Scenario)
		says   string
	}{
		"never asked for": {func(b *fake, sc *scenario.Scenario) {
			b.never, sc.Phases[1].Steady = "db-mysql-000", model.Duration(2500*time.Millisecond)
		}, " did not come in their interval"},
		"hung up on": {func(b *fake, _ *scenario.Scenario) {
			cut := false
			b.lose = func(e *fakeEvent) bool { // with the lock held: it loses nothing, and the agent has no other check
				if name := e.Entity.Metadata.Name; name == "db-00000" && !cut {
					cut = b.sessions[name].nc.Close() == nil
				}
				return false
			}
		}, "1 connections were lost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, sc := newFake(t, false), small(0)
			c.change(b, sc)
			rep, err := playOn(t, b, &API{URL: b.api().URL, User: "admin", Password: "secret", Namespace: "default", Client: http.DefaultClient}, sc)
			if err != nil {
				t.Fatal(err)
			}
			if failed := strings.Join(rep.Failed(), "; "); rep.OK() || rep.Lost() || !strings.Contains(failed, c.says) || !strings.Contains(strings.Join(rep.Verdict, "; "), c.says) {
				t.Errorf("%q; %q, %+v", failed, rep.Verdict, rep.Targeted)
			}
		})
	}
}

// TestOverdue expects that a request may be late by half an interval and a second.
func TestOverdue(t *testing.T) {
	for _, c := range []struct {
		interval, since time.Duration
		want            uint64
	}{
		{time.Second, 1900 * time.Millisecond, 0}, {time.Second, 2 * time.Second, 1}, {time.Second, 10 * time.Second, 9},
		{10 * time.Second, 14 * time.Second, 0}, {10 * time.Second, 15 * time.Second, 1}, {10 * time.Second, 36 * time.Second, 3}, {0, time.Hour, 0},
	} {
		if got := overdue(c.interval, c.since); got != c.want {
			t.Errorf("every %s, nothing for %s: %d, want %d", c.interval, c.since, got, c.want)
		}
	}
}

// TestCannotBePlayed expects errors for impossible scenarios before anything is done.
func TestCannotBePlayed(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*scenario.Scenario){
		func(s *scenario.Scenario) { s.Faults = []scenario.Fault{{Server: "kill"}} },
		func(s *scenario.Scenario) { s.Phases[1].Rate = 1.2 },
		func(s *scenario.Scenario) { s.Agents[0].Churn.Reconnects = "1%/min" },
	} {
		sc := small(0)
		change(sc)
		if err := load.TargetPlays(sc, &Target{}); model.ClassOf(err) != model.Unsupported {
			t.Errorf("%v", err)
		}
	}
	sc := small(0)
	sc.Agents[0].Checks[0].Interval = model.Duration(1500 * time.Millisecond)
	if _, err := New(sc, Options{}, nil); model.ClassOf(err) != model.Unsupported {
		t.Errorf("%v", err)
	}
	sc = small(0)
	sc.Agents[1].Keepalive = &model.Keepalive{Interval: model.Duration(2500 * time.Millisecond), Timeout: model.Duration(time.Minute)}
	if _, err := New(sc, Options{}, nil); model.ClassOf(err) != model.Unsupported {
		t.Errorf("%v", err)
	}
	b := newFake(t, false)
	api := &API{URL: b.api().URL, User: "admin", Password: "guessed", Namespace: "default", Client: http.DefaultClient}
	if _, err := playOn(t, b, api, small(0)); model.ClassOf(err) != model.Unauthenticated {
		t.Errorf("%v", err)
	}
}

// answering is a transport that answers every request with these bytes.
type answering []byte

// RoundTrip answers with the bytes.
func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(a)), Header: http.Header{}}, nil
}

// FuzzAnswer decodes random answers of the API.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`[{"entity":{"metadata":{"name":"a"}},"check":{"metadata":{"name":"b"},"executed":5,"status":1,"occurrences":3}}]`))
	f.Add([]byte(`{"access_token":"T"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		c := &API{URL: "http://127.0.0.1", token: "T", taken: time.Now(), Client: &http.Client{Transport: answering(body)}}
		_ = c.events(t.Context(), func(state, held) {})
	})
}
