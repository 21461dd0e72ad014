//go:build linux

package test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/muster-fleet/muster/test/harness"
)

// TestZabbixTemplatesLintAndPlan imports Zabbix templates, and expects lint and plan to accept the results.
// MUSTER_ZABBIX_TEMPLATES names the folder of the templates; the server is empty.
func TestZabbixTemplatesLintAndPlan(t *testing.T) {
	folder := os.Getenv("MUSTER_ZABBIX_TEMPLATES")
	if folder == "" {
		t.Skip("name a folder with exports of Zabbix: MUSTER_ZABBIX_TEMPLATES=FOLDER")
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	assert(t, err == nil && len(files) > 0, "no files in %s: %v", folder, err)
	s := harness.StartServer(t)
	s.Login()
	for _, file := range files {
		out := filepath.Join(t.TempDir(), "out.yaml")
		harness.Run(t, s.Env(), "import", "zabbix", file, "--out", out).Expect(0)
		if info, err := os.Stat(out); err == nil && info.Size() == 0 {
			continue // no item remains
		}
		harness.Run(t, s.Env(), "lint", out).Expect(0)
		harness.Run(t, s.Env(), "plan", "-f", out).Expect(0)
	}
}

// trapperTemplate has items whose values a Zabbix sender sends, and a trigger on one of them.
const trapperTemplate = `
{kind: Node, metadata: {name: web1}}
---
kind: Template
metadata: {name: trap}
spec:
  targets: {nodes: [web1, db1]}
  items:
    - {key: trap.n, type: unsigned, trapper: true, steps: [{multiplier: "10"}]}
    - {key: "trap.text[a,b]", type: text, trapper: true}
    - {key: agent.ping, interval: 1h}
    - {key: web.text, type: text, notCollected: HTTP agent}
  discovery:
    - {key: trap.found, trapper: true, items: [{key: "trap.item[{#A}]", type: unsigned, trapper: true, steps: [{multiplier: "11"}]}]}
  triggers:
    - {name: high, expression: "last(//trap.n)>1000000", severity: high}
`

// TestZabbixSenderSendsValues sends values with a real zabbix_sender, and expects the server to store each
// accepted value once. It also sends from a forbidden address, for unknown and discovered items and unknown
// hosts, and across a kill of the server. Each value that was answered as processed is there once, with its
// time, and its trigger opens a problem.
func TestZabbixSenderSendsValues(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("zabbix_sender"); err != nil {
		t.Skip("zabbix_sender is not installed (Debian: zabbix-sender)")
	}
	address := harness.ReservePort(t)
	s := harness.StartServer(t, "--zabbix-listen", address)
	s.Login()
	s.Apply(trapperTemplate)
	s.StartAgent("db1")
	s.AwaitOutput("get items", "db1") // a sender does not repeat values of unknown hosts
	host, port, _ := net.SplitHostPort(address)
	send := func(code int, text string, args ...string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), "zabbix_sender", append([]string{"-vv", "-z", host, "-p", port}, args...)...)
		out, _ := c.CombinedOutput()
		assert(t, c.ProcessState.ExitCode() == code && strings.Contains(string(out), text), "zabbix_sender %v: exit code %d, want %d with %q:\n%s", args, c.ProcessState.ExitCode(), code, text, out)
	}
	one := []string{"-s", "web1", "-k", "trap.n", "-o", "42"}
	send(1, "no namespace allows address 127.0.0.1", one...)
	s.Apply("{kind: Namespace, metadata: {name: default}, spec: {zabbixFrom: [127.0.0.1]}}")
	send(0, "processed: 1; failed: 0; total: 1", one...)
	send(0, "processed: 1; failed: 0; total: 1", "-s", "db1", "-k", "trap.text[a,b]", "-o", "fine words")
	send(0, "processed: 1; failed: 0; total: 1", "-s", "web1", "-k", "trap.found", "-o", `[{"{#A}":"x y"}]`)
	s.AwaitOutput("get items", "trap.item[x y]")
	send(0, "processed: 1; failed: 0; total: 1", "-s", "web1", "-k", "trap.item[x y]", "-o", "8")
	s.AwaitOutput("get items", "88")
	send(2, "first failed: web1 trap.m: no Template of the node has this item", "-s", "web1", "-k", "trap.m", "-o", "42")
	send(2, "first failed: nosuch trap.n: no node has this name", "-s", "nosuch", "-k", "trap.n", "-o", "42")
	send(2, "first failed: web1 agent.ping: the item has no trapper: true", "-s", "web1", "-k", "agent.ping", "-o", "1")
	send(2, "first failed: web1 web.text: the item has no trapper: true", "-s", "web1", "-k", "web.text", "-o", "1")

	// 300 values are two requests: a second apart, the last one ten seconds ago.
	var lines strings.Builder
	last := time.Now().Unix() - 10
	for i := range 300 {
		fmt.Fprintf(&lines, "db1 trap.n %d 5000000 %d\n", last-299+int64(i), i)
	}
	fmt.Fprintf(&lines, "web1 trap.n %d 7 200000\n", time.Now().Unix()+3600)
	file := filepath.Join(t.TempDir(), "values")
	assert(t, os.WriteFile(file, []byte(lines.String()), 0o600) == nil, "write %s", file)
	send(2, "first failed: web1 trap.n: the time of the value is more than 10 minutes in the future", "-T", "-N", "-i", file)
	s.Kill()
	s.Launch()
	s.WaitReady(40 * time.Second)
	harness.Run(t, s.Env(), "query", `sum(count_over_time(trap_n{node="db1"}[1h])) == 300`).Expect(0, "300")
	harness.Run(t, s.Env(), "query", fmt.Sprintf(`round((timestamp(trap_n{node="db1"}) - %d) * 1000) == 5 and trap_n == 2990`, last)).Expect(0, "db1")
	s.AwaitOutput("get items", "420", "fine words")

	send(0, "processed: 1", "-s", "web1", "-k", "trap.n", "-o", "200000")
	s.AwaitOutput("get problems", "web1", "trap:high")
	send(0, "processed: 1", "-s", "web1", "-k", "trap.n", "-o", "1")
	s.AwaitOutput("get history web1/trap:high", "OK, was CRITICAL")
	assert(t, s.Metric("muster_zabbix_values_total", "outcome", "unknown_key") == 0, "counted before the restart")
	s.AwaitMetric(2, "muster_zabbix_values_total", "outcome", "kept")
}

