package load

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
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
	r := &run{epoch: time.Now()}
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

func (x *alarmed) check(i int) *witness {
	return x.al.checks[simulated.MemberName("web", i)+"/"+watchedCheck]
}
func (x *alarmed) machine(i int) *witness {
	return &x.al.machines[simulated.MemberName("web", i)].witness
}

// Two of three states fail from second 10 to 40; the story says what is told.
func TestAlertsOfFailingChecks(t *testing.T) {
	for _, c := range []struct {
		name                   string
		story                  func(x *alarmed)
		alerts, missing, extra int
		example                string
	}{
		{"all told, one of them twice with one key", func(x *alarmed) {
			x.post(0, "opened", false)
			x.post(0, "opened", true)
			x.post(1, "opened", false)
			time.Sleep(30 * time.Second)
			x.post(0, "closed", false)
			x.post(1, "closed", false)
		}, 4, 0, 0, ""},
		{"one not told", func(x *alarmed) {
			x.post(0, "opened", false)
			time.Sleep(30 * time.Second)
			x.post(0, "closed", false)
		}, 4, 2, 0, "web-00001/web-http-000: no alert that it fails"},
		{"no recovery told", func(x *alarmed) {
			x.post(0, "opened", false)
			x.post(1, "opened", false)
			time.Sleep(30 * time.Second)
			x.post(0, "closed", false)
		}, 4, 1, 0, "web-00001/web-http-000: no alert that it is well again"},
		{"told twice", func(x *alarmed) {
			x.post(0, "opened", false)
			x.post(1, "opened", false)
			x.post(1, "opened", false)
			time.Sleep(30 * time.Second)
			x.post(0, "closed", false)
			x.post(1, "closed", false)
		}, 4, 0, 1, "web-00001/web-http-000: an alert that it fails, 2 of them and 1 had to come"},
		{"told before it fails, and not when it does", func(x *alarmed) {
			x.check(0).came = append(x.check(0).came, flip{at: int64(5 * time.Second), open: true})
			x.post(1, "opened", false)
			time.Sleep(30 * time.Second)
			x.post(0, "closed", false)
			x.post(1, "closed", false)
		}, 4, 1, 1, ""},
		{"told of a state that is well", func(x *alarmed) {
			x.post(0, "opened", false)
			x.post(1, "opened", false)
			x.post(2, "opened", false)
			time.Sleep(30 * time.Second)
			x.post(0, "closed", false)
			x.post(1, "closed", false)
		}, 4, 0, 1, "web-00002/web-http-000: an alert that it fails, 1 of them and 0 had to come"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newAlarmed(t)
				for i := range 3 {
					x.result(i, model.OK)
				}
				time.Sleep(10 * time.Second)
				b := &blow{at: x.al.run.now(), states: []*witness{x.check(0), x.check(1)}}
				b.until = b.at + int64(30*time.Second)
				time.Sleep(2 * time.Second)
				for range 3 {
					x.result(0, model.Critical)
					x.result(1, model.Warning)
				}
				go func() {
					time.Sleep(29 * time.Second)
					x.result(0, model.OK)
					x.result(1, model.OK)
				}()
				c.story(x)
				time.Sleep(time.Minute)
				judgeBlows([]*blow{b}, []*witness{x.check(2)}, x.al.run.now())
				if b.alerts != c.alerts || b.missing != c.missing || b.extra != c.extra || c.missing+c.extra == 1 && b.example != c.example {
					t.Errorf("%d alerts, %d missing, %d extra, %q; want %+v", b.alerts, b.missing, b.extra, b.example, c)
				}
				if c.missing == 0 {
					// The first results after the fault came two seconds later; recoveries were told two seconds after its end.
					if d, r := report.LatencyOf(b.detected), report.LatencyOf(b.cleared); d.Max < 1990 || d.Max > 2010 || r.Max < 1990 || r.Max > 2010 {
						t.Errorf("detected %+v, cleared %+v", d, r)
					}
				}
			})
		})
	}
}

// A state that fails by itself before and after is told of each time.
func TestAlertsOfAStateThatChangesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newAlarmed(t)
		b := &blow{at: int64(time.Minute), until: int64(2 * time.Minute), states: []*witness{x.check(0)}}
		for range 20 {
			x.result(0, model.Unknown)
			x.post(0, "opened", false)
			time.Sleep(5 * time.Second)
			x.result(0, model.OK)
			x.post(0, "closed", false)
			time.Sleep(5 * time.Second)
		}
		judgeBlows([]*blow{b}, nil, x.al.run.now())
		// Of these forty only the first failure in the fault's time, and the first recovery after it, are the fault's.
		if d, c := report.LatencyOf(b.detected), report.LatencyOf(b.cleared); b.alerts != 2 || b.missing != 0 || b.extra != 0 || d.Max > 10 || c.Max > 5010 {
			t.Errorf("%+v", b)
		}
	})
}

