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
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/testenv"
)

// testServer is a Server over in-memory fakes of access, intent, planner, event states and journal.
type testServer struct {
	declared  *directory.PassiveCheck // an operator declares it just before the next Apply
	t         testing.TB
	server    *Server
	metrics   *prometheus.Registry
	nodes     map[string]model.NodeID
	checks    map[string]directory.PassiveCheck
	applies   int
	open      []event.State
	full      bool   // the view admits no event
	overLimit string // the reason to refuse requests
	sender    string

	mu      sync.Mutex
	written []string // results: node check status output
	blocked bool     // the journal accepts no results
}

// newTestServer returns a test Server whose surroundings are simulated in memory.
func newTestServer(t testing.TB, change func(*testServer, *Config)) *testServer {
	t.Helper()
	w := &testServer{t: t, metrics: prometheus.NewRegistry(), nodes: map[string]model.NodeID{"web1": 1}, checks: map[string]directory.PassiveCheck{}}
	cfg := Config{Access: w, Intent: w, Plan: w, View: w, Write: w.write, Charge: func(string, string, int) string { return w.overLimit }, Registerer: w.metrics}
	if change != nil {
		change(w, &cfg)
	}
	w.server = testenv.Value(New(cfg))(t)
	return w
}

// passiveCheck returns a test check that takes its results from alerts, not from a command. Its check id and
// definition id (compiled version) are equal.
func passiveCheck(id model.DefinitionID, name string) directory.PassiveCheck {
	return directory.PassiveCheck{Definition: &model.CheckDefinition{Definition: model.Definition{ID: id, Unit: model.CheckID(id), Name: name}, MaxOutput: 4096}}
}

// write records the results that the server writes, or fails if the test has blocked the journal. It fails if the test
// has blocked the journal.
func (w *testServer) write(_ context.Context, results []recorder.Result) (func(context.Context) error, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.blocked {
		return nil, errors.New("disk full")
	}
	for _, r := range results {
		for name, c := range w.checks {
			if c.Definition != nil && c.Definition.ID == r.Definition {
				w.written = append(w.written, fmt.Sprintf("%d %s %s %s", r.Node, name, r.Status, r.Output))
			}
		}
	}
	return func(context.Context) error { return nil }, nil
}

// Authenticate accepts every token of an alert sender as valid.
func (w *testServer) Authenticate(string) (access.Subject, error) { return access.Subject{}, nil }

// LoginProgram accepts every program that sends alerts, with any password.
func (w *testServer) LoginProgram(context.Context, string, string, string, access.PasswordThrottle) (access.Program, error) {
	return access.Program{}, nil
}

// CheckNamespace accepts every namespace as existing and permitted.
func (w *testServer) CheckNamespace(string) error { return nil }

// Apply creates the checks and nodes of alerts in the test server's memory. It stands in for the intent store.
func (w *testServer) Apply(_ context.Context, _ intent.Actor, resources []model.Resource, o intent.ApplyOptions) (intent.ApplyResult, error) {
	w.applies++
	for i := range resources {
		r := &resources[i]
		if expect, ok := o.Expect[intent.KeyOf(r)]; !ok || expect != 0 {
			w.t.Errorf("%s %s would be overwritten", r.Kind, r.Metadata.Name)
		}
		if w.declared != nil && r.Kind == "Check" { // an operator applies it first
			w.checks[r.Metadata.Name], w.declared = *w.declared, nil
			return intent.ApplyResult{}, model.Errorf(model.Stale, "it exists")
		}
		if err := kind.All().Validate(r); err != nil {
			w.t.Errorf("created %s %s: %v", r.Kind, r.Metadata.Name, err)
		}
		if r.Kind == "Node" {
			w.nodes[r.Metadata.Name] = model.NodeID(len(w.nodes) + 1)
		} else {
			w.checks[r.Metadata.Name] = passiveCheck(model.DefinitionID(100+len(w.checks)), r.Metadata.Name)
		}
	}
	return intent.ApplyResult{}, nil
}

// CatchUp does nothing, because created checks and nodes are visible at once.
func (w *testServer) CatchUp(context.Context) error { return nil }

// PassiveCheck finds a check by name among the checks of the test.
func (w *testServer) PassiveCheck(_, name string) (directory.PassiveCheck, bool) {
	c, ok := w.checks[name]
	return c, ok
}

