//go:build linux

package test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// metricsTemplate has items of an agent, a trigger that is true at once, and a key that no agent knows.
const metricsTemplate = `
{kind: Handler, metadata: {name: hook}, spec: {webhook: {url: %q}}}
---
{kind: Property, metadata: {name: uptime}, spec: {property: "{$UPTIME}", scope: global, value: 0}}
---
kind: Template
metadata: {name: linux}
spec:
  targets: {groups: [all]}
  items:
    - {key: system.uptime, type: unsigned, interval: 1s, unit: s}
    - {key: "vm.memory.size[pavailable]", interval: 1s, unit: "%%"}
    - {key: "net.if.in[lo]", interval: 1s, unit: bps, steps: [{changePerSecond: []}, {multiplier: "8"}]}
    - {key: "nosuch.key[x]", interval: 1s}
    - {key: agent.ping, interval: 1s, valueMap: state}
    - {key: "net.if.out[{$IF}]", interval: 1s}
    - {key: backup.age, trapper: true}
    - {key: ups.walk, type: text, notCollected: SNMP}
    - {key: ups.load, from: ups.walk}
  valueMaps: [{name: state, mappings: [{value: "1", text: up}]}]
  macros: {"{$UPTIME}": "1000000000"}
  triggers:
    - {name: machine is up, expression: "min(//system.uptime,#3)>{$UPTIME}", severity: high, alert: {handlers: [hook]}}
    - {name: "any / of [all]: up", expression: "last(//system.uptime)>0", severity: warning}
`

// TestTemplateValuesOpenProblem applies a Template with a trigger, and expects one problem and one
// notification. The server is killed while values arrive, and all values are there.
func TestTemplateValuesOpenProblem(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--snapshot-cycle", "2s")
	s.Login()
	hook := newWebhook(t, 0)
	s.StartAgent("db1")
	s.Apply(fmt.Sprintf(metricsTemplate, hook.URL))
	s.AwaitOutput("get items", "system.uptime")
	s.Kill()
	s.Launch()
	s.WaitReady(40 * time.Second)
	s.AwaitOutput("get items", "nosuch.key[x]", "unsupported: unknown item key nosuch.key", "net.if.in[lo]", "up (1)", "unsupported: the macro {$IF} has no value here",
		"no value yet: external senders provide the value", "ups.load", "not collected: SNMP")
	s.AwaitOutput("get problems", "db1", "linux:machine is up")
	s.Kill() // the verdict is in the journal, or is computed again from the values
	s.Launch()
	s.WaitReady(40 * time.Second)
	problems, err := s.Client().Problems.List(t.Context(), "", "db1", "linux:machine is up", true, 0, "")
	assert(t, err == nil && len(problems.Items) == 1, "problems: %v %+v", err, problems.Items)
	harness.Until(t, 40*time.Second, "one message about the problem", func() (string, bool) {
		kinds := hook.kindsOf(problems.Items[0].ID)
		return fmt.Sprint(kinds), len(kinds) == 1
	})
	harness.Run(t, s.Env(), "why", "db1/linux:machine is up").Expect(0, "CRITICAL", "delivered")
	s.AwaitOutput("describe item db1/system.uptime", "machine is up: PROBLEM")

	// What tables print as names of triggers and items is taken by the commands.
	for _, trigger := range []string{"linux:machine is up", "linux:any / of [all]: up"} {
		s.AwaitOutput("get problems", trigger)
		for _, name := range []string{"db1/" + trigger, "default/db1/" + trigger} {
			for _, command := range []string{"describe event", "why", "get event", "get event -A", "get history -A", "event ack", "event unack", "event notify", "report availability", "route test", "silence --for 1h -m x --dry-run"} {
				harness.Run(t, s.Env(), append(strings.Fields(command), name)...).Expect(0)
			}
			harness.Run(t, s.Env(), "get", "history", name).Expect(0, "the first result")
		}
		for _, list := range []string{"events", "problems", "history"} {
			harness.Run(t, s.Env(), "get", list, "--check", trigger, "-A").Expect(0, trigger)
		}
		harness.Run(t, s.Env(), "silence", "db1/"+trigger, "--for", "1h", "-m", "moving").Expect(0, "silences "+trigger+" on 1 node", "open now: 1 problem")
		harness.Run(t, s.Env(), "describe", "event", "db1/"+trigger).Expect(0, "silenced by")
	}
	harness.Run(t, s.Env(), "silence", "db1/nosuch:x", "--for", "1h", "-m", "x").Expect(3, "template/nosuch does not exist")
	harness.Run(t, s.Env(), "silence", "db1/linux:nosuch", "--for", "1h", "-m", "x").Expect(3, `template linux has no trigger "nosuch"`)
	harness.Run(t, s.Env(), "describe", "event", "db1/linux:nosuch").Expect(3, `template linux has no trigger "nosuch"`)
	harness.Run(t, s.Env(), "describe", "event", "db1/nosuch:x").Expect(3, `template "nosuch" does not exist`)
	for _, item := range []string{"db1/net.if.in[lo]", "default/db1/net.if.in[lo]"} {
		for _, command := range []string{"get item", "get item -A", "describe item", "describe item -A"} {
			harness.Run(t, s.Env(), append(strings.Fields(command), item)...).Expect(0, "net.if.in[lo]")
		}
	}
}

