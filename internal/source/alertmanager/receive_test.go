package alertmanager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/recorder"
	"github.com/muster-fleet/muster/internal/testenv"
)

// world is what a receiver has around it, in memory.
type world struct {
	declared *directory.PassiveCheck // what somebody declares before the next change
	t        testing.TB
	s        *Server
	metrics  *prometheus.Registry
	nodes    map[string]model.NodeID
	checks   map[string]directory.PassiveCheck
	applies  int
	open     []event.State
	full     bool // no event finds room
	sender   string

	mu    sync.Mutex
	said  []string // node check status output
	stuck bool     // the journal takes nothing
}

func newWorld(t testing.TB, change func(*world, *Config)) *world {
	t.Helper()
	w := &world{t: t, metrics: prometheus.NewRegistry(), nodes: map[string]model.NodeID{"web1": 1}, checks: map[string]directory.PassiveCheck{}}
	cfg := Config{Access: w, Intent: w, Plan: w, View: w, Write: w.write, Registerer: w.metrics}
	if change != nil {
		change(w, &cfg)
	}
	var err error
	if w.s, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) write(_ context.Context, results []recorder.Result) (func(context.Context) error, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stuck {
		return nil, errors.New("disk full")
	}
	for _, r := range results {
		for name, c := range w.checks {
			if c.Chunk != nil && c.Chunk.ID == r.Chunk {
				w.said = append(w.said, fmt.Sprintf("%d %s %s %s", r.Node, name, r.Status, r.Output))
			}
		}
	}
	return func(context.Context) error { return nil }, nil
}

func (w *world) Authenticate(string) (access.Subject, error) { return access.Subject{}, nil }
func (w *world) LoginProgram(context.Context, string, string, string, access.Admit) (access.Program, error) {
	return access.Program{}, nil
}
func (w *world) CheckNamespace(string) error { return nil }
func (w *world) Apply(_ context.Context, _ intent.Actor, resources []model.Resource, o intent.ApplyOptions) (intent.ApplyResult, error) {
	w.applies++
	for i := range resources {
		r := &resources[i]
		if expect, ok := o.Expect[intent.KeyOf(r)]; !ok || expect != 0 {
			w.t.Errorf("%s %s would be written over", r.Kind, r.Metadata.Name)
		}
		if w.declared != nil && r.Kind == "Check" { // an operator is faster
			w.checks[r.Metadata.Name], w.declared = *w.declared, nil
			return intent.ApplyResult{}, model.Errorf(model.Stale, "it is there")
		}
		if err := kind.All().Validate(r); err != nil {
			w.t.Errorf("made %s %s: %v", r.Kind, r.Metadata.Name, err)
		}
		if r.Kind == "Node" {
			w.nodes[r.Metadata.Name] = model.NodeID(len(w.nodes) + 1)
		} else {
			id := model.CheckID(100 + len(w.checks))
			w.checks[r.Metadata.Name] = directory.PassiveCheck{Chunk: &model.CheckChunk{Chunk: model.Chunk{ID: model.ChunkID(id), Unit: id, Name: r.Metadata.Name}, MaxOutput: 4096}}
		}
	}
	return intent.ApplyResult{}, nil
}
func (w *world) CatchUp(context.Context) error { return nil }
func (w *world) PassiveCheck(_, name string) (directory.PassiveCheck, bool) {
	c, ok := w.checks[name]
	return c, ok
}
func (w *world) PassiveChecks(string, string) (ids []model.CheckID) {
	for _, c := range w.checks {
		ids = append(ids, c.Chunk.Unit)
	}
	return ids
}
func (w *world) CheckName(id model.CheckID) (string, string, bool) {
	for name, c := range w.checks {
		if c.Chunk.Unit == id {
			return "default", name, true
		}
	}
	return "", "", false
}
func (w *world) NodeByName(_, name string) (model.NodeID, bool) {
	id, ok := w.nodes[name]
	return id, ok
}
func (w *world) NodeName(model.NodeID) (string, string, bool) { return "", "", false }
func (w *world) NodesMatching(string, directory.Selector) []model.NodeID {
	return make([]model.NodeID, len(w.nodes)-1)
}
func (w *world) Admit(model.NodeID, *model.CheckChunk) (string, string) {
	if w.full {
		return "node_limit", "the node has its 3 event states"
	}
	return "", ""
}
func (w *world) List(context.Context, event.Query) (event.Page, error) {
	return event.Page{States: w.open}, nil
}