// PassiveChecks returns the ids of all passive checks in the test.
func (w *testServer) PassiveChecks(string, string) (ids []model.CheckID) {
	for _, c := range w.checks {
		ids = append(ids, c.Definition.Unit)
	}
	return ids
}

// SourceName returns the name of one of the test's checks.
func (w *testServer) SourceName(s model.Source) (string, string, bool) {
	for name, c := range w.checks {
		if c.Definition.Unit == s.Check() {
			return "default", name, true
		}
	}
	return "", "", false
}

// NodeByName looks up a node by name in the test's nodes.
func (w *testServer) NodeByName(_, name string) (model.NodeID, bool) {
	id, ok := w.nodes[name]
	return id, ok
}

// NodeName finds no node, because the tests need no node names by id. No node has a name other than the name in
// its alerts.
func (w *testServer) NodeName(model.NodeID) (string, string, bool) { return "", "", false }

// NodesMatching returns a list as long as the number of nodes created for alerts, for the limit.
func (w *testServer) NodesMatching(string, directory.Selector) []model.NodeID {
	return make([]model.NodeID, len(w.nodes)-1)
}

// Admit allows every new event, unless the test simulates a full server.
func (w *testServer) Admit(model.NodeID, *model.CheckDefinition) (string, string) {
	if w.full {
		return "node_limit", "the node has its 3 event states"
	}
	return "", ""
}

// List returns the alert events that the test has declared as open before the server's start.
func (w *testServer) List(context.Context, event.Query) (event.Page, error) {
	return event.Page{States: w.open}, nil
}

// postAlerts posts alerts to the test server, one per line. A line is: name label=value … until=+4m, or until=-1s for
// an ended alert.
func (w *testServer) postAlerts(lines ...string) error {
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
	return w.server.receive(w.t.Context(), intent.Actor{User: cmp.Or(w.sender, "prometheus"), Address: "10.0.0.7"}, "default", []byte("["+strings.Join(list, ",")+"]"))
}

// mustPostAlerts posts alerts and fails the test if the server refuses an alert.
func (w *testServer) mustPostAlerts(lines ...string) {
	w.t.Helper()
	if err := w.postAlerts(lines...); err != nil {
		w.t.Errorf("post %q: %v", lines, err)
	}
}

// expectResults compares the check results that the server wrote since the last comparison with the expected
// results.
func (w *testServer) expectResults(what string, lines ...string) {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got, want := strings.Join(w.written, "\n"), strings.Join(lines, "\n"); got != want {
		w.t.Errorf("%s:\n%s\nwant:\n%s", what, got, want)
	}
	w.written = nil
}

// blockJournal makes the journal of the test refuse results, or accept results again.
func (w *testServer) blockJournal(blocked bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blocked = blocked
}

// count returns from the metric how many alerts ended with an outcome.
func (w *testServer) count(o alertOutcome) float64 {
	return testutil.ToFloat64(w.server.metrics.alerts[o])
}

// startServer starts a test server that receives alerts, and stops the server at the end of the test. Call it
// in a bubble.
func startServer(t *testing.T, change func(*testServer, *Config)) *testServer {
	w := newTestServer(t, change)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return w
}