// activeTemplate has items that an agent of Zabbix collects, of which it does not know one, and a trigger that is true at once.
const activeTemplate = `
{kind: Namespace, metadata: {name: default}, spec: {zabbixFrom: [127.0.0.1]}}
---
{kind: Handler, metadata: {name: hook}, spec: {webhook: {url: %q}}}
---
{kind: Node, metadata: {name: zabbix-one}, spec: {keepalive: {interval: 5s, timeout: 15s, handlers: [hook]}}}
---
{kind: Property, metadata: {name: fs}, spec: {property: "{$FS}", scope: global, value: /}}
---
kind: Template
metadata: {name: active}
spec:
  targets: {groups: [all]}
  items:
    - {key: system.uptime, type: unsigned, interval: 1s, unit: s}
    - {key: "vfs.fs.size[{$FS},pused]", interval: 2s, unit: "%%"}
    - {key: "nosuch.key[x]", interval: 1s}
  discovery:
    - {key: net.if.discovery, interval: 1s, items: [{key: "net.if.in[{#IFNAME}]", type: unsigned, interval: 1s}]}
  macros: {"{$FS}": /nosuch}
  triggers:
    - {name: up, expression: "min(//system.uptime,#3)>0", severity: high, alert: {handlers: [hook]}}
`

// TestZabbixAgentSendsValues runs the real zabbix_agentd and zabbix_agent2, and expects their values. One has a
// declared node and one a new node; a discovered item has values, too. Both get the items of the Template, a trigger
// opens a problem that a handler gets, the server is killed while values come, and a killed agent becomes a keepalive
// problem.
func TestZabbixAgentSendsValues(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("zabbix_agentd")
	if err != nil {
		t.Skip("zabbix_agentd is not installed (Debian: zabbix-agent)")
	}
	address := harness.ReservePort(t)
	s := harness.StartServer(t, "--zabbix-listen", address)
	s.Login()
	hook := newWebhook(t, 0)
	s.Apply(fmt.Sprintf(activeTemplate, hook.URL))
	one := startZabbixAgent(t, program, address, "Zabbix One")
	if newer, err := exec.LookPath("zabbix_agent2"); err == nil { // Debian: zabbix-agent2
		program = newer
	}
	startZabbixAgent(t, program, address, "auto2")
	s.AwaitOutput("get items", "zabbix-one", "auto2", "system.uptime", "vfs.fs.size[{$FS},pused]", "unsupported: Unsupported item key.")
	s.AwaitOutput("get problems", "zabbix-one", "auto2", "active:up")
	problems, err := s.Client().Problems.List(t.Context(), "", "zabbix-one", "active:up", true, 0, "")
	assert(t, err == nil && len(problems.Items) == 1, "problems: %v %+v", err, problems.Items)
	harness.Until(t, 40*time.Second, "a message about the problem", func() (string, bool) {
		kinds := hook.kindsOf(problems.Items[0].ID)
		return fmt.Sprint(kinds), len(kinds) == 1
	})
	harness.Run(t, s.Env(), "describe", "node", "auto2").Expect(0, "Zabbix agent", "hostMetadata")

	s.Kill()
	s.Launch()
	s.WaitReady(40 * time.Second)
	const seconds = `count_over_time(system_uptime{node="zabbix-one"}[1h])`
	s.AwaitOutput("query "+seconds+">5", "zabbix-one")
	// None comes twice. A busy machine may delay the first value by a second.
	harness.Run(t, s.Env(), "query", seconds+" <= 2 + max_over_time(system_uptime[1h]) - min_over_time(system_uptime[1h])").Expect(0, "zabbix-one")
	s.AwaitOutput(`query net_if_in{node="zabbix-one"}`, "net.if.in[lo]") // with its next request for active checks

	one.kill()
	s.AwaitOutput("get problems --node zabbix-one", "keepalive")
	assert(t, s.Metric("muster_zabbix_values_total", "outcome", "kept") > 0, "no value is counted")
}