// post sends alerts, one a line: name label=value … (until=+4m or until=-1s)
func (w *world) post(lines ...string) error {
	w.t.Helper()
	var list []string
	for _, line := range lines {
		words := strings.Fields(line)
		labels, ends := []string{fmt.Sprintf("%q:%q", "alertname", words[0])}, ""
		for _, word := range words[1:] {
			k, v, _ := strings.Cut(word, "=")
			if k == "until" {
				d := testenv.Value(time.ParseDuration(v))(w.t)
				ends = fmt.Sprintf(`,"endsAt":%q`, time.Now().Add(d).Format(time.RFC3339Nano))
				continue
			}
			labels = append(labels, fmt.Sprintf("%q:%q", k, v))
		}
		list = append(list, fmt.Sprintf(`{"labels":{%s}%s}`, strings.Join(labels, ","), ends))
	}
	return w.s.receive(w.t.Context(), intent.Actor{User: cmp.Or(w.sender, "prometheus"), Whence: "10.0.0.7"}, "default", []byte("["+strings.Join(list, ",")+"]"))
}

// expect compares what was written since it was asked last.
func (w *world) expect(what string, lines ...string) {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got, want := strings.Join(w.said, "\n"), strings.Join(lines, "\n"); got != want {
		w.t.Errorf("%s:\n%s\nwant:\n%s", what, got, want)
	}
	w.said = nil
}

func (w *world) jam(stuck bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stuck = stuck
}

func (w *world) count(o outcome) float64 { return testutil.ToFloat64(w.s.metrics.alerts[o]) }

// run lets Run live until the test ends.
func (w *world) run(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
}

func TestAlertsFireRepeatAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.run(t)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
		}
		must(w.post("DiskFull instance=web1:9100 mount=/ severity=warning until=4m", "DiskFull instance=web1:9100 mount=/data severity=critical until=4m"))
		w.expect("two of one name", "1 diskfull CRITICAL 2 alerts fire\nCRITICAL: DiskFull (instance=web1:9100 mount=/data severity=critical)\nWARNING: DiskFull (instance=web1:9100 mount=/ severity=warning)")
		must(w.post("DiskFull instance=web1:9100 mount=/ severity=warning until=4m", "DiskFull instance=web1:9100 mount=/data severity=critical until=4m"))
		w.expect("the same again at once")
		time.Sleep(time.Minute)
		must(w.post("DiskFull instance=web1:9100 mount=/ severity=warning until=4m"))
		w.expect("the same a minute later", "1 diskfull CRITICAL 2 alerts fire\nCRITICAL: DiskFull (instance=web1:9100 mount=/data severity=critical)\nWARNING: DiskFull (instance=web1:9100 mount=/ severity=warning)")
		must(w.post("DiskFull instance=web1:9100 mount=/data severity=critical until=-1s"))
		w.expect("one ends", "1 diskfull WARNING DiskFull (instance=web1:9100 mount=/ severity=warning)")
		time.Sleep(3*time.Minute + 50*time.Second)
		w.expect("not yet")
		time.Sleep(20 * time.Second)
		w.expect("nobody says the other any more", "1 diskfull OK resolved: DiskFull (instance=web1:9100 mount=/ severity=warning) (no longer repeated)")
		must(w.post("DiskFull instance=web1:9100 mount=/ until=-1s", "Unheard instance=web9 until=-1s"))
		w.expect("what ended already")
		if len(w.s.events) != 0 || w.s.firing != 0 || w.nodes["web9"] != 0 || len(w.checks) != 1 || w.applies != 1 {
			t.Errorf("%v %d firing, %v, %v, %d applies", w.s.events, w.s.firing, w.nodes, w.checks, w.applies)
		}

		// An alert that says how well it is: it opens nothing, and its end is no result.
		must(w.post("Watchdog severity=none until=1m"))
		w.expect("watchdog", "2 watchdog OK Watchdog (severity=none)")
		time.Sleep(2 * time.Minute)
		w.expect("the watchdog's silence")

		// What the journal does not take is written by the next tick, whatever is said meanwhile.
		w.jam(true)
		if err := w.post("Down instance=new.example.org:80"); model.ClassOf(err) != model.Unavailable {
			t.Errorf("%v", err)
		}
		w.jam(false)
		time.Sleep(tick + time.Second)
		w.expect("later", "3 down WARNING Down (instance=new.example.org:80)")
		w.full = true
		if err := w.post("Down instance=new.example.org:80", "Other instance=web1"); model.ClassOf(err) != model.Limited || !strings.Contains(err.Error(), "refused 1 of 2 alerts") {
			t.Errorf("%v", err)
		}
		if w.count(fires) != 7 || w.count(resolved) != 3 || w.count(unkept) != 1 || w.count(states) != 1 {
			t.Errorf("fires %v, resolved %v, unkept %v, states %v", w.count(fires), w.count(resolved), w.count(unkept), w.count(states))
		}
	})
}

