//go:build linux

package test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// strictTemplate has a namespace that requires certificates, and items for zabbix_sender and Zabbix's agents.
const strictTemplate = `
{kind: Namespace, metadata: {name: default}, spec: {zabbixFrom: [127.0.0.1], zabbixTLS: certificate}}
---
{kind: Node, metadata: {name: web01}}
---
kind: Template
metadata: {name: strict}
spec:
  targets: {groups: [all]}
  items: [{key: trap.n, type: unsigned, trapper: true}, {key: system.uptime, type: unsigned, interval: 1s}]
`

// TestZabbixProgramsConnectByTLS runs the real zabbix_sender, zabbix_agentd and zabbix_agent2 with certificates. The namespace requires
// certificates, which are made by the commands of docs/from-zabbix.md. A sender without a certificate, one with the
// certificate of another host and one with a revoked certificate are refused with the reason.
func TestZabbixProgramsConnectByTLS(t *testing.T) {
	t.Parallel()
	sender := testenv.Program(t, "zabbix_sender", "zabbix-sender")
	agentd := testenv.Program(t, "zabbix_agentd", "zabbix-agent", "/usr/sbin")
	dir := t.TempDir()
	revoke := makeCertificates(t, "from-zabbix.md", dir, "web01", "agent-one", "agent-two", "lost")
	revoke("lost")
	address := harness.ReservePort(t)
	s := harness.StartServer(t, "--zabbix-listen", address, "--zabbix-client-ca", filepath.Join(dir, "zabbix-ca.crt"), "--zabbix-client-crl", filepath.Join(dir, "zabbix-ca.crl"))
	s.Login()
	s.Apply(strictTemplate)
	serverCA := writeFileInFolder(t, dir, "muster-ca.crt", string(s.Authority().CAPEM()))
	host, port, _ := net.SplitHostPort(address)
	send := func(code int, text, node, certificate string) {
		t.Helper()
		args := []string{"-vv", "-z", host, "-p", port, "-s", node, "-k", "trap.n", "-o", "42"}
		if certificate != "" {
			args = append(args, "--tls-connect", "cert", "--tls-ca-file", serverCA, "--tls-cert-file", filepath.Join(dir, certificate+".crt"), "--tls-key-file", filepath.Join(dir, certificate+".key"))
		}
		c := exec.CommandContext(t.Context(), sender, args...)
		out, _ := c.CombinedOutput()
		assert(t, c.ProcessState.ExitCode() == code && strings.Contains(string(out), text), "%v: exit code %d, want %d with %q:\n%s", args, c.ProcessState.ExitCode(), code, text, out)
	}
	send(1, "requires TLS with a certificate that names the host", "web01", "")
	send(0, "processed: 1; failed: 0; total: 1", "web01", "web01")
	send(2, "first failed: web01 trap.n: its namespace requires TLS with a certificate that names this host", "web01", "agent-one")
	send(1, "was revoked at", "web01", "lost")

	programs := map[string]string{"agent-one": agentd, "agent-two": agentd}
	if newer, err := exec.LookPath("zabbix_agent2"); err == nil { // Debian: zabbix-agent2
		programs["agent-two"] = newer
	}
	for name, program := range programs {
		startZabbixAgent(t, program, address, name, "TLSConnect=cert", "TLSCAFile="+serverCA, "TLSCertFile="+filepath.Join(dir, name+".crt"), "TLSKeyFile="+filepath.Join(dir, name+".key"))
	}
	s.AwaitOutput(`query system_uptime{node="agent-one"}>0`, "agent-one")
	s.AwaitOutput(`query system_uptime{node="agent-two"}>0`, "agent-two")
	startZabbixAgent(t, agentd, address, "agent-three")
	s.AwaitMetric(2, "muster_zabbix_requests_total", "outcome", "certificate")
	s.Try("get", "nodes").Expect(0, "web01", "agent-one", "agent-two").ExpectNot("agent-three")
}