// TestAlertsFireRepeatAndEnd lets alerts fire, repeat and end, and compares the check results that the server
// writes.
func TestAlertsFireRepeatAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startServer(t, nil)
		w.mustPostAlerts("DiskFull instance=web1:9100 mount=/ severity=warning until=4m", "DiskFull instance=web1:9100 mount=/data severity=critical until=4m")
		w.expectResults("two alerts of one name", "1 diskfull CRITICAL 2 alerts fire\nCRITICAL: DiskFull (instance=web1:9100 mount=/data severity=critical)\nWARNING: DiskFull (instance=web1:9100 mount=/ severity=warning)")
		w.mustPostAlerts("DiskFull instance=web1:9100 mount=/ severity=warning until=4m", "DiskFull instance=web1:9100 mount=/data severity=critical until=4m")
		w.expectResults("repeated at once")
		time.Sleep(time.Minute)
		w.mustPostAlerts("DiskFull instance=web1:9100 mount=/ severity=warning until=4m")
		w.expectResults("repeated after a minute", "1 diskfull CRITICAL 2 alerts fire\nCRITICAL: DiskFull (instance=web1:9100 mount=/data severity=critical)\nWARNING: DiskFull (instance=web1:9100 mount=/ severity=warning)")
		w.mustPostAlerts("DiskFull instance=web1:9100 mount=/data severity=critical until=-1s")
		w.expectResults("one of two ends", "1 diskfull WARNING DiskFull (instance=web1:9100 mount=/ severity=warning)")
		time.Sleep(3*time.Minute + 50*time.Second)
		w.expectResults("before the end")
		time.Sleep(20 * time.Second)
		w.expectResults("the other is no longer repeated", "1 diskfull OK resolved: DiskFull (instance=web1:9100 mount=/ severity=warning) (no longer repeated)")
		w.mustPostAlerts("DiskFull instance=web1:9100 mount=/ until=-1s", "Unheard instance=web9 until=-1s")
		w.expectResults("ended alerts")
		if len(w.server.events) != 0 || w.server.firing != 0 || w.nodes["web9"] != 0 || len(w.checks) != 1 || w.applies != 1 {
			t.Errorf("%v %d firing, %v, %v, %d applies", w.server.events, w.server.firing, w.nodes, w.checks, w.applies)
		}

		// A watchdog alert has the status OK: it opens no problem, and its end writes no result.
		w.mustPostAlerts("Watchdog severity=none until=1m")
		w.expectResults("the watchdog fires", "2 watchdog OK Watchdog (severity=none)")
		time.Sleep(2 * time.Minute)
		w.expectResults("the watchdog ends")

		// Results that the journal did not accept are written by the next tick.
		w.blockJournal(true)
		if err := w.postAlerts("Down instance=new.example.org:80"); model.ClassOf(err) != model.Unavailable {
			t.Errorf("%v", err)
		}
		w.blockJournal(false)
		time.Sleep(expiryInterval + time.Second)
		w.expectResults("after the journal was blocked", "3 down WARNING Down (instance=new.example.org:80)")
		w.full = true
		if err := w.postAlerts("Down instance=new.example.org:80", "Other instance=web1"); model.ClassOf(err) != model.Limited || !strings.Contains(err.Error(), "refused 1 of 2 alerts") {
			t.Errorf("%v", err)
		}
		if w.count(alertFires) != 7 || w.count(alertResolved) != 3 || w.count(notJournaled) != 1 || w.count(stateLimit) != 1 {
			t.Errorf("fires %v, resolved %v, unkept %v, states %v", w.count(alertFires), w.count(alertResolved), w.count(notJournaled), w.count(stateLimit))
		}
	})
}

// TestCheckDeclaredDuringCreationStays lets a user declare a check that the server is creating, and expects the user's
// check. The operator declares it, the server creates a check of the same name for an alert.
func TestCheckDeclaredDuringCreationStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startServer(t, func(w *testServer, _ *Config) {
			declared := passiveCheck(70, "a")
			w.declared = &declared
		})
		w.mustPostAlerts("A instance=web9 severity=warning")
		if w.applies != 2 || w.checks["a"].Definition.Unit != 70 || w.nodes["web9"] == 0 {
			t.Errorf("%d changes, check %+v, nodes %v", w.applies, w.checks["a"], w.nodes)
		}
	})
}

// TestOpenEventsStayOpenAfterAStart restarts the server, and expects open events to stay open for a while. Senders
// need the time to repeat their alerts.
func TestOpenEventsStayOpenAfterAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startServer(t, func(w *testServer, _ *Config) {
			w.checks["a"] = passiveCheck(7, "a")
			w.checks["b"] = passiveCheck(8, "b")
			w.checks["c"] = passiveCheck(9, "c")
			w.checks["d"] = passiveCheck(10, "d")
			w.open = []event.State{{Node: 1, Check: 10, Status: model.Unknown, Output: "no result for 5m (TTL)", Expired: true}, // by its TTL: a result ends it
				{Node: 1, Check: 7, Status: model.Critical, Output: "two alerts"}, {Node: 1, Check: 8, Status: model.Warning, Output: "one alert"},
				{Node: 1, Check: 9, Status: model.Critical, Output: "of an agent", Counters: event.Counters{Stream: 5}}} // alerts do not end it
		})
		w.mustPostAlerts("A instance=web1 n=1 severity=warning", "B instance=web1 until=-1s")
		w.expectResults("one of two is repeated", "1 a CRITICAL A (instance=web1 n=1 severity=warning)")
		time.Sleep(repeatWindow + 2*expiryInterval)
		w.expectResults("the other has ended", "1 b OK resolved: B (instance=web1)")
		time.Sleep(resolveAfter - repeatWindow - 3*expiryInterval)
		w.mustPostAlerts("A instance=web1 n=1 severity=warning")
		w.mu.Lock()
		w.written = nil
		w.mu.Unlock()
		time.Sleep(4 * expiryInterval)
		w.expectResults("the second alert is not repeated", "1 a WARNING A (instance=web1 n=1 severity=warning)")
	})
}