// Who applies a check while an alert of its name comes keeps it; what else is missing is made.
func TestConcurrentDeclarationStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world, _ *Config) {
			w.declared = &directory.PassiveCheck{Chunk: &model.CheckChunk{Chunk: model.Chunk{ID: 70, Unit: 70, Name: "a"}, MaxOutput: 4096}}
		})
		w.run(t)
		if err := w.post("A instance=web9 severity=warning"); err != nil {
			t.Error(err)
		}
		if w.applies != 2 || w.checks["a"].Chunk.Unit != 70 || w.nodes["web9"] == 0 {
			t.Errorf("%d changes, check %+v, nodes %v", w.applies, w.checks["a"], w.nodes)
		}
	})
}

// What was open when the server started stays so until senders had time to say it again.
func TestAlertsOpenAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world, _ *Config) {
			w.checks["a"] = directory.PassiveCheck{Chunk: &model.CheckChunk{Chunk: model.Chunk{ID: 7, Unit: 7, Name: "a"}, MaxOutput: 4096}}
			w.checks["b"] = directory.PassiveCheck{Chunk: &model.CheckChunk{Chunk: model.Chunk{ID: 8, Unit: 8, Name: "b"}, MaxOutput: 4096}}
			w.checks["c"] = directory.PassiveCheck{Chunk: &model.CheckChunk{Chunk: model.Chunk{ID: 9, Unit: 9, Name: "c"}, MaxOutput: 4096}}
			w.checks["d"] = directory.PassiveCheck{Chunk: &model.CheckChunk{Chunk: model.Chunk{ID: 10, Unit: 10, Name: "d"}, MaxOutput: 4096}}
			w.open = []event.State{{Node: 1, Check: 10, Status: model.Unknown, Output: "no result for 5m (TTL)", Expired: true}, // nobody said it: it ends when somebody does
				{Node: 1, Check: 7, Status: model.Critical, Output: "two were it"}, {Node: 1, Check: 8, Status: model.Warning, Output: "one was it"},
				{Node: 1, Check: 9, Status: model.Critical, Output: "an agent said it", Counters: event.Counters{Stream: 5}}} // which no silence here ends
		})
		w.run(t)
		if err := w.post("A instance=web1 n=1 severity=warning", "B instance=web1 until=-1s"); err != nil {
			t.Error(err)
		}
		w.expect("one of two is said again", "1 a CRITICAL A (instance=web1 n=1 severity=warning)")
		time.Sleep(repeatWindow + 2*tick)
		w.expect("the other was said to have ended", "1 b OK resolved: B (instance=web1)")
		time.Sleep(resolveAfter - repeatWindow - 3*tick)
		if err := w.post("A instance=web1 n=1 severity=warning"); err != nil {
			t.Error(err)
		}
		w.mu.Lock()
		w.said = nil
		w.mu.Unlock()
		time.Sleep(4 * tick)
		w.expect("nobody says the second one", "1 a WARNING A (instance=web1 n=1 severity=warning)")
	})
}

// A process that stood still was deaf: what fires goes on.
func TestPausedProcessEndsNoAlerts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asleep atomic.Int64
		w := newWorld(t, func(_ *world, c *Config) {
			c.Now = func() time.Time { return time.Now().Add(time.Duration(asleep.Load())) }
		})
		w.run(t)
		if err := w.post("A instance=web1"); err != nil {
			t.Error(err)
		}
		asleep.Store(int64(time.Hour))
		time.Sleep(2 * tick)
		synctest.Wait()
		if w.s.firing != 1 {
			t.Errorf("%d fire", w.s.firing)
		}
	})
}

func TestCreationOfChecksIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(_ *world, c *Config) {
			c.Limits = Limits{Nodes: 2, Checks: 3, Firing: 4, FiringTogether: 2}
		})
		w.run(t)
		for _, c := range []struct {
			what, says string
			alerts     []string
		}{
			{"nodes", "refused 2 of 4 alerts", []string{"A instance=n1", "A instance=n2", "A instance=n3", "A instance=n4"}},
			{"checks", "is at its limit of 3 passive checks", []string{"A instance=web1", "B instance=web1", "C instance=web1", "D instance=web1"}},
			{"fire", "5 of 6 alerts", []string{"A instance=n1 n=1", "A instance=n1 n=2", "A instance=n1 n=3", "B instance=web1 n=1", "C instance=web1 n=1", "C instance=n1"}},
		} {
			w.s.events, w.s.firing = map[eventKey]*alertEvent{}, map[bool]int{true: 3}[c.what == "fire"]
			err := w.post(c.alerts...)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %s", c.what, err, c.says)
			}
		}
		if len(w.nodes) != 3 || len(w.checks) != 3 {
			t.Errorf("%v %v", w.nodes, w.checks)
		}
	})
}

