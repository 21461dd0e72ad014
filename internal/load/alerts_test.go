package load

import (
	"fmt"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
)

// alarmed is a run of three machines with one watched check each, without a server: the
// test says what the results are, and what is told.
type alarmed struct {
	t      *testing.T
	al     *alarms
	agents []*agent
	keys   int
}

const watchedCheck = "web-http-000"

func newAlarmed(t *testing.T) *alarmed {
	x := &alarmed{t: t}
	r := &run{epoch: time.Now(), cfg: Config{Scenario: &scenario.Scenario{}}}
	x.al = &alarms{run: r, checks: map[string]*witness{}, machines: map[string]*machineWitness{}, keys: map[string]struct{}{}}
	for i := range 3 {
		a := &agent{run: r, name: simulated.MemberName("web", i), session: silent{}, since: 1, here: 1}
		x.agents = append(x.agents, a)
		x.al.watchCheck(a, 0, watchedCheck)
		x.al.watchMachine(a.name)
	}
	return x
}

// result acknowledges one, as a session does.
func (x *alarmed) result(i int, status model.Status) {
	a := x.agents[i]
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ledger.states = make(observe.Entries, 1)
	a.ledger.pass(a.stream, a.ledger.settled()+1, &sign{check: 0, status: status, intended: a.run.now()}, true)
}

// post is a delivery; again: with the key of the one before.
func (x *alarmed) post(i int, kind string, again bool) {
	if !again {
		x.keys++
	}
	body := fmt.Sprintf(`{"version":1,"kind":%q,"namespace":"load","node":%q,"check":%q}`, kind, simulated.MemberName("web", i), watchedCheck)
	req := httptest.NewRequest("POST", "/", strings.NewReader(body))
	req.Header.Set("Idempotency-Key", fmt.Sprint(x.keys))
	w := httptest.NewRecorder()
	x.al.post(w, req)
	if w.Code != 204 {
		x.t.Errorf("answer %d", w.Code)
	}
}

// keepalive is what the watch says; an empty problem: there is none.
func (x *alarmed) keepalive(i int, problem string) {
	e := &v1.Event{Event: model.Event{Namespace: simulated.Namespace, Node: simulated.MemberName("web", i), Check: model.KeepaliveCheckName}}
	if problem != "" {
		e.Problem = &v1.OpenProblem{Problem: model.Problem{ID: problem}}
	}
	x.al.event(e)
}

// Results, deliveries and the watch of keepalives are seen as they were: a delivery with a key that came is none.
func TestAlertsAreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newAlarmed(t)
		x.al.run.begin.Store(int64(time.Second))
		d := &faultScript{run: x.al.run, strikes: []*strike{{fault: scenario.Fault{Server: "stop"}, at: 1}, {fault: scenario.Fault{Fail: &scenario.FailCheck{}}, checks: struckChecks{nil: {0}}, agents: x.agents[:1]}}}
		x.result(0, model.OK)
		time.Sleep(3 * time.Second)
		d.strikes[1].at = x.al.run.now()
		for range 3 {
			x.result(0, model.Critical)
		}
		if x.al.missing(d) != 1 {
			t.Error("no alert is missing")
		}
		time.Sleep(time.Second)
		x.post(0, "opened", false)
		x.post(0, "opened", true)
		x.keepalive(1, "p1")
		x.keepalive(1, "p1")
		x.keepalive(1, "p2")
		got := x.al.seen(d)
		want := &observe.Alerts{End: int64(3 * time.Second), Strikes: []observe.Strike{{Fault: 1, At: int64(2 * time.Second), States: []int{0}}}}
		for i := range 3 {
			want.States = append(want.States, observe.Alerted{Name: simulated.MemberName("web", i) + "/" + watchedCheck})
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
		if x.al.missing(d) != 0 {
			t.Error("an alert is missing")
		}
	})
}

// A fault stops a machine that churn had taken the network from: it stands still until the fault is over, whenever churn
// would have had it back.
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
		d := &faultScript{run: x.al.run, strikes: []*strike{{fault: scenario.Fault{Stop: &scenario.Pick{}}, at: x.al.run.now(), agents: x.agents[:2]}}}
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
		if s := x.al.seen(d).Strikes[0]; len(s.States) != 2 || len(s.Offline) != 1 || s.Offline[0] != s.States[0] || s.Timeout <= 0 {
			t.Errorf("%+v", s)
		}
	})
}

// An alert of a check that nobody asked about is one too many, also where no fault lets checks fail.
func TestAlertsThatNobodyAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		body    string
		tells   bool
		extra   uint64
		example string
	}{
		"of another check":     {`{"kind":"opened","namespace":"load","node":"web-00000","check":"disk"}`, true, 1, "load/web-00000/disk: nobody asked for alerts of it"},
		"of another namespace": {`{"kind":"opened","namespace":"mine","node":"web-00000","check":"web-http-000"}`, true, 1, "mine/web-00000/web-http-000: nobody"},
		"and nobody is told":   {`{"kind":"closed","namespace":"load","node":"web-00000","check":"disk"}`, false, 1, "load/web-00000/disk: nobody"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &run{epoch: time.Now(), cfg: Config{Scenario: &scenario.Scenario{}}}
			al := &alarms{run: r, checks: map[string]*witness{}, keys: map[string]struct{}{}}
			if al.messages() != nil {
				t.Error("messages of which nobody spoke")
			}
			if c.tells {
				al.telling, al.tellables = newTelling(r), map[string]bool{watchedCheck: true}
			}
			w := httptest.NewRecorder()
			al.post(w, httptest.NewRequest("POST", "/", strings.NewReader(c.body)))
			told := al.messages()
			if told == nil || told.Extra != c.extra || !strings.Contains(told.Example, c.example) || !(&report.Report{Balance: &report.Balance{}, Notifications: told}).Lost() {
				t.Errorf("%d, %+v", w.Code, told)
			}
		})
	}
}