// TestPausedProcessEndsNoAlerts stops the process for an hour (SIGSTOP), and expects no alert to end. The process
// missed repetitions.
func TestPausedProcessEndsNoAlerts(t *testing.T) {
	var paused atomic.Int64
	synctest.Test(t, func(t *testing.T) {
		w := startServer(t, func(_ *testServer, c *Config) {
			c.Now = func() time.Time { return time.Now().Add(time.Duration(paused.Load())) }
		})
		w.mustPostAlerts("A instance=web1")
		paused.Store(int64(time.Hour))
		time.Sleep(2 * expiryInterval)
		synctest.Wait()
		if w.server.firing != 1 {
			t.Errorf("%d alerts fire after a pause of an hour, want 1", w.server.firing)
		}
	})
}

// TestCreationOfChecksIsLimited sends alerts with too many new names, and expects refusals above the limit of checks.
// The limits are for created nodes, created checks and firing alerts.
func TestCreationOfChecksIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startServer(t, func(_ *testServer, c *Config) {
			c.Limits = Limits{Nodes: 2, Checks: 3, Firing: 4, FiringTogether: 2}
		})
		for _, c := range []struct {
			what, says string
			alerts     []string
		}{
			{"nodes", "refused 2 of 4 alerts", []string{"A instance=n1", "A instance=n2", "A instance=n3", "A instance=n4"}},
			{"checks", "is at its limit of 3 passive checks", []string{"A instance=web1", "B instance=web1", "C instance=web1", "D instance=web1"}},
			{"fire", "5 of 6 alerts", []string{"A instance=n1 n=1", "A instance=n1 n=2", "A instance=n1 n=3", "B instance=web1 n=1", "C instance=web1 n=1", "C instance=n1"}},
		} {
			w.server.events, w.server.firing = map[eventKey]*alertEvent{}, map[bool]int{true: 3}[c.what == "fire"]
			err := w.postAlerts(c.alerts...)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %s", c.what, err, c.says)
			}
		}
		if len(w.nodes) != 3 || len(w.checks) != 3 {
			t.Errorf("%v %v", w.nodes, w.checks)
		}
	})
}

// TestSenderAboveByteLimitIsRefused sends more bytes per second than allowed, and expects a refusal. The error has the
// setting to raise.
func TestSenderAboveByteLimitIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startServer(t, nil)
		w.overLimit = "this sender is at its limit of 1048576 bytes per second"
		err := w.postAlerts("Down instance=web1")
		if model.ClassOf(err) != model.Limited || !strings.Contains(err.Error(), w.overLimit) || w.applies != 0 {
			t.Errorf("got %v, %d applies", err, w.applies)
		}
		w.overLimit = ""
		w.mustPostAlerts("Down instance=web1")
	})
}

