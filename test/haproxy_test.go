//go:build linux

package test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// balancer is the address from which HAProxy connects in these tests, so that it can be
// told from the clients on the same machine.
const balancer = "127.0.0.2"

// Behind HAProxy with idle time-outs: agents stay connected beyond them, the server sees
// whom HAProxy speaks for, its health checks fill no log, and when the server went away and
// returned everybody is back. Nobody else's PROXY header is believed.
func TestThroughHAProxy(t *testing.T) {
	t.Parallel()
	// In full: the time-outs of the manual, and keepalives so rare that only pings remain.
	silent := harness.Duration(t, 3*time.Second, 60*time.Second)
	keepalive := "1s"
	if silent > 3*time.Second {
		keepalive = "5m"
	}
	s := harness.NewServer(t, "--proxy-from", balancer, "--keepalive-interval", keepalive, "--keepalive-timeout", "11m", "--log-level", "info")
	front := harness.Port(t)
	harness.HAProxy(t, silent, "send-proxy-v2 source "+balancer+" check inter 100ms", map[string]string{front: s.Listen})
	s.Start()
	s.Client()
	a := s.NewAgent("balanced", "--server", front)
	a.Start()
	a.AwaitLog("msg=joined", "msg=connected server="+front)
	began := time.Now()

	t.Run("who is whose", func(t *testing.T) {
		harness.Until(t, 30*time.Second, "the agent's address is its own", func() (string, bool) {
			text := s.CLI("get", "agents", "-o", "json")
			return text, strings.Contains(text, `"address": "127.0.0.1"`) || strings.Contains(text, `"address": "127.0.0.1:`)
		})
		curl(t, 22, "--interface", "127.0.0.9", "--insecure", "--fail", "--json", `{"user": "admin", "password": "wrong"}`, "https://"+front+"/api/v1/login")
		awaitLogLine(t, s, `msg="login refused" user=admin from=127.0.0.9`)
		throughBalancer(t, s, front).CLI("node", "token", "--uses", "1")
		if audit := s.CLI("audit", "-o", "json"); strings.Contains(audit, balancer) {
			t.Errorf("the balancer's address stands in the audit:\n%s", audit)
		}
	})
	t.Run("nobody else is believed", func(t *testing.T) {
		curl(t, -1, "--insecure", "--haproxy-protocol", "https://"+s.Listen+"/livez")
		awaitLogLine(t, s, "add --proxy-from 127.0.0.1;")
		curl(t, -1, "--insecure", "--interface", balancer, "https://"+s.Listen+"/livez")
		awaitLogLine(t, s, "without a PROXY header")
		curl(t, 0, "--insecure", "https://"+s.Listen+"/livez")
		for _, outcome := range []string{"proxy_not_listed", "proxy_missing"} {
			if n := s.Metric("muster_session_handshakes_total", `outcome="`+outcome+`"`); n != 1 {
				t.Errorf("%v connections are counted as %s", n, outcome)
			}
		}
	})
	t.Run("silence is cut, agents are not", func(t *testing.T) {
		nc, err := net.Dial("tcp", front)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if _, err := io.Copy(io.Discard, nc); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Fatal(err)
		}
		harness.Until(t, 2*silent, "the agent was connected for longer than a time-out", func() (string, bool) {
			return time.Since(began).String(), time.Since(began) > silent+silent/2
		})
		if n := strings.Count(a.Log(), "msg=connected"); n != 1 {
			t.Errorf("the agent connected %d times:\n%s", n, a.Log())
		}
	})
	t.Run("health checks", func(t *testing.T) {
		harness.Until(t, 30*time.Second, "they are counted", func() (string, bool) {
			n := s.Metric("muster_session_handshakes_total", `outcome="proxy_check"`)
			return fmt.Sprint(n), n > 20
		})
		if n := strings.Count(s.Log(), "\n"); n > 60 {
			t.Errorf("the log has %d lines:\n%s", n, s.Log())
		}
	})
	s.Stop()
	c := strings.Count(a.Log(), "msg=connected")
	s.Start()
	harness.Until(t, 90*time.Second, "the agent is back", func() (string, bool) { return a.Log(), strings.Count(a.Log(), "msg=connected") > c })
	s.Stop()
}