func TestAlertFields(t *testing.T) {
	for _, c := range []struct{ labels, names, status string }{
		{"instance=web1.example.org:9100", "web1.example.org web1 web1.example.org", "WARNING"},
		{"instance=https://shop.example.org/health severity=page", "shop.example.org shop shop.example.org", "CRITICAL"},
		{"instance=10.0.0.7:9100 severity=info", "10.0.0.7 10.0.0.7", "OK"},
		{"instance=[2001:db8::1]:9100", "2001-db8--1 2001-db8--1", "WARNING"},
		{"node=k8s-3 instance=kube-state-metrics:8080 severity=Critical", "k8s-3 kube-state-metrics k8s-3", "CRITICAL"},
		{"job=batch", "alerts", "WARNING"},
		{"instance=:9100", "9100 9100", "WARNING"},
	} {
		labels := map[string]string{}
		for _, word := range strings.Fields(c.labels) {
			k, v, _ := strings.Cut(word, "=")
			labels[k] = v
		}
		if names, status := strings.Join(nodeNames(labels), " "), statusOf(labels).String(); names != c.names || status != c.status {
			t.Errorf("%s: %s %s, want %s %s", c.labels, names, status, c.names, c.status)
		}
	}
}

func FuzzAlerts(f *testing.F) {
	for _, name := range []string{"prometheus.json", "grafana.json"} {
		text := testenv.Value(os.ReadFile("testdata/" + name))(f)
		f.Add("/alertmanager/web/api/v2/alerts", text)
	}
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		if ns, ok := parsePath(path); ok && model.NameError(ns) != nil {
			t.Errorf("namespace %q of %q", ns, path)
		}
		l := Config{}.Limits
		l.Alerts, l.Labels, l.NameBytes, l.LabelBytes, l.TextBytes = 100, 64, 256, 2048, 16<<10
		alerts, err := decode(body, &l)
		if err != nil {
			return
		}
		for i := range alerts {
			if !alerts[i].pending() {
				continue
			}
			for _, name := range nodeNames(alerts[i].Labels) {
				if err := model.NameError(name); err != nil {
					t.Errorf("node %q: %v", name, err)
				}
			}
			if text := alerts[i].text(); !strings.HasPrefix(text, alerts[i].line()) || strings.ContainsRune(text, 0) {
				t.Errorf("text %q", text)
			}
		}
	})
}

// Bodies in the shapes in which Prometheus and Grafana's contact point send them.
func TestGoldenRequests(t *testing.T) {
	for name, want := range map[string]string{
		"prometheus.json": "db1 is full (instance=db1:9100 job=node mount=/data severity=critical)\nrunbook: https://runbooks.example.org/disk\nsource: http://prometheus:9090/graph?g0.expr=disk_free+%3C+5&g0.tab=1",
		"grafana.json":    "Checkout is slow (grafana_folder=Shop instance=web1)\nThe 99th percentile is 3 s.\ndashboard: https://grafana.example.org/d/shop\nsource: https://grafana.example.org/alerting/grafana/abc/view?orgId=1",
	} {
		text := testenv.Value(os.ReadFile("testdata/" + name))(t)
		w := newWorld(t, nil)
		alerts, err := decode(text, &w.s.cfg.Limits)
		if err != nil || len(alerts) != 1 || !alerts[0].pending() {
			t.Fatalf("%s: %v %v", name, alerts, err)
		}
		if got := alerts[0].text(); got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got, want)
		}
	}
}

// says posts, and expects what is written.
func (w *world) check(line, what string, want ...string) {
	w.t.Helper()
	if err := w.post(line); err != nil {
		w.t.Errorf("%s: %v", what, err)
	}
	w.expect(what, want...)
}