// TestListsOfAlertsAreBounded decodes a list of very many alerts, and expects an error before most are decoded.
func TestListsOfAlertsAreBounded(t *testing.T) {
	limits := Limits{Alerts: 100}
	body := []byte("[" + strings.Repeat("{},", 1_000_000) + "{}]")
	objects := testing.AllocsPerRun(1, func() {
		if _, err := decodeAlerts(body, &limits); model.ClassOf(err) != model.TooLarge {
			t.Errorf("error %v", err)
		}
	})
	if objects > 1000 {
		t.Errorf("%v allocations", objects)
	}
	for text, valid := range map[string]bool{"[]": true, "null": true, "[{}] x": false, "[{}": false, "7": false, `"x"`: false, "": false, "[,]": false} {
		if _, err := decodeAlerts([]byte(text), &limits); (err == nil) != valid {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestLabelsDecideNodeAndStatusOfAnAlert expects the labels of an alert to decide its node and status.
func TestLabelsDecideNodeAndStatusOfAnAlert(t *testing.T) {
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
		if names, status := strings.Join(NodeNames(labels), " "), StatusOf(labels).String(); names != c.names || status != c.status {
			t.Errorf("%s: %s %s, want %s %s", c.labels, names, status, c.names, c.status)
		}
	}
}

// FuzzAlerts decodes arbitrary request bodies and checks that node names and texts of the alerts are valid.
func FuzzAlerts(f *testing.F) {
	for _, name := range []string{"prometheus.json", "grafana.json"} {
		text := testenv.Value(os.ReadFile("testdata/" + name))(f)
		f.Add("/alertmanager/web/api/v2/alerts", text)
	}
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		login := core.SenderLogin{Path: Path}
		if ns, ok := login.NamespaceOf(path, "api/v2/alerts", "api/v1/alerts"); ok && model.NameError(ns) != nil {
			t.Errorf("namespace %q of %q", ns, path)
		}
		l := Config{}.Limits
		l.Alerts, l.Labels, l.NameBytes, l.LabelBytes, l.TextBytes = 100, 64, 256, 2048, 16<<10
		alerts, err := decodeAlerts(body, &l)
		if err != nil {
			return
		}
		for i := range alerts {
			if !alerts[i].isUnhandled() {
				continue
			}
			for _, name := range NodeNames(alerts[i].Labels) {
				if err := model.NameError(name); err != nil {
					t.Errorf("node %q: %v", name, err)
				}
			}
			if text := alerts[i].Text(); !strings.HasPrefix(text, alerts[i].summaryLine()) || strings.ContainsRune(text, 0) {
				t.Errorf("text %q", text)
			}
		}
	})
}

// TestBodiesOfPrometheusAndGrafanaAreRead checks that the server decodes request bodies of Prometheus and Grafana.
func TestBodiesOfPrometheusAndGrafanaAreRead(t *testing.T) {
	for name, want := range map[string]string{
		"prometheus.json": "db1 is full (instance=db1:9100 job=node mount=/data severity=critical)\nrunbook: https://runbooks.example.org/disk\nsource: http://prometheus:9090/graph?g0.expr=disk_free+%3C+5&g0.tab=1",
		"grafana.json":    "Checkout is slow (grafana_folder=Shop instance=web1)\nThe 99th percentile is 3 s.\ndashboard: https://grafana.example.org/d/shop\nsource: https://grafana.example.org/alerting/grafana/abc/view?orgId=1",
	} {
		text := testenv.Value(os.ReadFile("testdata/" + name))(t)
		w := newTestServer(t, nil)
		alerts, err := decodeAlerts(text, &w.server.cfg.Limits)
		if err != nil || len(alerts) != 1 || !alerts[0].isUnhandled() {
			t.Fatalf("%s: %v %v", name, alerts, err)
		}
		if got := alerts[0].Text(); got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got, want)
		}
	}
}

// postAndExpect posts one alert, and compares the check results that the server then writes.
func (w *testServer) postAndExpect(line, what string, want ...string) {
	w.t.Helper()
	w.mustPostAlerts(line)
	w.expectResults(what, want...)
}

// TestAlertsOfASenderWithASlowClockFire sends alerts of a Prometheus with a slow clock, and expects the alerts to
// fire. The Prometheus is six minutes behind. It sends the ends of firing alerts four minutes ahead of its clock, so
// they are in the past here. Ends that advance with each repetition show the wrong clock; an end that stays is real.
func TestAlertsOfASenderWithASlowClockFire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startServer(t, nil)
		const (
			fires    = "Down instance=new1 severity=critical until=-2m"
			resolved = "Down instance=new1 severity=critical until=-6m"
			down     = "2 down CRITICAL Down (instance=new1 severity=critical)\nthe clock of prometheus at 10.0.0.7 is at least 2m behind this server's: its alerts arrive late"
		)
		for _, again := range []string{"first", "second"} {
			w.postAndExpect(fires, again)
			time.Sleep(time.Minute)
		}
		if len(w.nodes) != 1 {
			t.Errorf("created for an alert that may have ended: %v", w.nodes)
		}
		w.postAndExpect(fires, "its end advanced twice", down)
		w.postAndExpect(fires, "repeated at once")
		for range 5 {
			time.Sleep(time.Minute)
			w.postAndExpect(fires, "it fires on", down)
		}
		time.Sleep(30 * time.Second)
		w.postAndExpect(resolved, "it ends", "2 down OK resolved: Down (instance=new1 severity=critical)")
		for _, end := range []string{"-7m", "-8m", "-9m"} { // the same moment
			time.Sleep(time.Minute)
			w.postAndExpect("Down instance=new1 severity=critical until="+end, "it has ended")
		}
		time.Sleep(time.Minute)
		w.postAndExpect(fires, "again")
		time.Sleep(time.Minute)
		w.postAndExpect(fires, "its end advanced twice again", down)
		if n := testutil.ToFloat64(w.server.metrics.clockDelays); n != 8 {
			t.Errorf("%v alerts of a slow clock were counted, want 8", n)
		}
		time.Sleep(pastEndLifetime + expiryInterval)
		synctest.Wait()
		w.server.mu.Lock()
		defer w.server.mu.Unlock()
		if len(w.server.pastEnds) != 0 {
			t.Errorf("%d past ends are kept", len(w.server.pastEnds))
		}
	})
}