// discoveryTemplate has a rule of the agent, whose items the agent collects, with a trigger that is true at once.
const discoveryTemplate = `
kind: Template
metadata: {name: disks}
spec:
  targets: {groups: [all]}
  discovery:
    - key: vfs.fs.discovery
      interval: 1s
      filter: {conditions: [{macro: "{#FSNAME}", matches: "^/(proc)?$"}]}
      items: [{key: "vfs.fs.size[{#FSNAME},total]", type: unsigned, interval: 1s, unit: B}]
      triggers: [{name: "{#FSNAME}: mounted", expression: "last(//vfs.fs.size[{#FSNAME},total])>=0", severity: warning}]
      overrides:
        - {name: root, filter: {conditions: [{macro: "{#FSNAME}", matches: "^/$"}]}, triggers: [{severity: disaster}]}
`

// TestDiscoveredFileSystemOpensProblem applies a Template that discovers file systems, and expects problems with the
// file system's name. The agent collects the items of each file system; a kill -9 of the server changes nothing.
func TestDiscoveredFileSystemOpensProblem(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--snapshot-cycle", "2s")
	s.Login()
	s.StartAgent("db1")
	s.Apply(discoveryTemplate)
	s.AwaitOutput("get items", "vfs.fs.size[/,total]", "vfs.fs.size[/proc,total]", "2 entities")
	s.Kill()
	s.Launch()
	s.WaitReady(40 * time.Second)
	s.AwaitOutput("get problems", "disks:/: mounted", "disks:/proc: mounted")
	problems, err := s.Client().Problems.List(t.Context(), "", "db1", "disks:/: mounted", true, 0, "")
	assert(t, err == nil && len(problems.Items) == 1 && problems.Items[0].SeverityName == "disaster", "problems: %v %+v", err, problems.Items)
	for _, command := range []string{"describe event", "why", "get event", "silence --for 1h -m x --dry-run"} {
		harness.Run(t, s.Env(), append(strings.Fields(command), "db1/disks:/proc: mounted")...).Expect(0)
	}
	s.AwaitOutput("describe item db1/vfs.fs.size[/,total]", "/: mounted: PROBLEM")
}