// Machine 0 stands still from second 10 to 70, with a time-out of 15 s.
func TestAlertsOfSilentMachines(t *testing.T) {
	for _, c := range []struct {
		name                   string
		still                  time.Duration
		unsure                 bool
		story                  func(x *alarmed)
		alerts, missing, extra int
	}{
		{name: "told once, and of its return", still: time.Minute, story: func(x *alarmed) {
			time.Sleep(16 * time.Second)
			x.keepalive(0, "p1")
			x.keepalive(0, "p1")
			time.Sleep(45 * time.Second)
			x.keepalive(0, "")
		}, alerts: 2},
		{name: "nobody told", still: time.Minute, story: func(*alarmed) {}, alerts: 1, missing: 1},
		{name: "nobody told, and the server was away itself", still: time.Minute, unsure: true, story: func(*alarmed) {}},
		{name: "too short to be told", still: 10 * time.Second, story: func(*alarmed) {}},
		{name: "told twice", still: time.Minute, story: func(x *alarmed) {
			time.Sleep(16 * time.Second)
			x.keepalive(0, "p1")
			x.keepalive(0, "p2")
			time.Sleep(45 * time.Second)
			x.keepalive(0, "")
		}, alerts: 2, extra: 1},
		{name: "its return not told", still: time.Minute, story: func(x *alarmed) {
			time.Sleep(16 * time.Second)
			x.keepalive(0, "p1")
		}, alerts: 2, missing: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newAlarmed(t)
				time.Sleep(10 * time.Second)
				b := &blow{machines: true, at: x.al.run.now(), timeout: int64(15 * time.Second), states: []*witness{x.machine(0)}, unsure: c.unsure}
				b.until = b.at + int64(c.still)
				x.agents[0].fate.back = make(chan struct{})
				c.story(x)
				time.Sleep(2 * time.Minute)
				judgeBlows([]*blow{b}, nil, x.al.run.now())
				if b.alerts != c.alerts || b.missing != c.missing || b.extra != c.extra {
					t.Errorf("%d alerts, %d missing, %d extra, %q; want %+v", b.alerts, b.missing, b.extra, b.example, c)
				}
				if d := report.LatencyOf(b.detected); c.alerts == 2 && (d.Max < 15990 || d.Max > 16010) {
					t.Errorf("detected %+v", d)
				}
			})
		})
	}
}

// A fault stops a machine that churn had taken the network from: it stands still until the fault is
// over, whenever churn would have had it back, and the alert that it is silent may have come before.
func TestAMachineThatIsOfflineStops(t *testing.T) {
	for name, told := range map[string]time.Duration{"before it was struck": 20 * time.Second, "after": 45 * time.Second, "never": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newAlarmed(t)
				a, w := x.agents[0], x.machine(0)
				a.fate.excused = true
				go func() {
					if time.Sleep(told); told > 0 {
						x.keepalive(0, "p1")
					}
				}()
				time.Sleep(5 * time.Second)
				if !a.vanish(false) {
					t.Fatal("it was not there")
				}
				time.Sleep(35 * time.Second)
				b := &blow{machines: true, at: x.al.run.now(), timeout: int64(15 * time.Second)}
				if a.vanish(true) || !a.fate.dead {
					t.Error("it makes results and stands still")
				}
				b.machine(w, a)
				b.machine(x.machine(1), x.agents[1])
				time.Sleep(20 * time.Second)
				if a.online(); a.fate.back == nil {
					t.Error("back in the middle of the fault")
				}
				time.Sleep(40 * time.Second)
				b.until = x.al.run.now()
				if a.appear(); a.fate.back != nil || a.fate.dead || a.fate.boots != 1 {
					t.Errorf("%+v", a.fate)
				}
				a.online()
				time.Sleep(time.Second)
				x.keepalive(0, "")
				x.keepalive(1, "p2") // late, and told
				b.states = b.states[:1]
				judgeBlows([]*blow{b}, nil, x.al.run.now())
				missing, alerts := 0, 2
				if told == 0 {
					missing, alerts = 1, 1
				}
				if b.alerts != alerts || b.missing != missing || b.extra != 0 || b.detected.TotalCount() != 0 || !b.offline[w] || b.offline[x.machine(1)] {
					t.Errorf("%d alerts, %d missing, %d extra, %q, %v", b.alerts, b.missing, b.extra, b.example, b.offline)
				}
			})
		})
	}
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
			r := &run{epoch: time.Now()}
			al := &alarms{run: r, checks: map[string]*witness{}, keys: map[string]struct{}{}}
			if al.messages() != nil {
				t.Error("messages of which nobody spoke")
			}
			if c.tells {
				al.telling, al.tellables = newTelling(r), map[string]bool{watchedCheck: true}
			}
			w := httptest.NewRecorder()
			al.post(w, httptest.NewRequest("POST", "/", strings.NewReader(c.body)))
			al.judge(&faultScript{run: r})
			told := al.messages()
			if told == nil || told.Extra != c.extra || !strings.Contains(told.Example, c.example) || !(&report.Report{Balance: &report.Balance{}, Notifications: told}).Lost() {
				t.Errorf("%d, %+v", w.Code, told)
			}
		})
	}
}