// A Prometheus whose clock is six minutes behind: the ends of alerts that fire, four minutes ahead of it, are over
// here. They move on, and so it is found out; an end that stays is one.
func TestSenderWithASlowClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.run(t)
		const (
			fires    = "Down instance=new1 severity=critical until=-2m"
			resolved = "Down instance=new1 severity=critical until=-6m"
			down     = "2 down CRITICAL Down (instance=new1 severity=critical)\nthe clock of prometheus at 10.0.0.7 is at least 2m behind this server's: its alerts arrive late"
		)
		for _, again := range []string{"first", "second"} {
			w.check(fires, again)
			time.Sleep(time.Minute)
		}
		if len(w.nodes) != 1 {
			t.Errorf("made of what may have ended: %v", w.nodes)
		}
		w.check(fires, "it moved on twice", down)
		w.check(fires, "twice in a moment")
		for range 5 {
			time.Sleep(time.Minute)
			w.check(fires, "it goes on", down)
		}
		time.Sleep(30 * time.Second)
		w.check(resolved, "it ends", "2 down OK resolved: Down (instance=new1 severity=critical)")
		for _, end := range []string{"-7m", "-8m", "-9m"} { // the same moment
			time.Sleep(time.Minute)
			w.check("Down instance=new1 severity=critical until="+end, "it has ended")
		}
		time.Sleep(time.Minute)
		w.check(fires, "again")
		time.Sleep(time.Minute)
		w.check(fires, "it moved on twice again", down)
		if n := testutil.ToFloat64(w.s.metrics.behind); n != 8 {
			t.Errorf("%v were found out", n)
		}
		time.Sleep(pastEndLifetime + tick)
		synctest.Wait()
		w.s.mu.Lock()
		defer w.s.mu.Unlock()
		if len(w.s.pastEnds) != 0 {
			t.Errorf("%d ends are known", len(w.s.pastEnds))
		}
	})
}

// Of two that say the same, one has a clock that is behind: when that is found out, the alert goes on.
func TestOneOfTwoSendersHasASlowClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.run(t)
		changes := 0
		for range 10 {
			w.sender = "a"
			if err := w.post("Down instance=web1 until=4m"); err != nil {
				t.Error(err)
			}
			w.sender = "b"
			if err := w.post("Down instance=web1 until=-6m"); err != nil {
				t.Error(err)
			}
			w.mu.Lock()
			changes, w.said = len(w.said), nil
			w.mu.Unlock()
			time.Sleep(time.Minute)
		}
		w.s.mu.Lock()
		firing := w.s.firing
		w.s.mu.Unlock()
		if changes > 1 || firing != 1 {
			t.Errorf("%d changes in the last minute, %d fire", changes, firing)
		}
	})
}

// An alert that comes and goes ends each time, though its ends move on.
func TestShortAlertsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.run(t)
		for range 5 {
			w.check("Down instance=web1 until=4m", "it fires", "1 down WARNING Down (instance=web1)")
			time.Sleep(time.Minute)
			w.check("Down instance=web1 until=-1s", "it ends", "1 down OK resolved: Down (instance=web1)")
			time.Sleep(time.Minute)
		}
	})
}

// A clock that is behind by nearly as much as an alert may be late: it fires until it may be said again.
func TestAlertLastsUntilItsNextRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.run(t)
		for range 4 {
			w.check("Down instance=web1 until=20s", "it fires", "1 down WARNING Down (instance=web1)")
			time.Sleep(time.Minute)
		}
		time.Sleep(repeatWindow - time.Minute + tick)
		w.expect("nobody says it", "1 down OK resolved: Down (instance=web1) (no longer repeated)")
	})
}

// A contact point of Grafana says an alert without an end, and again after hours: until then it fires, also
// after a start.
func TestRareRepeatsOfGrafana(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world, _ *Config) {
			w.checks["open"] = directory.PassiveCheck{Chunk: &model.CheckChunk{Chunk: model.Chunk{ID: 7, Unit: 7, Name: "open"}, MaxOutput: 4096}}
			w.open = []event.State{{Node: 1, Check: 7, Status: model.Warning, Output: "Open (grafana_folder=Shop instance=web1)"}}
		})
		w.run(t)
		w.check("Slow grafana_folder=Shop instance=web1", "it fires", "1 slow WARNING Slow (grafana_folder=Shop instance=web1)")
		time.Sleep(4*time.Hour + time.Minute)
		w.check("Slow grafana_folder=Shop instance=web1", "it goes on", "1 slow WARNING Slow (grafana_folder=Shop instance=web1)")
		w.check("Slow grafana_folder=Shop instance=web1 until=-1s", "it ends",
			"1 slow OK resolved: Slow (grafana_folder=Shop instance=web1)")
		time.Sleep(15 * time.Minute)
		w.expect("nobody said the other", "1 open OK resolved: not repeated since this server started")
	})
}
