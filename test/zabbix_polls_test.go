//go:build linux

package test

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/muster-fleet/muster/test/harness"
)

// polledTemplate has nodes whose agents the server polls, of which one listens nowhere, and items that they collect.
const polledTemplate = `
{kind: Node, metadata: {name: polled1}, spec: {zabbixAgent: {address: %q}, keepalive: {interval: 5s, timeout: 15s}}}
---
{kind: Node, metadata: {name: polled2}, spec: {zabbixAgent: {address: %q}}}
---
{kind: Node, metadata: {name: nowhere}, spec: {zabbixAgent: {address: %q}, keepalive: {interval: 5s, timeout: 15s}}}
---
kind: Template
metadata: {name: polled}
spec:
  targets: {groups: [all]}
  items:
    - {key: system.uptime, type: unsigned, interval: 1s, unit: s}
    - {key: "vfs.fs.size[/,pused]", interval: 2s, unit: "%%"}
    - {key: "nosuch.key[x]", interval: 1s}
    - {key: "log[/var/log/nosuch]", type: log, interval: 1s}
  discovery:
    - {key: net.if.discovery, interval: 1s, items: [{key: "net.if.in[{#IFNAME}]", type: unsigned, interval: 1s}]}
  triggers:
    - {name: up, expression: "min(//system.uptime,#3)>0", severity: high}
`

// TestZabbixAgentsArePolled polls the real zabbix_agentd and zabbix_agent2, and expects values of all items. The server is
// killed while values come, an agent stops and starts, and an agent that listens nowhere is a keepalive problem with its reason.
func TestZabbixAgentsArePolled(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("zabbix_agentd")
	if err != nil {
		t.Skip("zabbix_agentd is not installed (Debian: zabbix-agent)")
	}
	newer, err := exec.LookPath("zabbix_agent2") // Debian: zabbix-agent2
	if err != nil {
		newer = program
	}
	one, two, nowhere := harness.ReservePort(t), harness.ReservePort(t), harness.ReservePort(t)
	s := harness.StartServer(t)
	s.Login()
	first := startPolledAgent(t, program, one)
	startPolledAgent(t, newer, two)
	s.Apply(fmt.Sprintf(polledTemplate, one, two, nowhere))
	s.AwaitOutput("get items", "polled1", "polled2", "system.uptime", "vfs.fs.size[/,pused]", "unsupported: Unsupported item key.", "net.if.in[lo]")
	s.AwaitOutput("get problems", "polled1", "polled2", "polled:up")
	s.AwaitOutput("get problems --node nowhere", "keepalive")
	harness.Run(t, s.Env(), "why", "nowhere").Expect(0, "cannot poll the agent of Zabbix at "+nowhere, "connection refused")
	harness.Run(t, s.Env(), "why", "nowhere/keepalive").Expect(0, "cannot poll the agent of Zabbix at "+nowhere)
	harness.Run(t, s.Env(), "status").Expect(harness.AnyCode, "cannot poll the agent of Zabbix: connection refused")
	harness.Run(t, s.Env(), "describe", "node", "polled1").Expect(0, "Zabbix agent", one)
	harness.Run(t, s.Env(), "why", "polled1").Expect(0, "the agent is connected")

	s.Kill()
	s.Launch()
	s.WaitReady(40 * time.Second)
	s.AwaitMetric(5, "muster_zabbix_polls_total", "outcome", "value")
	// A new item is polled at once, then each second: no value is stored twice.
	harness.Run(t, s.Env(), "query", `count_over_time(system_uptime{node="polled1"}[1h]) <= 3 + max_over_time(system_uptime[1h]) - min_over_time(system_uptime[1h])`).Expect(0, "polled1")

	first.kill()
	s.AwaitOutput("get history polled1/keepalive", "CRITICAL")
	harness.Run(t, s.Env(), "why", "polled1").Expect(0, "cannot poll the agent of Zabbix at "+one)
	startPolledAgent(t, program, one)
	s.AwaitOutput("get history polled1/keepalive", "OK, was CRITICAL")
	assert(t, s.Metric("muster_zabbix_polls_total", "outcome", "value") > 0 && s.Metric("muster_zabbix_polled_agents_failing") == 1, "metrics of polls")
	s.Apply("{kind: Node, metadata: {name: nowhere}, spec: {}}")
	s.AwaitOutput("why nowhere", "stopped")
}

// startPolledAgent starts an agent of Zabbix that only answers, at an address of its own.
func startPolledAgent(t *testing.T, program, address string) zabbixAgent {
	return startZabbixProgram(t, program, address, "Server=127.0.0.1\n")
}
