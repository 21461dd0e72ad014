package load

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/load/clock"
	"github.com/muster-fleet/muster/internal/load/judge"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
)

// accuser is a server with a clock ten minutes ahead that reports keepalive problems of machines.
type accuser struct {
	epoch   time.Time
	history map[int]string // by second
	open    map[int]string
	behind  int // answers in which history is behind
}

const clockAhead = 10 * time.Minute

// problem returns the keepalive problem of a node that opened in a second of the run.
func (x *accuser) problem(second int, node string) v1.OpenProblem {
	return v1.OpenProblem{Problem: model.Problem{ID: fmt.Sprint(node, "@", second), Opened: x.epoch.Add(clockAhead + time.Duration(second)*time.Second)}}
}

// ServeHTTP answers requests for the status, history and events.
func (x *accuser) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var answer any
	switch r.URL.Path {
	case "/api/v1/status":
		st := v1.Status{Now: time.Now().Add(clockAhead)}
		if x.behind--; x.behind >= 0 {
			st.Reactions.BehindSeconds = 60
		}
		answer = st
	case "/api/v1/problems":
		list := v1.ProblemList{}
		for second := 600; second > 0; second-- { // newest first, a page each
			if node := x.history[second]; node != "" && (r.FormValue("after") == "" || fmt.Sprintf("%04d", second) < r.FormValue("after")) {
				list.Items = []v1.Problem{{OpenProblem: x.problem(second, node), Namespace: simulated.Namespace, Node: node, Check: r.FormValue("check")}}
				list.Next = fmt.Sprintf("%04d", second)
				break
			}
		}
		answer = list
	case "/api/v1/events":
		list := v1.EventList{}
		for second, node := range x.open {
			p := x.problem(second, node)
			list.Items = append(list.Items, v1.Event{Event: model.Event{Namespace: simulated.Namespace, Node: node, Check: r.FormValue("check")}, Problem: &p})
		}
		answer = list
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// TestCalledSilent reads keepalive problems from history and view, and expects their times by the loader's clock, and
// none from before the run.
func TestCalledSilent(t *testing.T) {
	const all = "web-00000"
	for name, c := range map[string]struct {
		x     accuser
		extra int
	}{
		"none":                            {accuser{}, 0},
		"in history":                      {accuser{history: map[int]string{50: all}}, 1},
		"history has it late":             {accuser{history: map[int]string{50: all}, behind: 2}, 1},
		"only the view has it yet":        {accuser{open: map[int]string{590: all}}, 1},
		"both have it":                    {accuser{history: map[int]string{590: all}, open: map[int]string{590: all}}, 1},
		"two, on two pages":               {accuser{history: map[int]string{50: all, 60: all}}, 2},
		"before all sent signs of life":   {accuser{history: map[int]string{12: all}}, 0},
		"before all sent, behind another": {accuser{history: map[int]string{12: all, 60: all}}, 1},
	} {
		epoch := time.Now().Add(-10 * time.Minute)
		c.x.epoch = epoch
		server := httptest.NewServer(&c.x)
		api, err := client.New(client.Context{Server: server.URL, Token: "T"})
		if err != nil {
			t.Fatal(err)
		}
		r := silentRun(epoch, api, scenario.Uniform{Drain: time.Minute}.Scenario())
		r.Start(int64(5 * time.Second))
		r.drained = r.Now()
		ledgers := []observe.Ledgers{{Agents: []observe.Ledger{{Name: all, Stays: []observe.Stay{{From: -r.Begin(), To: observe.Lasts}}}}}}
		x := r.calledSilent(t.Context())
		if s := judge.Silence(ledgers, x.Problems, x.From); s.Machines != 1 || s.Extra != c.extra || x.Unread != "" || x.Behind != 0 {
			t.Errorf("%s: %+v, %+v", name, s, x)
		}
		server.Close()
	}
}

// TestCalledSilentUnread lets the server fail, and expects that the report does not call it correct.
func TestCalledSilentUnread(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	api, err := client.New(client.Context{Server: server.URL, Token: "T"})
	if err != nil {
		t.Fatal(err)
	}
	r := silentRun(time.Now(), api, &scenario.Scenario{})
	rep, err := judge.Checks(&observe.Checks{Start: &observe.Checked{Report: &report.Report{}}, Silence: r.calledSilent(t.Context()), Measured: &observe.Measured{Report: &report.Report{Balance: &report.Balance{}}}})
	if err != nil || rep.OK() || rep.Lost() || len(rep.Verdict) != 1 || !strings.Contains(rep.Verdict[0], "could not be read") {
		t.Errorf("%v, %q", err, rep.Verdict)
	}
}

// silentRun returns a run that began at a time.
func silentRun(epoch time.Time, api *client.Client, sc *scenario.Scenario) *run {
	return &run{Clock: &clock.Clock{Epoch: epoch}, cfg: Config{Options: play.Options{API: api, Scenario: sc}}}
}