// TestSeriesAnswerQueries queries an agent's values by muster query, promtool and HTTP, and expects the values
// as collected. It repeats the queries after kill -9; a user of another namespace gets no values.
func TestSeriesAnswerQueries(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--snapshot-cycle", "2s")
	s.Login()
	s.StartAgent("db1")
	s.Apply(fmt.Sprintf(metricsTemplate, "http://127.0.0.1:9/"))
	s.AwaitOutput("query count_over_time(system_uptime[1h])>3", `node="db1"`)
	s.Kill()
	s.Launch()
	s.WaitReady(40 * time.Second)
	s.AwaitOutput("query count_over_time(system_uptime[1h])>6", `item="system.uptime"`)
	// The item has one value each second. The times say so: an uptime in whole seconds leaves one out where a value is taken late.
	result := testenv.Value(s.Client().QuerySeries(t.Context(), "default", "system_uptime[1h]", time.Now()))(t)
	rows := testenv.Value(result.Rows())(t)
	require(t, len(rows) == 1 && len(rows[0].Values) > 6, "series: %+v", rows)
	for i, point := range rows[0].Values[1:] {
		if step := point.Seconds - rows[0].Values[i].Seconds; step < 0.4 || step > 1.6 {
			t.Errorf("a value is missing or there twice: %.3f s between two values of %+v", step, rows[0].Values)
		}
	}
	harness.Run(t, s.Env(), "query", "system_uptime", "--range", "1m").Expect(0, "db1")
	harness.Run(t, s.Env(), "query", "system_uptime[").Expect(2, "the expression is wrong at character ")

	s.Apply("{kind: Namespace, metadata: {name: other}}")
	all := testenv.Value(s.API.Access.CreateToken(t.Context(), v1.TokenRequest{Role: access.Viewer}))(t).Secret
	other := testenv.Value(s.API.Access.CreateToken(t.Context(), v1.TokenRequest{Bindings: map[string]string{"other": access.Viewer}}))(t).Secret
	for _, x := range []struct {
		user, token string
		status      int
		values      bool
	}{{"", all, 200, true}, {"anybody", all, 200, true}, {"", other, 200, false}, {"grafana", other, 200, false}, {"", "nonsense", 401, false}, {"grafana", "nonsense", 401, false}} {
		request := testenv.Value(http.NewRequest(http.MethodGet, "https://"+s.Listen+"/prometheus/api/v1/query?query=system_uptime", nil))(t)
		status, body := sendRequest(t, s, request, x.user, x.token)
		assert(t, status == x.status && strings.Contains(body, `"node":"db1"`) == x.values, "user %q with token %.9s: %d %s", x.user, x.token, status, body)
	}

	t.Run("promtool", func(t *testing.T) {
		promtool, err := exec.LookPath("promtool")
		if err != nil {
			t.Skip("promtool is not installed (Debian: prometheus)")
		}
		server := "https://promtool:" + all + "@" + s.Listen + "/prometheus"
		for _, args := range [][]string{{"instant", server, "system_uptime"}, {"range", server, "system_uptime"}, {"series", "--match={node=\"db1\"}", server}, {"labels", server, "node"}} {
			c := exec.CommandContext(t.Context(), promtool, append([]string{"query"}, args...)...)
			c.Env = append(os.Environ(), "SSL_CERT_FILE="+filepath.Join(s.Data, "pki", "ca.crt"))
			out, err := c.CombinedOutput()
			assert(t, err == nil && strings.Contains(string(out), "db1"), "promtool %v: %v\n%s", args, err, out)
		}
	})
}

// computedTemplate has items that the server computes of a node's items, of several nodes and of itself, and triggers over them, of which
// one depends on another.
const computedTemplate = `
{kind: Handler, metadata: {name: hook}, spec: {webhook: {url: %q}}}
---
kind: Template
metadata: {name: computed}
spec:
  targets: {groups: [all]}
  items:
    - {key: agent.ping, interval: 1s, tags: {scope: availability}}
    - {key: system.uptime, type: unsigned, interval: 1s}
    - {key: tenfold, interval: 1s, formula: "10*last(//agent.ping)+{$MORE}"}
    - {key: hundredfold, interval: 1s, formula: "10*last(//tenfold)", steps: [{multiplier: "2"}]}
    - {key: all.pings, interval: 1s, formula: "sum(last_foreach(/*/agent.ping?[group=\"all\" and tag=\"scope:availability\"]))"}
    - {key: own.pings, interval: 1s, formula: "10*count(last_foreach(//agent.ping))+700"}
    - {key: none, interval: 1s, formula: "sum(last_foreach(/*/agent.ping?[tag=\"scope:other\"]))"}
    - {key: "zabbix[hosts]", interval: 1s, type: unsigned, internal: true}
    - {key: "zabbix[host,agent,available]", interval: 1s, internal: true}
    - {key: "zabbix[wcache,values]", interval: 1s, type: unsigned, internal: true, steps: [{changePerSecond: []}]}
  macros: {"{$MORE}": "2"}
  triggers:
    - {name: tenfold is there, expression: "last(//tenfold)=12", severity: warning, alert: {handlers: [hook]}}
`

