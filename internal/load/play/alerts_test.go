package play

import (
	"fmt"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/load/alerts"
	"github.com/muster-fleet/muster/internal/load/clock"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
)

// alarmed is a run of three machines with one watched check each, without a server: the test calls its methods in place
// of the server.
type alarmed struct {
	t      *testing.T
	fleet  *Fleet
	alarms *alerts.Listener
	agents []*agent
	keys   int
}

const watchedCheck = "web-http-000"

// newAlarmed returns a run with a listener and three agents.
func newAlarmed(t *testing.T) *alarmed {
	x := &alarmed{t: t}
	r := &Fleet{Clock: clock.New(), cfg: Options{Scenario: &scenario.Scenario{}}}
	x.fleet = r
	var err error
	if x.alarms, err = alerts.Listen(alerts.Run{Scenario: r.cfg.Scenario, Address: "127.0.0.1", Clock: r.Clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.alarms.End)
	web := &class{checks: []playing{{full: watchedCheck}}}
	for i := range 3 {
		a := &agent{fleet: r, class: web, name: simulated.MemberName("web", i), session: silent{}, since: 1}
		a.count()
		x.agents = append(x.agents, a)
		a.watch(0, x.alarms.WatchCheck(a.name, watchedCheck, true, false))
		x.alarms.WatchMachine(a.name)
	}
	return x
}

// result lets agent i have a result acknowledged.
func (x *alarmed) result(i int, status model.Status) {
	a := x.agents[i]
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ledger.States = make(observe.Entries, 1)
	a.ledger.pass(a.stream, a.ledger.settled()+1, &sign{check: 0, status: status, intended: a.fleet.Now()}, true)
}

// post posts an alert of machine i to the listener; again repeats the key of the post before.
func (x *alarmed) post(i int, kind string, again bool) {
	if !again {
		x.keys++
	}
	body := fmt.Sprintf(`{"version":1,"kind":%q,"namespace":"load","node":%q,"check":%q}`, kind, simulated.MemberName("web", i), watchedCheck)
	req := httptest.NewRequest("POST", "/", strings.NewReader(body))
	req.Header.Set("Idempotency-Key", fmt.Sprint(x.keys))
	w := httptest.NewRecorder()
	x.alarms.ServeHTTP(w, req)
	if w.Code != 204 {
		x.t.Errorf("answer %d", w.Code)
	}
}

// keepalive sends the listener the state of machine i's keepalive; an empty problem means that there is none.
func (x *alarmed) keepalive(i int, problem string) {
	e := &v1.Event{Event: model.Event{Namespace: simulated.Namespace, Node: simulated.MemberName("web", i), Check: model.KeepaliveCheckName}}
	if problem != "" {
		e.Problem = &v1.OpenProblem{Problem: model.Problem{ID: problem}}
	}
	x.alarms.Event(e)
}

// TestAlertsAreSeen sends results, alerts and keepalive states, and expects all of them in the record, without an alert
// whose key came before.
func TestAlertsAreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newAlarmed(t)
		x.fleet.Start(int64(time.Second))
		d := &Script{fleet: x.fleet, strikes: []*strike{{fault: scenario.Fault{Server: "stop"}, at: 1}, {fault: scenario.Fault{Fail: &scenario.FailCheck{}}, checks: struckChecks{x.agents[0].class: {0}}, agents: x.agents[:1]}}}
		x.result(0, model.OK)
		time.Sleep(3 * time.Second)
		d.strikes[1].at = x.fleet.Now()
		for range 3 {
			x.result(0, model.Critical)
		}
		time.Sleep(time.Second)
		x.post(0, "opened", false)
		x.post(0, "opened", true)
		x.keepalive(1, "p1")
		x.keepalive(1, "p1")
		x.keepalive(1, "p2")
		got := d.Alerts(x.alarms)
		want := &observe.Alerts{End: int64(3 * time.Second), Again: 1, Strikes: []observe.Strike{{Fault: 1, At: int64(2 * time.Second), States: []int{0}}}}
		for i := range 3 {
			want.States = append(want.States, observe.Alerted{Name: simulated.MemberName("web", i) + "/" + watchedCheck, Fails: true})
		}
		for i := range 3 {
			want.States = append(want.States, observe.Alerted{Machine: true, Name: simulated.MemberName("web", i) + "/" + model.KeepaliveCheckName})
		}
		at := func(second int, open bool) observe.Turn {
			return observe.Turn{At: int64(second) * int64(time.Second), Open: open}
		}
		want.States[0].Must, want.States[0].Came = []observe.Turn{at(2, true)}, []observe.Turn{at(3, true)}
		want.States[4].Came = []observe.Turn{at(3, true), at(3, false), at(3, true)}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v\n%+v", got, want)
		}
	})
}

// TestAMachineThatIsOfflineStops stops a machine that is offline because of churn, and expects that it comes back only
// at the end of the fault.
func TestAMachineThatIsOfflineStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newAlarmed(t)
		a := x.agents[0]
		a.fate.excused = true
		time.Sleep(5 * time.Second)
		if !a.vanish(false) {
			t.Fatal("it was not there")
		}
		time.Sleep(35 * time.Second)
		for _, a := range x.agents[:2] {
			a.class = &class{spec: &scenario.Class{}}
		}
		d := &Script{fleet: x.fleet, strikes: []*strike{{fault: scenario.Fault{Stop: &scenario.Pick{}}, at: x.fleet.Now(), agents: x.agents[:2]}}}
		if a.vanish(true) || !a.fate.dead {
			t.Error("it makes results and stands still")
		}
		time.Sleep(20 * time.Second)
		if a.online(); a.fate.back == nil {
			t.Error("back in the middle of the fault")
		}
		time.Sleep(40 * time.Second)
		if a.appear(); a.fate.back != nil || a.fate.dead || a.fate.boots != 1 {
			t.Errorf("%+v", a.fate)
		}
		if s := d.Alerts(x.alarms).Strikes[0]; len(s.States) != 2 || len(s.Offline) != 1 || s.Offline[0] != s.States[0] || s.Timeout <= 0 {
			t.Errorf("%+v", s)
		}
	})
}