// throughBalancer is the same server as people reach it through a balancer.
func throughBalancer(t *testing.T, s *harness.Server, front string) *harness.Server {
	t.Helper()
	text, err := os.ReadFile(s.Context)
	if err != nil {
		t.Fatal(err)
	}
	through := *s
	through.Context = filepath.Join(t.TempDir(), "context.yaml")
	if err := os.WriteFile(through.Context, []byte(strings.ReplaceAll(string(text), s.Listen, front)), 0o600); err != nil {
		t.Fatal(err)
	}
	return &through
}

// curl runs it and expects an exit code; -1: any but success.
func curl(t *testing.T, code int, args ...string) string {
	t.Helper()
	program := testenv.Program(t, "curl", "curl")
	cmd := exec.Command(program, append([]string{"--silent", "--show-error", "--max-time", "20", "--noproxy", "*"}, args...)...)
	out, err := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != code && (code >= 0 || got == 0) {
		t.Errorf("curl %q: exit code %d (%v)\n%s", args, got, err, out)
	}
	return string(out)
}

func awaitLogLine(t *testing.T, s *harness.Server, text string) {
	t.Helper()
	harness.Until(t, 20*time.Second, "the server says "+text, func() (string, bool) { return s.Log(), strings.Contains(s.Log(), text) })
}

// People and agents have listeners of their own behind one HAProxy: agents join and work
// at theirs, and are told when they come to the other.
func TestSeparateListenersThroughHAProxy(t *testing.T) {
	t.Parallel()
	agents := harness.Port(t)
	s := harness.NewServer(t, "--listen-agents", agents, "--proxy-from", balancer)
	forPeople, forAgents := harness.Port(t), harness.Port(t)
	harness.HAProxy(t, time.Minute, "send-proxy-v2 source "+balancer, map[string]string{forPeople: s.Listen, forAgents: agents})
	s.Start()
	s.Client()
	a := s.NewAgent("apart", "--server", forAgents)
	a.Start()
	a.AwaitLog("msg=connected server=" + forAgents)
	s.Counter("worked", "apart").AwaitRuns(1)
	awaitResultCount(t, s, "worked", 1)
	a.Stop()
	a.Args = []string{"--server", forPeople}
	a.Start()
	a.AwaitLog(forPeople+" does not serve agents", "--listen-agents")
	awaitLogLine(t, s, "refused an agent on the listener for people")
	a.Stop()
	if text := throughBalancer(t, s, forPeople).CLI("get", "nodes"); !strings.Contains(text, "apart") {
		t.Errorf("people read:\n%s", text)
	}
	s.Stop()
}

// One port for both: real clients without ALPN muster.v1 are not asked for a certificate,
// one with it is.
func TestCertificateRequestOnlyForAgents(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t)
	if text := curl(t, 0, "--insecure", "--verbose", "https://"+s.Listen+"/livez"); strings.Contains(text, "Request CERT") || !strings.Contains(text, "TLS handshake, Finished") {
		t.Errorf("curl was asked for a certificate:\n%s", text)
	}
	openssl := testenv.Program(t, "openssl", "openssl")
	for protocol, asked := range map[string]bool{"": false, "h2,http/1.1": false, "muster.v1": true} {
		args := []string{"s_client", "-connect", s.Listen, "-msg"}
		if protocol != "" {
			args = append(args, "-alpn", protocol)
		}
		cmd := exec.Command(openssl, args...)
		cmd.Stdin = strings.NewReader("")
		out, _ := cmd.CombinedOutput() // asked for a certificate it has none, and fails
		if text := string(out); strings.Contains(text, "CertificateRequest") != asked || !strings.Contains(text, "ServerHello") {
			t.Errorf("openssl with ALPN %q, asked %v:\n%s", protocol, !asked, text)
		}
	}
	s.Stop()
}