// dependentTrigger is a further trigger of computedTemplate.
const dependentTrigger = `    - {name: all pings are there, expression: "last(//all.pings)=2", severity: high, alert: {handlers: [hook]}, dependsOn: [tenfold is there]}
`

// TestServerComputesItems applies a Template with computed items on two nodes, and expects their values and problems.
// A dependency holds one of the problems back; everything is the same after kill -9.
func TestServerComputesItems(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--snapshot-cycle", "2s")
	s.Login()
	hook := newWebhook(t, 0)
	s.StartAgent("db1")
	s.StartAgent("db2")
	template := fmt.Sprintf(computedTemplate, hook.URL)
	s.Apply(template)
	s.AwaitOutput("get problems --node db1", "computed:tenfold is there")
	s.AwaitOutput("get problems --node db2", "computed:tenfold is there")
	s.Apply(template + dependentTrigger) // its problem opens after the one that holds its messages
	expect := func() {
		t.Helper()
		s.AwaitOutput("describe item db1/tenfold", "10*last(//agent.ping)+{$MORE}, every 1s", "12")
		s.AwaitOutput("describe item db1/hundredfold", "240")
		s.AwaitOutput("describe item db1/all.pings", "2")
		s.AwaitOutput("describe item db1/own.pings", "710")
		s.AwaitOutput("describe item db1/none", "unsupported: no item agent.ping of the nodes has values")
		s.AwaitOutput("describe item db2/zabbix[host,agent,available]", "the server itself, every 1s", "1")
		s.AwaitOutput("query zabbix{item=\"zabbix[hosts]\"}", "2")
		s.AwaitOutput("query rate(tenfold[10s])", `node="db1"`, `node="db2"`)
	}
	expect()
	s.AwaitOutput("get problems", "computed:tenfold is there", "computed:all pings are there")
	s.Kill()
	s.Launch()
	s.WaitReady(40 * time.Second)
	expect()
	harness.Run(t, s.Env(), "why", "db1/computed:all pings are there").Expect(0, "db1/computed:tenfold is there")
	problems, err := s.Client().Problems.List(t.Context(), "", "db1", "computed:all pings are there", true, 0, "")
	assert(t, err == nil && len(problems.Items) == 1 && len(problems.Items[0].Holds) == 1, "problems: %v %+v", err, problems.Items)
	first, err := s.Client().Problems.List(t.Context(), "", "db1", "computed:tenfold is there", true, 0, "")
	assert(t, err == nil && len(first.Items) == 1, "problems: %v %+v", err, first.Items)
	harness.Until(t, 40*time.Second, "one message about the first problem", func() (string, bool) {
		kinds := hook.kindsOf(first.Items[0].ID)
		return fmt.Sprint(kinds), len(kinds) == 1
	})
	if kinds := hook.kindsOf(problems.Items[0].ID); len(kinds) != 0 {
		t.Errorf("messages about a problem whose dependency has one: %v", kinds)
	}
}