// TestZabbixAgentFollowsLogs runs the real zabbix_agentd and zabbix_agent2 with items of logs, and expects each line once. The log is
// rotated, and the server and the agents are killed in turn. Lines that were written while an agent was away come, too.
func TestZabbixAgentFollowsLogs(t *testing.T) {
	t.Parallel()
	programs := []string{testenv.Program(t, "zabbix_agentd", "zabbix-agent", "/usr/sbin")}
	if newer, err := exec.LookPath("zabbix_agent2"); err == nil { // Debian: zabbix-agent2
		programs = append(programs, newer)
	}
	address := harness.ReservePort(t)
	s := harness.StartServer(t, "--zabbix-listen", address, "--snapshot-cycle", "2s")
	s.Login()
	dir := t.TempDir()
	path := filepath.Join(dir, "app.log")
	s.Apply(fmt.Sprintf(`
{kind: Namespace, metadata: {name: default}, spec: {zabbixFrom: [127.0.0.1]}}
---
kind: Template
metadata: {name: app}
spec:
  targets: {groups: [all]}
  items: [{key: 'logrt[%[1]s/^app\.log,line]', type: log, interval: 1s}, {key: 'logrt.count[%[1]s/^app\.log,line]', type: unsigned, interval: 1s}]
`, dir))
	write := func(line string) {
		t.Helper()
		f := testenv.Value(os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(t)
		testenv.Value(fmt.Fprintln(f, line))(t)
		testenv.NoError(t, f.Close())
	}
	client := s.Client()
	texts := func(node string) (got []string) {
		list, err := client.Texts(t.Context(), v1.TextFilter{Namespace: "default", Node: node, Limit: 10_000})
		if err == nil {
			for _, v := range list.Items {
				got = append(got, v.Text)
			}
		}
		return got
	}
	want := []string{"first line"}
	write(want[0])
	agents := make([]zabbixAgent, len(programs))
	setting := []string{"MaxLinesPerSecond=1000", "Plugins.Log.MaxLinesPerSecond=1000"}
	start := func() {
		for i, program := range programs {
			agents[i] = startZabbixAgent(t, program, address, fmt.Sprint("follower", i), setting[i])
		}
	}
	await := func(what string) {
		t.Helper()
		for i := range programs {
			node := fmt.Sprint("follower", i)
			harness.Until(t, 60*time.Second, what+" of "+node, func() (string, bool) {
				got := texts(node)
				return fmt.Sprintf("%d lines of %d: %q", len(got), len(want), got[max(0, len(got)-3):]), slices.Equal(got, want)
			})
		}
	}
	start()
	await("the first line")
	for round := range 5 {
		for n := range 40 {
			want = append(want, fmt.Sprintf("line %d of round %d", n, round))
			write(want[len(want)-1])
		}
		write("does not match")
		switch round {
		case 0, 3:
			s.Kill()
			s.Launch()
			s.WaitReady(40 * time.Second)
		case 1:
			rotated := testenv.Value(os.Stat(path))(t)
			testenv.NoError(t, os.Rename(path, path+".1"))
			harness.Until(t, 10*time.Second, "another second: the agents tell files by their times", func() (string, bool) {
				return "", time.Now().Unix() > rotated.ModTime().Unix()
			})
		case 2:
			await("the lines before the agents end")
			for _, a := range agents {
				a.kill()
			}
			want = append(want, "line of no agent")
			write(want[len(want)-1])
			s.Kill()
			s.Launch()
			s.WaitReady(40 * time.Second)
			start()
			await("the lines without agents") // agents without an answer ask again after a minute
		}
	}
	await("all lines")
	for i := range programs {
		s.AwaitOutput(fmt.Sprintf(`query sum_over_time(logrt_count{node="follower%d"}[1h])==%d`, i, len(want)), fmt.Sprint("follower", i))
	}
}