// zabbixAgent is a running agent of Zabbix.
type zabbixAgent struct{ kill func() }

// startZabbixAgent starts an agent of Zabbix that sends values to a server. The agent has a host name and more lines of configuration.
func startZabbixAgent(t *testing.T, program, server, host string, more ...string) zabbixAgent {
	listen := ""
	if strings.HasSuffix(program, "2") {
		listen = harness.ReservePort(t)
	}
	settings := fmt.Sprintf("ServerActive=%s\nHostname=%s\nHostMetadata=linux\nRefreshActiveChecks=60\nBufferSend=1\nBufferSize=5000\n", server, host)
	return startZabbixProgram(t, program, listen, settings+strings.Join(append(more, ""), "\n"))
}

// startZabbixProgram starts zabbix_agentd or zabbix_agent2 with settings. The program listens at an address, or nowhere if that is
// empty. The
// test's end kills it with its child processes.
func startZabbixProgram(t *testing.T, program, listen, settings string) zabbixAgent {
	dir := t.TempDir()
	file := filepath.Join(dir, "zabbix_agentd.conf")
	config := fmt.Sprintf("LogFile=%s/log\nPidFile=%s/pid\n%s", dir, dir, settings)
	if listen == "" {
		config += "StartAgents=0\n"
	} else {
		config += "ListenIP=127.0.0.1\nListenPort=" + strings.TrimPrefix(listen, "127.0.0.1:") + "\n"
	}
	if strings.HasSuffix(program, "2") {
		config += fmt.Sprintf("LogType=file\nControlSocket=%s/socket\n", dir)
	} else {
		config += "AllowRoot=1\n"
	}
	assert(t, os.WriteFile(file, []byte(config), 0o600) == nil, "write %s", file)
	c := exec.Command(program, "-f", "-c", file)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	assert(t, c.Start() == nil, "start %s", program)
	kill := sync.OnceFunc(func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		_ = c.Wait()
	})
	t.Cleanup(func() {
		kill()
		if log, err := os.ReadFile(filepath.Join(dir, "log")); err == nil && t.Failed() {
			t.Logf("%s: %s", filepath.Base(program), log)
		}
	})
	return zabbixAgent{kill}
}