// TestExpensiveItemIsReported applies a Template with a slow preprocessing script, and expects commands to name the item and
// step. The command muster status names the item, and muster debug values the step.
func TestExpensiveItemIsReported(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.Login()
	s.StartAgent("db1")
	file := filepath.Join(t.TempDir(), "hot.log")
	testenv.NoError(t, os.WriteFile(file, []byte(strings.Repeat("a line of the log\n", 60_000)), 0o644))
	s.Apply(fmt.Sprintf(`
kind: Template
metadata: {name: hot}
spec:
  targets: {groups: [all]}
  items:
    - {key: agent.ping, interval: 1s}
    - {key: "log[%[1]s,,,500]", type: log, interval: 1s, steps: [{trim: " "}, {javascript: "var x = 0; for (var i = 0; i < 5000; i++) x += i; return value + x"}]}
    - {key: "log.count[%[1]s]", interval: 1s}
`, file))
	s.AwaitOutput("debug values --period 200ms", "hot:log["+file+",,,500], step 2", "raw values applied")
	var load struct {
		Seconds             float64
		Stages              []struct{ Name string }
		Workers             []struct{ Queued int }
		Items, Steps, Nodes []struct {
			Template, Name          string
			PerSecond, CPU, Seconds float64
		}
	}
	testenv.NoError(t, json.Unmarshal([]byte(harness.Run(t, s.Env(), "debug", "values", "--period", "200ms", "--limit", "1", "-o", "json").Expect(0).Out), &load))
	if len(load.Items) != 1 || load.Items[0].Name != "log["+file+",,,500]" || load.Items[0].Template != "hot" || load.Items[0].Seconds <= 0 || load.Items[0].CPU <= 0 ||
		len(load.Steps) != 1 || len(load.Nodes) != 1 || len(load.Stages) == 0 || load.Stages[0].Name != "raw values applied" || len(load.Workers) == 0 || load.Seconds < 0.2 {
		t.Errorf("as JSON: %+v", load)
	}
	s.AwaitOutput("status", "per second; most time: hot:log["+file+",,,500], ")
}

// TestExpensiveNodeDelaysNoOtherNode runs a slow preprocessing script for one node, and expects no delay of
// another node. It expects values of the hot node to wait, with the reason in why, and the values of the quiet one
// to go on.
func TestExpensiveNodeDelaysNoOtherNode(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.Login()
	s.StartAgent("hot1")
	s.StartAgent("quiet1")
	file := filepath.Join(t.TempDir(), "hot.log")
	testenv.NoError(t, os.WriteFile(file, []byte(strings.Repeat("a line of the log\n", 400_000)), 0o644))
	s.Apply(fmt.Sprintf(`
kind: Template
metadata: {name: hot}
spec:
  targets: {nodes: [hot1]}
  items: [{key: "log[%s,,,200]", type: log, interval: 1s, steps: [{javascript: "var x = 0; for (var i = 0; i < 200000; i++) x += i; return value + x"}]}]
---
kind: Template
metadata: {name: quiet}
spec: {targets: {groups: [all]}, items: [{key: agent.ping, interval: 1s}]}
`, file))
	s.AwaitOutput("why hot1", "values wait for slow scripts of this node, the oldest for ", "muster debug values")
	s.AwaitOutput("why hot1/agent.ping", "values wait for slow scripts of this node")
	s.AwaitOutput("debug values --period 200ms", "hot:log["+file+",,,200], step 1")
	s.AwaitOutput(`query count_over_time(agent_ping{node="quiet1"}[1h])>=10`, `node="quiet1"`)
	harness.Run(t, s.Env(), "why", "quiet1").Expect(0, "the agent is connected")
}