// TestAlertFiresWhileOneSenderHasASlowClock sends an alert from two senders, one with a slow clock, and expects the
// alert to fire.
func TestAlertFiresWhileOneSenderHasASlowClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startServer(t, nil)
		changes := 0
		for range 10 {
			w.sender = "a"
			w.mustPostAlerts("Down instance=web1 until=4m")
			w.sender = "b"
			w.mustPostAlerts("Down instance=web1 until=-6m")
			w.mu.Lock()
			changes, w.written = len(w.written), nil
			w.mu.Unlock()
			time.Sleep(time.Minute)
		}
		w.server.mu.Lock()
		firing := w.server.firing
		w.server.mu.Unlock()
		if changes > 1 || firing != 1 {
			t.Errorf("%d changes in the last minute, %d fire", changes, firing)
		}
	})
}

// TestRepeatedShortAlertsEnd lets an alert fire and end again and again, and expects the event to end each time.
func TestRepeatedShortAlertsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startServer(t, nil)
		for range 5 {
			w.postAndExpect("Down instance=web1 until=4m", "it fires", "1 down WARNING Down (instance=web1)")
			time.Sleep(time.Minute)
			w.postAndExpect("Down instance=web1 until=-1s", "it ends", "1 down OK resolved: Down (instance=web1)")
			time.Sleep(time.Minute)
		}
	})
}

// TestAlertLastsUntilItsNextRepeat sends an alert with an early end, and expects the alert to fire until repetitions
// stop. Its endsAt is seconds away.
func TestAlertLastsUntilItsNextRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startServer(t, nil)
		for range 4 {
			w.postAndExpect("Down instance=web1 until=20s", "it fires", "1 down WARNING Down (instance=web1)")
			time.Sleep(time.Minute)
		}
		time.Sleep(repeatWindow - time.Minute + expiryInterval)
		w.expectResults("not repeated", "1 down OK resolved: Down (instance=web1) (no longer repeated)")
	})
}

// TestAlertsOfGrafanaFireForHours sends an alert of Grafana without an end, and expects the alert to fire for hours.
// Such alerts repeat only after hours. The alert fires until then, also after a start of the server.
func TestAlertsOfGrafanaFireForHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startServer(t, func(w *testServer, _ *Config) {
			w.checks["open"] = passiveCheck(7, "open")
			w.open = []event.State{{Node: 1, Check: 7, Status: model.Warning, Output: "Open (grafana_folder=Shop instance=web1)"}}
		})
		w.postAndExpect("Slow grafana_folder=Shop instance=web1", "it fires", "1 slow WARNING Slow (grafana_folder=Shop instance=web1)")
		time.Sleep(4*time.Hour + time.Minute)
		w.postAndExpect("Slow grafana_folder=Shop instance=web1", "it fires on", "1 slow WARNING Slow (grafana_folder=Shop instance=web1)")
		w.postAndExpect("Slow grafana_folder=Shop instance=web1 until=-1s", "it ends",
			"1 slow OK resolved: Slow (grafana_folder=Shop instance=web1)")
		time.Sleep(15 * time.Minute)
		w.expectResults("the open event is not repeated", "1 open OK resolved: not repeated since this server started")
	})
}
