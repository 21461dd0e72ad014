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
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
)

// accuser is a server whose clock is ten minutes ahead, and what it says of machines'
// silence: at which second of the run, of whom.
type accuser struct {
	epoch   time.Time
	history map[int]string // by second
	open    map[int]string
	behind  int // answers in which history is behind
}

const clockAhead = 10 * time.Minute

func (x *accuser) problem(second int, node string) v1.OpenProblem {
	return v1.OpenProblem{Problem: model.Problem{ID: fmt.Sprint(node, "@", second), Opened: x.epoch.Add(clockAhead + time.Duration(second)*time.Second)}}
}

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

// In a run whose script is empty no machine may be called silent: one that the server calls
// so fails it, and that is as bad as a loss. Machine 0 had a session all the time, machine 1
// none from second 100 to 200, machine 2 has none since 300.
func TestCalledSilent(t *testing.T) {
	const all, away, gone = "web-00000", "web-00001", "web-00002"
	at := func(second int, node string) map[int]string { return map[int]string{second: node} }
	for name, c := range map[string]struct {
		x       accuser
		extra   int
		example string
	}{
		"nobody":                                   {accuser{}, 0, ""},
		"a machine with a session":                 {accuser{history: at(50, all)}, 1, all},
		"… that has another name now":              {accuser{history: at(50, all+renamedEnd)}, 1, all},
		"… and history says it late":               {accuser{history: at(50, all), behind: 2}, 1, all},
		"… which only the view knows yet":          {accuser{open: at(590, all)}, 1, all},
		"… which both know is one":                 {accuser{history: at(590, all), open: at(590, all)}, 1, all},
		"two, on two pages":                        {accuser{history: map[int]string{50: all, 60: away}}, 2, all},
		"before it went":                           {accuser{history: at(99, away)}, 1, away},
		"after it came":                            {accuser{history: at(210, away)}, 1, away},
		"while it was away":                        {accuser{history: at(150, away)}, 0, ""},
		"when it came":                             {accuser{history: at(203, away)}, 0, ""},
		"a machine that is gone":                   {accuser{open: at(320, gone)}, 0, ""},
		"before all sent signs of life":            {accuser{history: at(12, all)}, 0, ""},
		"one that this loader sent nothing of":     {accuser{history: at(450, all)}, 0, ""},
		"… and later":                              {accuser{history: at(470, all)}, 1, all},
		"one that is none of this run's":           {accuser{history: at(50, "other")}, 0, ""},
		"one of before, behind one that was right": {accuser{history: map[int]string{150: away, 60: all}}, 1, all},
	} {
		t.Run(name, func(t *testing.T) {
			epoch := time.Now().Add(-10 * time.Minute)
			c.x.epoch = epoch
			server := httptest.NewServer(&c.x)
			defer server.Close()
			api, err := client.New(client.Context{Server: server.URL, Token: "T"})
			if err != nil {
				t.Fatal(err)
			}
			second := func(n int64) int64 { return n * int64(time.Second) }
			r := &run{epoch: epoch, cfg: Config{API: api, Scenario: scenario.Uniform{Drain: time.Minute}.Scenario()}}
			r.begin.Store(second(5))
			r.drained = r.now()
			r.agents = []*agent{
				{run: r, name: all, here: 1, quiet: []stay{{second(400), second(460)}}},
				{run: r, name: away, here: second(200), stays: []stay{{1, second(100)}}},
				{run: r, name: gone, stays: []stay{{1, second(300)}}},
			}
			rep := &reporting{Report: &report.Report{Balance: &report.Balance{}, Silent: r.calledSilent(t.Context())}}
			rep.judge(r.cfg)
			if s := rep.Silent; s.Machines != 3 || s.Extra != c.extra || s.Unjudged != "" || s.Behind != 0 || !strings.Contains(s.Example, c.example) {
				t.Errorf("%+v", s)
			}
			if quiet := c.x.history[450] != ""; (rep.Silent.Quiet == 1) != quiet || (len(rep.Silent.Labels()) == 1) != quiet {
				t.Errorf("quiet: %+v, labels %q", rep.Silent, rep.Silent.Labels())
			}
			if bad := c.extra > 0; rep.OK() == bad || rep.Lost() != bad || (len(rep.Verdict) > 0) != bad {
				t.Errorf("ok %v, lost %v, %q", rep.OK(), rep.Lost(), rep.Verdict)
			}
		})
	}
}

// A server that does not answer has not been found right.
func TestCalledSilentUnread(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	api, err := client.New(client.Context{Server: server.URL, Token: "T"})
	if err != nil {
		t.Fatal(err)
	}
	r := &run{epoch: time.Now(), cfg: Config{API: api, Scenario: &scenario.Scenario{}}}
	rep := &reporting{Report: &report.Report{Balance: &report.Balance{}, Silent: r.calledSilent(t.Context())}}
	rep.judge(r.cfg)
	if rep.OK() || rep.Lost() || len(rep.Verdict) != 1 || !strings.Contains(rep.Verdict[0], "could not be read") {
		t.Errorf("ok %v, lost %v, %q", rep.OK(), rep.Lost(), rep.Verdict)
	}
}

// Where a machine was is known from what it went through.
func TestStays(t *testing.T) {
	r := &run{epoch: time.Now().Add(-time.Hour)}
	a := &agent{run: r}
	hour := r.now()
	a.arrive(1)
	if !a.wasHere(hour / 2) {
		t.Error("not there in its session")
	}
	a.vanish(true)
	if !a.wasHere(hour/2) || a.wasHere(r.now()+slack) {
		t.Errorf("here %d, stays %v", a.here, a.stays)
	}
	a.mu.Lock()
	a.arrive(r.now()) // a session that was being opened
	a.mu.Unlock()
	if a.here != 0 {
		t.Error("there while it is off the network")
	}
	a.appear()
	a.left(t.Context(), nil)
	a.arrive(r.now())
	if len(a.stays) != 1 || a.wasHere(r.now()) || !a.wasHere(r.now()+2*slack) {
		t.Errorf("here %d, stays %v", a.here, a.stays)
	}
}