// TestQueriesReturnPerformanceData runs a check that prints performance data, and expects its numbers from muster
// query. The thresholds are there, too, also after a kill -9.
func TestQueriesReturnPerformanceData(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--snapshot-cycle", "2s")
	s.Login()
	s.StartAgent("db1")
	s.Apply(`
kind: Check
metadata: {name: queue}
spec:
  targets: {groups: [all]}
  interval: 1s
  command: "echo \"ok | waiting=7;10;20 '/home'=12.5%\""
  metrics: {format: nagios, tags: {team: print}}
  thresholds: [{metric: waiting, critical: {min: 1, max: 30}}]
`)
	s.AwaitOutput(`query waiting{check="queue",team="print"}`, `node="db1"`, "7")
	s.Kill()
	s.Launch()
	s.WaitReady(40 * time.Second)
	s.AwaitOutput(`query count_over_time(waiting{node="db1"}[1h])>2`, `check="queue"`)
	s.AwaitOutput(`query {check="queue",item="/home"}`, "_home", `unit="%"`, "12.5")
	s.AwaitOutput(`query waiting_warning{bound="max"}-ignoring(bound)waiting`, `item="waiting"`, "3")
	s.AwaitOutput(`query {__name__="waiting_critical",check="queue"}`, `bound="min"`, `bound="max"`, "30")
}

// TestPerfdataBecomesItems runs checks with performance data, and expects items with the numbers and
// thresholds. It expects the numbers and thresholds of their performance data from get items, why and queries,
// no series of a check without numbers, and a limit for a check that prints ever new labels.
func TestPerfdataBecomesItems(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.Login()
	s.StartAgent("db1")
	s.Apply(`
kind: Check
metadata: {name: queue}
spec: {targets: {groups: [all]}, interval: 1s, command: "echo \"ok | waiting=7;10;20;0;100 '/home'=12.5%\""}
---
kind: Check
metadata: {name: silent}
spec: {targets: {groups: [all]}, interval: 1s, command: "echo 'ok | hidden=1'", metrics: {format: none}}
---
kind: Check
metadata: {name: many}
spec: {targets: {groups: [all]}, interval: 1s, command: "printf 'ok |'; for i in $(seq 900); do printf ' pid_%d_%d=1' $$ $i; done"}
---
kind: Check
metadata: {name: dropped}
spec: {targets: {groups: [all]}, interval: 1s, command: "echo 'ok | kept=3'", discardOutput: true, thresholds: [{metric: kept, warning: {max: 5}}]}
`)
	s.AwaitOutput(`query waiting{check="queue"}`, `node="db1"`, "7")
	s.AwaitOutput(`query waiting_warning{bound="max"}-ignoring(bound)waiting`, `item="waiting"`, "3")
	s.AwaitOutput(`query kept_warning{check="dropped"}`, `bound="max"`, "5")
	s.AwaitOutput("get items db1/waiting", "CHECK", "queue", "waiting", "7", "ok")
	s.AwaitOutput("get items db1//home", "12.5 %")
	s.AwaitOutput("describe item db1/waiting", "check", "queue", "warning", "above 10", "critical", "above 20", "plot", "muster query")
	s.AwaitOutput("why db1/waiting", "the agent is connected", "check queue: a number in its results", "above 20")
	s.AwaitOutput(`query {check="queue",item="waiting"} --range 1m`, "waiting_critical")
	s.AwaitOutput("get items --node db1 --limit 0", "many", "unsupported: 900 numbers in the last result have no series: the check has as many series on this node as it may have")
	s.AwaitOutput(`query count({check="many"})`, "2000")
	harness.Run(t, s.Env(), "query", `{check="silent"}`).Expect(0, "no series match")
}

// TestDiscoveredItemsAreLimited lets a node discover more items than its namespace may have, and expects only the
// first items. The rule shows the reason, and the use of the limit is shown. A kill of the server changes nothing, and
// with a higher limit all items come.
func TestDiscoveredItemsAreLimited(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	s.Login()
	s.StartAgent("db1")
	file := writeFileInFolder(t, t.TempDir(), "list", `[{"{#A}":"one"},{"{#A}":"two"},{"{#A}":"three"}]`)
	s.Apply(fmt.Sprintf(`
{kind: Namespace, metadata: {name: default}, spec: {limits: {discoveredItems: 5}}}
---
kind: Template
metadata: {name: found}
spec:
  targets: {groups: [all]}
  items: [{key: agent.ping, interval: 1s}]
  discovery:
    - key: vfs.file.contents[%s]
      interval: 1s
      items: [{key: "vfs.file.exists[/{#A}]", interval: 1s}, {key: "vfs.file.exists[/{#A},dir]", interval: 1s}]
`, file))
	const reason = "1 entity without items: the namespace has its limit of discovered items (spec.limits.discoveredItems)"
	limited := func() {
		t.Helper()
		items := s.AwaitOutput("get items --node db1", "vfs.file.exists[/one,dir]", "vfs.file.exists[/two]", reason)
		assert(t, !strings.Contains(items, "/three"), "items above the limit:\n%s", items)
	}
	limited()
	s.AwaitOutput("describe namespace default", "discoveredItems", "at most 5 stay of the 6 of Template found")
	s.AwaitMetric(1, "muster_limits_met_total", "discovered_items")
	s.Kill()
	s.Launch()
	s.WaitReady(40 * time.Second)
	limited()
	s.Apply("{kind: Namespace, metadata: {name: default}, spec: {limits: {discoveredItems: 6}}}")
	s.AwaitOutput("get items --node db1", "vfs.file.exists[/three]", "vfs.file.exists[/three,dir]", "3 entities")
}

// TestSeriesAreLimited collects more items than the namespace may have series, and expects an unsupported item with the
// reason. The use of the limit is shown. After a kill of the server the next value is refused again, and with a higher
// limit all items are stored.
func TestSeriesAreLimited(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--snapshot-cycle", "2s")
	s.Login()
	s.Apply("{kind: Namespace, metadata: {name: default}, spec: {limits: {series: 2}}}")
	s.StartAgent("db1")
	s.Apply(`
kind: Template
metadata: {name: three}
spec:
  targets: {groups: [all]}
  items: [{key: agent.ping, interval: 1s}, {key: system.localtime, type: unsigned, interval: 1s}, {key: system.uptime, interval: 1s}]
`)
	const reason = "unsupported: its numbers are not stored: namespace default has its limit of series (spec.limits.series)"
	s.AwaitOutput("get items --node db1 --limit 0", reason)
	s.AwaitOutput("describe namespace default", "series", "the namespace has its limit of 2 series: numbers of new series are not stored")
	s.AwaitOutput("status", "namespace default reached a limit", "spec.limits.series: muster edit namespace default")
	s.AwaitMetric(1, "muster_limits_met_total", `limit="series"`)
	s.AwaitOutput(`query count({node="db1"})`, "2")
	s.Kill()
	s.Launch()
	s.WaitReady(40 * time.Second)
	s.AwaitOutput("get items --node db1 --limit 0", reason)
	s.Apply("{kind: Namespace, metadata: {name: default}, spec: {limits: {series: 3}}}")
	s.AwaitOutput(`query count({node="db1"})`, "3")
	items := s.AwaitOutput("get items --node db1 --limit 0", "agent.ping", "system.localtime", "system.uptime")
	assert(t, !strings.Contains(items, "unsupported"), "items under the raised limit:\n%s", items)
}

// TestSpooledValuesOpenNoProblem stops the server for longer than a trigger waits for values, and expects no problem
// afterwards. The values that the agent collected meanwhile arrive in order.
func TestSpooledValuesOpenNoProblem(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--snapshot-cycle", "2s")
	s.Login()
	s.StartAgent("db1")
	s.Apply(`
kind: Template
metadata: {name: late}
spec:
  targets: {groups: [all]}
  items: [{key: system.localtime, type: unsigned, interval: 1s}]
  triggers:
    - {name: silent, expression: "nodata(//system.localtime,8s)=1"}
    - {name: back, expression: "change(//system.localtime)<0"}
    - {name: first, expression: "last(//system.localtime)>0"}
`)
	s.AwaitOutput("get problems", "late:first")
	s.Kill()
	killed := time.Now()
	harness.Until(t, time.Minute, "twelve seconds without a server", func() (string, bool) { return "", time.Since(killed) > 12*time.Second })
	s.Launch()
	s.WaitReady(40 * time.Second)
	meanwhile := fmt.Sprintf(`query count(system_localtime{node="db1"}>%d)`, time.Now().Unix())
	s.AwaitOutput(meanwhile, "1")
	s.AwaitOutput(fmt.Sprintf(`query count_over_time(system_localtime{node="db1"}[%ds:1s]@%d)>9`, 12, killed.Unix()+12), "1")
	for _, name := range []string{"silent", "back"} {
		history := s.CLI("get", "history", "db1/late:"+name)
		assert(t, !strings.Contains(history, "CRITICAL") && !strings.Contains(history, "WARNING"), "late:%s had a problem:\n%s", name, history)
	}
}

// TestDeletedSeriesFolderLosesNoValues deletes the folder of stored series under a running server, and expects
// no lost values. They are also there after a kill of the server.
func TestDeletedSeriesFolderLosesNoValues(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "--snapshot-cycle", "2s")
	s.Login()
	s.StartAgent("db1")
	s.Apply("{kind: Template, metadata: {name: ping}, spec: {targets: {groups: [all]}, items: [{key: agent.ping, interval: 1s}]}}")
	s.AwaitOutput("query count_over_time(agent_ping[1h])>4", "db1")
	testenv.NoError(t, os.RemoveAll(filepath.Join(s.Data, "series")))
	saved := s.Metric("muster_snapshot_saved_total")
	s.AwaitOutput("query count_over_time(agent_ping[1h])>9", "db1")
	s.AwaitMetric(saved+1, "muster_snapshot_saved_total")
	s.Kill()
	s.Launch()
	s.WaitReady(40 * time.Second)
	s.AwaitOutput("query count_over_time(agent_ping[1h])>11", "db1")
}

// TestNetworkAndCommandItems collects a web page, a certificate and a command's output as items, and expects their
// values. The address of the page has a secret; a command that the agent does not allow is refused with a reason.
func TestNetworkAndCommandItems(t *testing.T) {
	t.Parallel()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("token") != "hunter22" {
			http.Error(w, "wrong token", http.StatusForbidden)
			return
		}
		_, _ = fmt.Fprint(w, `{"active": 7, "token": "hunter22"}`)
	}))
	t.Cleanup(page.Close)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	s := harness.StartServer(t)
	s.Login()
	dir := t.TempDir()
	testenv.NoError(t, os.WriteFile(filepath.Join(dir, "status"), []byte("hunter22\n"), 0o600))
	a := s.NewAgent("web1", "--secrets-dir", dir, "--allow-commands", "echo two words")
	a.Start()
	s.Apply(fmt.Sprintf(`
{kind: Secret, metadata: {name: status}, spec: {agentFile: status}}
---
kind: Template
metadata: {name: shop}
spec:
  targets: {groups: [all]}
  secrets: [{macro: "{$TOKEN}", secret: status}]
  items:
    - {key: "web.page.get[%[1]s/?token={$TOKEN}]", type: text, interval: 1s, noHistory: true}
    - {key: shop.active, from: "web.page.get[%[1]s/?token={$TOKEN}]", steps: [{regex: ["\"active\": ([0-9]+)", "\\1"]}]}
    - {key: "web.certificate.get[%[2]s]", type: text, interval: 1s}
    - {key: shop.certificate, from: "web.certificate.get[%[2]s]", type: text, steps: [{jsonPath: "$.result.value"}]}
    - {key: "system.run[echo two words]", type: text, interval: 1s}
    - {key: "system.run[id]", type: text, interval: 1s}
`, page.URL, secure.URL))
	text := s.AwaitOutput("get items", "shop.active", "two words", "the agent runs only the programs in its setting", "valid-but-self-signed")
	text += s.AwaitOutput("get items -o json", "(hidden)")
	if strings.Contains(text, "hunter22") || !strings.Contains(text, "?token={$TOKEN}]") {
		t.Errorf("the secret is in the list of items, or the macro is not:\n%s", text)
	}
	s.AwaitOutput("query shop_active", "7")
}
